"""Linear critics in the state ratio's own features: V̂ by one solve, Q̂ by one regression for each action.

V̂ = qᵀφ with Σᵢ ωᵢ ρᵢ φᵢ (φᵢ − γcᵢ φ'ᵢ)ᵀ q = Σᵢ ωᵢ ρᵢ rᵢ φᵢ (least-squares temporal differences), and
Q̂(·,a) = the ridge regression of r + γcV̂(s') on φ over the rows where a was taken. ρ weighs whole differences: a mean of
1.01 instead of 1 would, before γφ' alone, be worth 0.01/(1 − γ) of all value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from jaxtyping import Float

from statewise.ope.equations import Equations
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient, standard_error
from statewise.parts.ratio_closed_form import FOLDS

RIDGE = 1e-4  # of features with second moment 1
# Of the normal equations, which have the squares of 1 − γP: what changes slowly, as health does, has little there, and
# a penalty fit for w takes it for noise. On HIV this is the difference between values 70 % too low and 11 % off.
SLOW = 1e-6
APART = ((1, 2), (1,), (2,))  # the folds a critic is fitted to, counted from the one it is used on: both others, or one


def state_values(
    case: Case, rewards: Float[np.ndarray, " steps"]
) -> tuple[Float[np.ndarray, " steps"], Float[np.ndarray, " steps"]]:
    """V̂ of each row's state, and of the state after it (0 at an episode's end)."""
    equations = case.prepared.horizon_equations
    weights = _temporal_differences(case, rewards, range(len(equations.folds)))
    values = np.clip(equations.in_log_order(equations.here @ weights.astype(np.float32)), *_bounds(case, rewards))
    return values, np.append(values[1:], 0.0)


def action_values(
    case: Case, rewards: Float[np.ndarray, " steps"]
) -> list[tuple[Float[np.ndarray, " steps"], Float[np.ndarray, " steps"]]]:
    """Q̂(s,a) of the logged actions and V̂(s) = Σ_a π(a|s) Q̂(s,a), for each of `APART`."""
    log, equations = case.prepared, case.prepared.horizon_equations
    actions = log.dataset.action_count
    taken, reward = log.dataset.actions[equations.order], rewards[equations.order]
    regressions = [_regressions(equations, taken, reward, a, b, actions) for a, b in equations.folds]
    bounds, found = _bounds(case, rewards), []

    @cache  # a fold by itself is the teacher of two others
    def fitted(folds: tuple[int, ...]) -> Float[np.ndarray, "rank actions"]:
        value = _temporal_differences(case, rewards, folds)
        grams, onward, earned = (np.sum([regressions[f][i] for f in folds], axis=0) for i in range(3))
        ridge = RIDGE * len(folds) / (FOLDS - 1) * np.eye(len(value))
        targets = earned + onward @ value
        return np.stack([np.linalg.solve(grams[j] + ridge, targets[j]) for j in range(actions)], axis=1)

    for apart in APART:
        everything = np.empty((len(taken), actions))
        for held_out, (a, b) in enumerate(equations.folds):
            weights = fitted(tuple(sorted((held_out + k) % FOLDS for k in apart)))
            everything[a:b] = equations.here[a:b] @ weights.astype(np.float32)
        everything = np.clip(equations.in_log_order(everything), *bounds)
        chosen = np.take_along_axis(everything, log.dataset.actions[:, None].astype(np.int64), axis=1)[:, 0]
        found.append((chosen, (everything * case.probabilities).sum(axis=1)))
    return found


def widened(case: Case, found: Quotient, one: Quotient, other: Quotient) -> Quotient:
    """`found` with the critic's own noise in what its episodes add: s² + Σ_f (n_f/n)² d_f²/4 instead of s².

    d_f is how far the mean of fold f moves from the critic of one other fold to that of the other. Each fold is judged
    by critics that have seen the others, so that their errors go together; by no more than this, says Cauchy's
    inequality, and next to nothing in long logs. In short ones intervals held 82 instead of 95 % without it.
    """
    fold = case.prepared.horizon_equations.fold_of_episode
    moved = np.bincount(fold, one.numerator - other.numerator, minlength=FOLDS) / len(fold)
    error = standard_error(found.influence(), case.prepared.dataset.groups)
    if not (np.isfinite(error) and error > 0):
        return found
    factor = np.hypot(1.0, np.linalg.norm(moved) / (2 * error))
    return replace(found, numerator=found.value + factor * (found.numerator - found.value))


def _bounds(case: Case, rewards: Float[np.ndarray, " steps"]) -> tuple[float, float]:
    """What the longest logged episode would earn at the least and the greatest reward: no critic is believed more."""
    steps = float(case.prepared.steps_each.max())
    return min(steps * float(rewards.min()), 0.0), max(steps * float(rewards.max()), 0.0)


def _temporal_differences(
    case: Case, rewards: Float[np.ndarray, " steps"], folds: Sequence[int]
) -> Float[np.ndarray, " rank"]:
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
    # the normal equations: where the policy is far from the behaviour, G itself can be singular
    normal = matrix.T @ matrix + (len(folds) / FOLDS) ** 2 * SLOW * np.eye(len(matrix))
    return np.linalg.solve(normal, matrix.T @ earned)


def _regressions(
    equations: Equations, taken: np.ndarray, reward: np.ndarray, first: int, last: int, actions: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Σ ω φφᵀ, Σ ω φ(γcφ')ᵀ and Σ ω r φ over a fold's rows, for each action."""
    fresh = equations.initial.mean(axis=0)
    grams, onward, earned = [], [], []
    for action in range(actions):
        rows = first + np.flatnonzero(taken[first:last] == action)
        here, weight = equations.here[rows], equations.weight[rows].astype(np.float32)
        scaled = here * weight[:, None]
        grams.append((scaled.T @ here).astype(np.float64))
        begins = _sum(here, equations.weight[rows] * equations.restart[rows])
        onward.append((scaled.T @ equations.arrived[rows]).astype(np.float64) - np.outer(begins, fresh))
        earned.append(_sum(here, equations.weight[rows] * reward[rows]))
    return np.stack(grams), np.stack(onward), np.stack(earned)


def _sum(features: np.ndarray, weight: np.ndarray) -> Float[np.ndarray, " rank"]:
    return (weight.astype(np.float32) @ features).astype(np.float64)
