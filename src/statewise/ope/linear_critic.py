"""Linear critics in the state ratio's own features: V̂ by one solve, Q̂ by one regression for each action.

V̂ = qᵀφ with Σᵢ ωᵢ ρᵢ φᵢ (φᵢ − γcᵢ φ'ᵢ)ᵀ q = Σᵢ ωᵢ ρᵢ rᵢ φᵢ (least-squares temporal differences), and
Q̂(·,a) = V̂ + the ridge regression of r + γcV̂(s') − V̂(s) on φ over the rows where a was taken: where the log says little
of an action, it counts as being worth what the others are. ρ weighs whole differences: a mean of 1.01 instead of 1
would, before γφ' alone, be worth 0.01/(1 − γ) of all value.

Every fold of episodes is judged by the critic of the others. What each episode does to those critics, and through them
to an estimate, is known to first order: `moved_by` follows the derivative backwards through both regressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from statewise.base.column import like
from statewise.ope.order import Block
from statewise.ope.prepared import Case, Prepared
from statewise.ope.rows import Weights
from statewise.parts.ratio_closed_form import FOLDS

# The ridge is PRIOR · rank/rows, of features with second moment 1: so much as if, before a row was seen, what an action
# is worth beyond the others had the variance of a row's noise. On CartPole, steps towards learned policies have half
# the standard error that they have with a hundredth of it, and estimates are as right.
PRIOR = 1.0
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
    inverses: Float[np.ndarray, "actions rank rank"]  # of Σ ω φφᵀ + a ridge over the rows of each action
    weights: Float[np.ndarray, "rank actions"]  # Q̂(s,a) = weights[:, a]ᵀφ(s)


@dataclass(frozen=True, eq=False)
class Actions:
    """Sums over the rows of each action, which no policy and no reward changes; of every fold, over the others."""

    gram: Float[np.ndarray, "rank rank"]  # Σ ω φφᵀ over all rows
    inverses: Float[np.ndarray, "folds actions rank rank"]  # of Σ ω φφᵀ + a ridge
    changes: Float[np.ndarray, "folds actions rank rank"]  # Σ ω (γcφ' − φ) φᵀ


@dataclass(frozen=True, eq=False)
class Critic:
    """What it says of each episode's start, what it leaves unexplained on every row, and how it came about."""

    first: Float[np.ndarray, " episodes"]  # V̂(s₀)
    errors: Float[np.ndarray, " steps"]  # r + γcV̂(s') − Q̂(s,a)
    fits: tuple[Fit, ...]


def state_values(case: Case, rewards: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """V̂ of each row's state, from all rows."""
    equations = case.prepared.horizon_equations
    weights = _temporal_differences(case, rewards, range(FOLDS)).value
    values = equations.in_log_order(equations.rows.times(weights[:, None])[:, 0])
    return np.clip(values, *_bounds(case, rewards), out=values)


def cross_fitted(case: Case, rewards: Float[np.ndarray, " steps"]) -> Critic:
    """Each fold's critic, from the episodes of the others."""
    # the rewards are kept with it, so that no others can take their place in memory
    return case.remembered(("critic", id(rewards)), lambda: (rewards, _cross_fitted(case, rewards)))[1]


def _cross_fitted(case: Case, rewards: Float[np.ndarray, " steps"]) -> Critic:
    log = case.prepared
    differences = [_temporal_differences(case, rewards, _others(held_out)) for held_out in range(FOLDS)]
    targets, inverses = _targets(case, rewards, differences), of_actions(log).inverses
    fits = [
        Fit(one, inverse, one.value[:, None] + _by_each(inverse, target))
        for one, inverse, target in zip(differences, inverses, targets, strict=True)
    ]
    chosen, values = judged(case, rewards, fits)
    errors = log.targets(rewards, values)
    errors -= chosen
    return Critic(values[log.dataset.starts[:-1]], errors, tuple(fits))


def judged(
    case: Case, rewards: Float[np.ndarray, " steps"], fits: Sequence[Fit]
) -> tuple[Float[np.ndarray, " steps"], Float[np.ndarray, " steps"]]:
    """Q̂(s,a) of the logged actions and V̂(s) = Σ_a π(a|s) Q̂(s,a) on every row, by the critic of its fold."""
    equations = case.prepared.horizon_equations
    lifted, bounds = [equations.rows.lifted(fit.weights) for fit in fits], _bounds(case, rewards)
    actions, probabilities = case.prepared.dataset.actions, case.probabilities

    def judge(block: Block) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        at = equations.order[block.part]
        everything = np.clip(equations.rows.times_in(block, lifted[block.fold]), *bounds)
        return everything[np.arange(len(at)), actions[at]], np.einsum("na,na->n", everything, probabilities[at])

    chosen, values = like(rewards, len(rewards)), like(rewards, len(rewards))
    for block, both in equations.blocks.map(judge):
        at = equations.order[block.part]
        chosen[at], values[at] = both
    return chosen, values


def _targets(
    case: Case, rewards: Float[np.ndarray, " steps"], differences: Sequence[Differences]
) -> Float[np.ndarray, "folds rank actions"]:
    """Σ ω φ (r + γcV̂(s') − V̂(s)) over the rows of each action, with the V̂ of every fold and all rows but its own."""
    paid, moved = _of_others(_earned(case, rewards)[:, :, 1:]), of_actions(case.prepared).changes
    return paid + np.stack([(one.value @ moves).T for moves, one in zip(moved, differences, strict=True)])


def moved_by(
    case: Case, rewards: Float[np.ndarray, " steps"], critic: Critic, carried: Float[np.ndarray, " steps"]
) -> Float[np.ndarray, " episodes"]:
    """What each episode moves V = mean V̂(s₀) + Σᵢ carriedᵢ (rᵢ + γcV̂(s'ᵢ) − Q̂(sᵢ,aᵢ)) by through the critics.

    With h_a = dV/dθ_a and z_a = gram_a⁻¹ h_a, a row adds ω zᵀφ (r + γcV̂' − Q̂) through Q̂'s regression. Through q, which
    is part of Q̂ and of its targets: with ξ = Σ_a h_a + Σ ω (zᵀφ) (γcφ' − φ), u = (GᵀG + κI)⁻¹ξ and e = b − Gq, it adds
    ωρ [(φᵀe) (φ − γcφ')ᵀu + (φᵀGu) (r + γcφ'ᵀq − φᵀq)].
    """
    log, equations = case.prepared, case.prepared.horizon_equations
    rows, data = equations.rows, log.dataset
    slopes = rows.sums(_slope(case, carried))
    back = [_by_each(fit.inverses, h) for fit, h in zip(critic.fits, slopes, strict=True)]
    solutions = []
    for fit, z, h, moves in zip(critic.fits, back, slopes, of_actions(log).changes, strict=True):
        solved, matrix = fit.differences, fit.differences.matrix
        u = np.linalg.solve(solved.normal, (h + _by_each(moves, z)).sum(axis=1))
        solutions.append(np.stack([solved.earned - matrix @ solved.value, matrix @ u, u, solved.value], axis=1))
    # of every critic: φᵀe, φᵀGu, φᵀu and V̂, zᵀφ of each action, and its Q̂
    weights = [fit.weights for fit in critic.fits]
    each = [np.concatenate(one, axis=1) for one in zip(solutions, back, weights, strict=True)]
    lifted = [rows.lifted(np.concatenate([each[f] for f in _others(fold)], axis=1)) for fold in range(FOLDS)]
    actions, ratio = data.actions, case.ratio

    def move(block: Block) -> Float[np.ndarray, "episodes others"]:
        """Of the critics of other folds, in which alone a block has a part."""
        at, by = equations.order[block.part], np.empty((len(block.starts), FOLDS - 1))
        onward, weight, reward, rho = equations.onward(block), equations.weight(block), rewards[at], ratio[at]
        # column by column: NumPy is slow with short rows
        columns = np.ascontiguousarray(rows.times_in(block, lifted[block.fold]).T)
        chosen = actions[at], np.arange(len(at))
        for place, given in enumerate(np.split(columns, FOLDS - 1)):
            error, through, u, value = given[:4]
            wanted = reward + onward * block.after(value)
            left = rho * (error * (u - onward * block.after(u)) + through * (wanted - value))
            z, worth = np.split(given[4:], 2)
            left += z[chosen] * (wanted - worth[chosen])
            by[:, place] = block.by_episode(weight * left)
        return by

    added = np.zeros((data.episodes, FOLDS))
    for block, by in equations.blocks.map(move):
        added[block.episodes, _others(block.fold)] = by
    seen = equations.fold_of_episode[equations.episodes][:, None] != np.arange(FOLDS)
    added = np.where(seen, added - added.sum(axis=0, where=seen) / seen.sum(axis=0), 0.0)
    total = np.empty(data.episodes)
    total[equations.episodes] = data.episodes * added.sum(axis=1)
    return total


def _slope(case: Case, carried: Float[np.ndarray, " steps"]) -> Callable[[Block], Float[np.ndarray, "n actions"]]:
    """What Σ_a weightₐ θ_aᵀφ of a row counts for in V, θ being the critic of its own fold."""
    equations, data = case.prepared.horizon_equations, case.prepared.dataset
    probabilities, actions, episodes = case.probabilities, data.actions, data.episodes

    def weigh(block: Block) -> Float[np.ndarray, "n actions"]:
        at = equations.order[block.part]
        reached = block.handed_on(carried[at] * equations.onward(block))
        reached[block.first] = 1 / episodes
        slope = reached[:, None] * probabilities[at]
        slope[np.arange(len(at)), actions[at]] -= carried[at]
        return slope

    return weigh


def _by_each(
    matrices: Float[np.ndarray, "actions rank rank"], columns: Float[np.ndarray, "rank actions"]
) -> Float[np.ndarray, "rank actions"]:
    """Each action's matrix times its column."""
    return (matrices @ columns.T[:, :, None])[:, :, 0].T


def _of_others(sums: Float[np.ndarray, "folds *of"]) -> Float[np.ndarray, "folds *of"]:
    """Sums over all folds but each one."""
    return sums.sum(axis=0) - sums


def _others(fold: int) -> list[int]:
    """The folds whose critics the rows of a fold have a part in."""
    return [other for other in range(FOLDS) if other != fold]


def _bounds(case: Case, rewards: Float[np.ndarray, " steps"]) -> tuple[float, float]:
    """What the longest episode would earn at the least and the greatest reward: no critic is believed more.

    Where episodes end by themselves, one that is `LONGER` than the log's longest.
    """
    steps = min(case.prepared.longest, LONGER * float(case.prepared.discounts.sum()))
    return min(steps * float(rewards.min()), 0.0), max(steps * float(rewards.max()), 0.0)


def _temporal_differences(case: Case, rewards: Float[np.ndarray, " steps"], folds: Sequence[int]) -> Differences:
    equations, solved, chosen = case.prepared.horizon_equations, case.horizon_solved, list(folds)
    # x' = γcφ' + (1 − γc)φ̄₀: what begins anew is no part of this episode's value
    matrix = np.outer(solved.begins[chosen].sum(axis=0), equations.fresh) - solved.states[chosen].sum(axis=0).T
    earned = _earned(case, rewards)[chosen, :, 0].sum(axis=0)
    normal = matrix.T @ matrix + (len(chosen) / FOLDS) ** 2 * SLOW * np.eye(len(matrix))
    return Differences(matrix, earned, normal, np.linalg.solve(normal, matrix.T @ earned))


def _earned(case: Case, rewards: Float[np.ndarray, " steps"]) -> Float[np.ndarray, "folds rank columns"]:
    """Σ ωρ r φ in each fold, and Σ ω r φ over the rows of each action."""
    equations, ratio, data = case.prepared.horizon_equations, case.ratio, case.prepared.dataset
    actions, columns = data.actions, 1 + data.action_count

    def weigh(block: Block) -> Float[np.ndarray, "n columns"]:
        at, out = equations.order[block.part], np.zeros((len(block), columns))
        paid = equations.weight(block) * rewards[at]
        out[:, 0], out[np.arange(len(at)), 1 + actions[at]] = paid * ratio[at], paid
        return out

    return case.remembered(("earned", id(rewards)), lambda: (rewards, equations.rows.sums(weigh)))[1]


def of_actions(log: Prepared) -> Actions:
    """The sums of a log."""
    return log.remembered("actions", lambda: _of_actions(log))


def _of_actions(log: Prepared) -> Actions:
    equations, data = log.horizon_equations, log.dataset
    rank, actions = equations.rows.rank, data.actions

    def weigh(block: Block) -> Weights:
        """For φφᵀ, and for (γcφ' − φ)φᵀ."""
        weight, taken = equations.weight(block), actions[equations.order[block.part]].astype(np.int64)
        moves = np.stack([np.zeros(len(block)), weight * equations.onward(block)], axis=1)
        return Weights(np.stack([weight, -weight], axis=1), moves, taken)

    sums = equations.rows.moments(weigh, data.action_count)
    grams = sums[:, :, 0]
    inverses = np.linalg.inv(_of_others(grams) + PRIOR * rank / len(data) * np.eye(rank))
    return Actions(grams.sum(axis=(0, 1)), inverses, _of_others(sums[:, :, 1]))
