"""The state-ratio estimator: single rows reweighted by where the policy goes and by what it does there.

    V = Σᵢ γᵗ w(sᵢ) ρᵢ rᵢ / Σᵢ γᵗ w(sᵢ) ρᵢ (1 − γcᵢ),     c = 0 on an episode's last row and 1 elsewhere

The denominator counts how often the chain begins anew: once an episode, so that V is a return per episode. No product
of ratios over time appears, and so no variance that grows exponentially with the horizon. Liu, Li, Tang, Zhou (2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from statewise.ope.balance import held_out_imbalance
from statewise.ope.equations import Equations
from statewise.ope.linear_critic import state_values
from statewise.ope.order import Block
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient, standard_error
from statewise.ope.solution import Solved, pull
from statewise.parts.fit_ratio import fit_ratio

TRIFLE = 0.05


def state_ratio(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """With w in closed form."""
    (found,) = _reweighted(case, [rewards], case.prepared.equations, case.solved)
    return found if case.prepared.chain == "continuing" else replace(found, missed=abs(missed(case, rewards, found)))


def missed(case: Case, rewards: Float[np.ndarray, " steps"], found: Quotient) -> float:
    """V̂(s₀) + Σᵢ γᵗ wᵢ ρᵢ (γc V̂(s'ᵢ) − V̂(sᵢ)), what w leaves of its equations, tested by V̂, in standard errors.

    Above 0 where the estimate by w alone is too low. Beyond its own noise: ±√(x² − s²). With many episodes a standard
    error is so little that nobody minds several: it counts as `TRIFLE` of the value at least.
    """
    log = case.prepared
    values = state_values(case, rewards)
    first, left = values[log.dataset.starts[:-1]], log.to_follow(values)
    left -= values
    del values  # before the next array of its length is made
    left *= carried_by_ratio(case)
    each = first + log.dataset.episodes * log.by_episode(left)
    noise = standard_error(each - each.mean(), log.dataset.groups)
    mean = float(each.mean())
    missing = np.copysign(np.sqrt(max(mean**2 - noise**2, 0.0)), mean) if np.isfinite(noise) else 0.0
    error = max(standard_error(found.influence(), log.dataset.groups), TRIFLE * abs(found.value))
    return float(missing / error) if error > 0 else 0.0


def within_horizon(case: Case, *rewards: Float[np.ndarray, " steps"]) -> list[Quotient]:
    """The same, never looking past the log's horizon: for corrections to a critic that does not either.

    Of several rewards together, in hardly more time than of one.
    """
    return _reweighted(case, rewards, case.prepared.horizon_equations, case.horizon_solved)


def with_length(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """The same, and beside it what `length` will be asked for, where all episodes are equally long."""
    if not case.prepared.equally_long:
        return within_horizon(case, rewards)[0]
    found, steps = within_horizon(case, rewards, np.broadcast_to(1.0, len(rewards)))
    case.remembered("beside", lambda: steps)
    return found


def length(case: Case) -> Quotient:
    """What a reward of 1 a step is put at."""
    steps = lambda: within_horizon(case, np.broadcast_to(1.0, len(case.ratio)))[0]  # noqa: E731
    return case.remembered("length", lambda: case.remembered("beside", steps))


def carried_by_ratio(case: Case) -> Float[np.ndarray, " steps"]:
    """What `within_horizon` multiplies each row's reward by."""
    equations, solved = case.prepared.horizon_equations, case.horizon_solved
    carried = equations.weights * solved.signed
    np.maximum(carried, 0.0, out=carried)
    carried *= case.ratio
    carried /= carried @ (1 - case.prepared.onward)
    return carried


def _reweighted(
    case: Case, rewards: Sequence[Float[np.ndarray, " steps"]], equations: Equations, solved: Solved
) -> list[Quotient]:
    """What each episode does to w itself is part of what it adds."""
    count, ratio, signed = case.prepared.dataset.episodes, case.ratio, solved.signed

    def ends(block: Block) -> Float[np.ndarray, " n"]:
        return np.ones(len(block)) if equations.chain == "continuing" else 1 - equations.onward(block)

    def in_block(block: Block) -> Float[np.ndarray, "episodes columns"]:
        at = equations.order[block.part]
        weight = count * equations.weight(block)
        visited = weight * np.maximum(signed[at], 0.0)
        carried = visited * ratio[at]
        columns = [carried * ends(block), carried, weight, visited, *(carried * one[at] for one in rewards)]
        return np.stack([block.by_episode(column) for column in columns], axis=1)

    sums = np.empty((count, 4 + len(rewards)))
    for block, some in equations.blocks.map(in_block):
        sums[equations.episodes[block.episodes]] = some
    below, carries, base, visits, *above = sums.T
    values = [one.sum() / below.sum() for one in above]

    def slope(block: Block) -> Float[np.ndarray, "n rewards"]:
        """dV/dw, where w is not cut off."""
        at = equations.order[block.part]
        carried = np.where(signed[at] > 0, equations.weight(block) * ratio[at], 0.0)
        each = [carried * (one[at] - value * ends(block)) for one, value in zip(rewards, values, strict=True)]
        return np.stack(each, axis=1)

    by_beta = equations.rows.sums(slope).sum(axis=0)
    moved = pull(equations, solved, case.ratio, case.probabilities, by_beta)
    return [
        Quotient(
            one + by,
            below.copy(),
            weight=carries.copy(),
            base=base.copy(),
            mass=float(carries.sum() / visits.sum()),
            heaviest=float(max(solved.signed.max(), 0.0) * case.greatest_ratio),
            by_states=True,
            imbalance=solved.excess,
            negative=solved.negative,
            rank=len(solved.beta),
        )
        for one, by in zip(above, moved.T, strict=True)
    ]


def state_ratio_network(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """With w learned by the paper's network.

    Its error has no closed form. The influence is that of any w that meets the equations to first order,
    V̂(s₀) + Σₜ γᵗ w (ρ (r + γcV̂(s')) − V̂(s)) up to scale, with the linear critic for V̂.
    """
    log = case.prepared
    policy = lambda observations: case.probabilities  # noqa: E731
    fitted = fit_ratio(policy, log.dataset, discount=log.discount, method="network", seed=log.seed)
    visited = log.growth * fitted.of_rows
    carried = visited * case.ratio
    endless = log.discount == 1 and not log.dataset.terminated.any()  # fit_ratio's w is then the stationary one
    begins = log.by_episode(carried / log.steps_each.mean() if endless else carried * (1 - log.onward))
    value = log.by_episode(carried * rewards).sum() / begins.sum()
    values = state_values(case, rewards)
    errors = log.by_episode(carried * log.targets(rewards, values) - visited * values) / begins.mean()
    added = values[log.dataset.starts[:-1]] + errors - errors.mean() * begins / begins.mean()
    return Quotient(
        value + added - added.mean(),
        np.ones(len(begins)),
        weight=log.by_episode(carried),
        base=log.steps_each,
        mass=float(carried.sum() / visited.sum()),
        by_states=True,
        imbalance=held_out_imbalance(log.equations, case.ratio, fitted.of_rows),
    )
