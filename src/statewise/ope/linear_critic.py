"""Linear critics in the state ratio's own features: V̂ by one solve, Q̂ by one regression for each action.

V̂ = qᵀφ with Σᵢ ωᵢ ρᵢ φᵢ (φᵢ − γcᵢ φ'ᵢ)ᵀ q = Σᵢ ωᵢ ρᵢ rᵢ φᵢ (least-squares temporal differences), and
Q̂(·,a) = the ridge regression of r + γcV̂(s') on φ over the rows where a was taken. ρ weighs whole differences: a mean of
1.01 instead of 1 would, before γφ' alone, be worth 0.01/(1 − γ) of all value.

Every fold of episodes is judged by the critic of the others. What each episode does to those critics, and through them
to an estimate, is known to first order: `moved_by` follows the derivative backwards through both regressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from statewise.ope.equations import Equations
from statewise.ope.prepared import Case
from statewise.parts.ratio_closed_form import FOLDS

RIDGE = 1e-4  # of features with second moment 1
# Of the normal equations, which have the squares of 1 − γP: what changes slowly, as health does, has little there, and
# a penalty fit for w takes it for noise. On HIV this is the difference between values 70 % too low and 11 % off.
SLOW = 1e-6
LONGER = 5  # times


@dataclass(frozen=True, eq=False)
class Differences:
    """Temporal differences over some folds, solved: (GᵀG + κI) q = Gᵀb."""

    matrix: Float[np.ndarray, "rank rank"]  # G
    earned: Float[np.ndarray, " rank"]  # b
    normal: Float[np.ndarray, "rank rank"]  # GᵀG + κI: where the policy is far, G itself can be singular
    value: Float[np.ndarray, " rank"]  # q


@dataclass(frozen=True, eq=False)
class Fit:
    """The critic of one fold, fitted to the others."""

    differences: Differences
    grams: Float[np.ndarray, "actions rank rank"]
    weights: Float[np.ndarray, "rank actions"]  # Q̂(s,a) = weights[:, a]ᵀφ(s)


@dataclass(frozen=True, eq=False)
class Critic:
    """Q̂(s,a) of the logged actions and V̂(s) = Σ_a π(a|s) Q̂(s,a) on every row, and how they came about."""

    chosen: Float[np.ndarray, " steps"]
    values: Float[np.ndarray, " steps"]
    fits: tuple[Fit, ...]


def state_values(
    case: Case, rewards: Float[np.ndarray, " steps"]
) -> tuple[Float[np.ndarray, " steps"], Float[np.ndarray, " steps"]]:
    """V̂ of each row's state, and of the state after it (0 at an episode's end), from all rows."""
    equations = case.prepared.horizon_equations
    weights = _temporal_differences(case, rewards, range(FOLDS)).value
    values = np.clip(equations.in_log_order(equations.here @ weights.astype(np.float32)), *_bounds(case, rewards))
    return values, np.append(values[1:], 0.0)


def cross_fitted(case: Case, rewards: Float[np.ndarray, " steps"]) -> Critic:
    """Each fold's critic, from the episodes of the others."""
    # the rewards are kept with it, so that no others can take their place in memory
    return case.remembered(("critic", id(rewards)), lambda: (rewards, _cross_fitted(case, rewards)))[1]


def _cross_fitted(case: Case, rewards: Float[np.ndarray, " steps"]) -> Critic:
    log, equations = case.prepared, case.prepared.horizon_equations
    actions = log.dataset.action_count
    taken, reward = log.dataset.actions[equations.order], rewards[equations.order]
    regressions = log.remembered(
        "regressions", lambda: [_regressions(equations, taken, fold, actions) for fold in equations.folds]
    )
    earned = [_earned(equations, taken, reward, fold, actions) for fold in equations.folds]
    everything, fits = np.empty((len(taken), actions)), []
    for held_out, (a, b) in enumerate(equations.folds):
        others = [f for f in range(FOLDS) if f != held_out]
        differences = _temporal_differences(case, rewards, others)
        grams, onward = (np.sum([regressions[f][i] for f in others], axis=0) for i in range(2))
        grams = grams + RIDGE * np.eye(len(differences.value))
        targets = np.sum([earned[f] for f in others], axis=0) + onward @ differences.value
        weights = np.linalg.solve(grams, targets[:, :, None])[:, :, 0].T
        everything[a:b] = equations.here[a:b] @ weights.astype(np.float32)
        fits.append(Fit(differences, grams, weights))
    everything = np.clip(equations.in_log_order(everything), *_bounds(case, rewards))
    chosen = np.take_along_axis(everything, log.dataset.actions[:, None].astype(np.int64), axis=1)[:, 0]
    return Critic(chosen, (everything * case.probabilities).sum(axis=1), tuple(fits))


def moved_by(
    case: Case, rewards: Float[np.ndarray, " steps"], critic: Critic, carried: Float[np.ndarray, " steps"]
) -> Float[np.ndarray, " episodes"]:
    """What each episode moves V = mean V̂(s₀) + Σᵢ carriedᵢ (rᵢ + γcV̂(s'ᵢ) − Q̂(sᵢ,aᵢ)) by through the critics.

    With h_a = dV/dθ_a and z_a = gram_a⁻¹ h_a, a row adds ω zᵀφ (r + γcV̂' − Q̂) through Q̂'s regression. Through q, which
    has its targets: with ξ = Σ ω γc (zᵀφ) φ', u = (GᵀG + κI)⁻¹ξ and e = b − Gq, it adds
    ωρ [(φᵀe) (φ − γcφ')ᵀu + (φᵀGu) (r + γcφ'ᵀq − φᵀq)].
    """
    log, equations = case.prepared, case.prepared.horizon_equations
    order, count = equations.order, log.dataset.episodes
    here, after = equations.here, np.append(equations.here[1:], equations.here[:1], axis=0)
    rows = np.arange(len(order))
    taken, reward, rho = log.dataset.actions[order].astype(np.int64), rewards[order], case.ratio[order]
    onward, policy, share = log.onward[order], case.probabilities[order], carried[order]
    following = np.append(policy[1:], policy[:1], axis=0)
    fold = np.repeat(np.arange(FOLDS), np.diff(equations.edges))
    first = np.concatenate([a + start for (a, _), start in zip(equations.folds, equations.first, strict=True)])
    total = np.zeros(count)
    for held_out, fit in enumerate(critic.fits):
        inside, outside = fold == held_out, np.where(fold != held_out, equations.weight, 0.0)
        begins = first[inside[first]]
        slope = _sums(here[begins], policy[begins] / count)
        slope += _sums(after[inside], (share * onward)[inside, None] * following[inside])
        ours = np.zeros_like(policy)
        ours[rows, taken] = np.where(inside, share, 0.0)
        slope -= _sums(here, ours)
        back = np.linalg.solve(fit.grams, slope.T[:, :, None])[:, :, 0].T  # z
        q, matrix = fit.differences.value, fit.differences.matrix
        left = _times(here, back)[rows, taken]
        ahead = onward * _times(after, q[:, None])[:, 0]
        added = outside * left * (reward + ahead - _times(here, fit.weights)[rows, taken])
        xi = _sums(after, (outside * onward * left)[:, None])[:, 0]
        u = np.linalg.solve(fit.differences.normal, xi)
        error = fit.differences.earned - matrix @ q
        at = _times(here, np.stack([error, matrix @ u, u, q], axis=1))
        change = at[:, 2] - onward * _times(after, u[:, None])[:, 0]
        added += outside * rho * (at[:, 0] * change + at[:, 1] * (reward + ahead - at[:, 3]))
        by_episode = log.by_episode(equations.in_log_order(added))
        seen = equations.fold_of_episode != held_out
        total += np.where(seen, by_episode - by_episode[seen].mean(), 0.0)
    return count * total


def _bounds(case: Case, rewards: Float[np.ndarray, " steps"]) -> tuple[float, float]:
    """What the longest episode would earn at the least and the greatest reward: no critic is believed more.

    Where episodes end by themselves, one that is `LONGER` than the log's longest.
    """
    steps = min(case.prepared.longest, LONGER * float(case.prepared.discounts.sum()))
    return min(steps * float(rewards.min()), 0.0), max(steps * float(rewards.max()), 0.0)


def _temporal_differences(case: Case, rewards: Float[np.ndarray, " steps"], folds: Sequence[int]) -> Differences:
    equations, solved = case.prepared.horizon_equations, case.horizon_solved
    carried = equations.weight * case.ratio[equations.order]
    reward = rewards[equations.order]
    matrix = np.zeros_like(solved.states[0])
    earned = np.zeros(len(matrix))
    fresh = equations.initial.mean(axis=0)
    for f in folds:
        a, b = equations.folds[f]
        begins = _sum(equations.here[a:b], carried[a:b] * equations.restart[a:b])
        # x' = γcφ' + (1 − γc)φ̄₀: what begins anew is no part of this episode's value
        matrix += np.outer(begins, fresh) - solved.states[f].T
        earned += _sum(equations.here[a:b], carried[a:b] * reward[a:b])
    normal = matrix.T @ matrix + (len(folds) / FOLDS) ** 2 * SLOW * np.eye(len(matrix))
    return Differences(matrix, earned, normal, np.linalg.solve(normal, matrix.T @ earned))


def _regressions(
    equations: Equations, taken: Int[np.ndarray, " steps"], fold: tuple[int, int], actions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Σ ω φφᵀ and Σ ω φ(γcφ')ᵀ over a fold's rows, for each action: the same for every policy."""
    fresh = equations.initial.mean(axis=0)
    grams, onward = [], []
    for rows in _rows_by_action(taken, fold, actions):
        here = equations.here[rows]
        scaled = here * equations.weight[rows].astype(np.float32)[:, None]
        grams.append((scaled.T @ here).astype(np.float64))
        begins = _sum(here, equations.weight[rows] * equations.restart[rows])
        onward.append((scaled.T @ equations.arrived[rows]).astype(np.float64) - np.outer(begins, fresh))
    return np.stack(grams), np.stack(onward)


def _earned(
    equations: Equations,
    taken: Int[np.ndarray, " steps"],
    reward: Float[np.ndarray, " steps"],
    fold: tuple[int, int],
    actions: int,
) -> Float[np.ndarray, "actions rank"]:
    """Σ ω r φ over a fold's rows, for each action."""
    earned = equations.weight * reward
    return np.stack([_sum(equations.here[rows], earned[rows]) for rows in _rows_by_action(taken, fold, actions)])


def _rows_by_action(
    taken: Int[np.ndarray, " steps"], fold: tuple[int, int], actions: int
) -> list[Int[np.ndarray, " rows"]]:
    first, last = fold
    order = first + np.argsort(taken[first:last], kind="stable")
    return np.split(order, np.searchsorted(taken[order], np.arange(1, actions)))


def _sum(features: np.ndarray, weight: np.ndarray) -> Float[np.ndarray, " rank"]:
    return (weight.astype(np.float32) @ features).astype(np.float64)


def _sums(features: np.ndarray, weights: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rank columns"]:
    return (features.T @ weights.astype(np.float32)).astype(np.float64)


def _times(features: np.ndarray, vectors: Float[np.ndarray, "rank columns"]) -> Float[np.ndarray, "rows columns"]:
    return (features @ vectors.astype(np.float32)).astype(np.float64)
