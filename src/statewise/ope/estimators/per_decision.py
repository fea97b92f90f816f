"""Importance sampling of single decisions: each reward is weighted by the decisions up to it, not by later ones."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from statewise.base.column import like, parts_of
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient

NOTHING = 1e-200  # a sum of weights below this is rounding
PART = 1 << 18  # rows at a time, which bounds memory


def per_decision(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V = mean over episodes of Σₜ γᵗ ρ₀…ρₜ rₜ. Precup, Sutton, Singh (2000)."""
    log = case.prepared
    return _rests_on(case, log.by_episode(log.growth * case.cumulative * rewards), _below(case))


def weighted_per_decision(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V = Σₜ γᵗ xₜ,  xₜ = Σ_e ρ₀…ρₜ rₜ / Dₜ,  Dₜ = Σ_e ρ₀…ρ_{min(t, T_e − 1)}. Thomas (2015), section 3.

    An episode that has ended keeps its last weight in Dₜ and earns 0: leaving it out would give the reward of those
    that go on to all. As a mean over episodes, each adds V + n Σₜ γᵗ (ρ₀…ρₜ rₜ − xₜ ρ₀…ρ_{min(t, T − 1)}) / Dₜ.
    """
    below = _below(case)
    return _rests_on(case, _shared(case, rewards, below), below)


def _shared(
    case: Case, rewards: Float[np.ndarray, " steps"], below: Float[np.ndarray, " horizon"]
) -> Float[np.ndarray, " episodes"]:
    """What each episode adds to `weighted_per_decision`."""
    log, data, carried, inverse = case.prepared, case.prepared.dataset, _recorded(case), _inverse(below)
    reached = np.minimum(data.lengths, len(below))
    above = _at_each_time(case, carried, rewards)
    mean, share = above * inverse, log.discounts * inverse
    value = float(np.sum(share * above))
    later = np.append(np.cumsum((share * mean)[::-1])[::-1], 0.0)  # Σ_{t ≥ T} γᵗ xₜ/Dₜ, by T
    last = carried[data.starts[1:] - 1]
    left = like(rewards, len(data))
    for part in parts_of(len(data), PART):
        time = data.time[part]
        left[part] = carried[part] * _at(share, time) * (rewards[part] - _at(mean, time))
    moved = log.by_episode(left) - last * later[reached]
    return value + data.episodes * moved


def carried_by_decisions(case: Case) -> Float[np.ndarray, " steps"]:
    """What `per_decision` multiplies each row's reward by."""
    return case.prepared.growth * case.cumulative / case.prepared.dataset.episodes


def carried_by_weighted_decisions(case: Case) -> Float[np.ndarray, " steps"]:
    """What `weighted_per_decision` multiplies each row's reward by."""
    inverse, dataset = _inverse(_below(case)), case.prepared.dataset
    carried = case.prepared.growth * case.cumulative
    for part in parts_of(len(dataset), PART):
        carried[part] *= _at(inverse, dataset.time[part])
    return carried


def _recorded(case: Case) -> Float[np.ndarray, " steps"]:
    """ρ₀…ρₜ times what a row stands for where other episodes are no longer recorded; 0 beyond the horizon."""
    return case.prepared.within_horizon.recorded * case.cumulative


def _below(case: Case) -> Float[np.ndarray, " horizon"]:
    """Dₜ. An episode whose record stops before its end has a last row that stands for none: others stand for it."""
    data, carried, horizon = case.prepared.dataset, _recorded(case), len(case.prepared.discounts)
    last, reached = carried[data.starts[1:] - 1], np.minimum(data.lengths, horizon)
    ended = np.cumsum(np.bincount(reached, last, minlength=horizon + 1))[:horizon]  # Σ of those with T ≤ t
    return _at_each_time(case, carried) + ended


def _at_each_time(case: Case, *factors: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " horizon"]:
    """Sums of the factors' products over the rows of each time up to the horizon."""
    time, horizon = case.prepared.dataset.time, len(case.prepared.discounts)
    out = np.zeros(horizon)
    for part in parts_of(len(time), PART):
        out += np.bincount(time[part], math.prod(one[part] for one in factors), minlength=horizon)[:horizon]
    return out


def _at(each: Float[np.ndarray, " horizon"], time: Int[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """`each` at the times of rows; 0 beyond the horizon, where rows carry nothing."""
    beyond = max(int(time.max()) + 1 - len(each), 0)
    return np.append(each, np.zeros(beyond))[time]


def _inverse(below: Float[np.ndarray, " horizon"]) -> Float[np.ndarray, " horizon"]:
    return np.divide(1.0, below, out=np.zeros(len(below)), where=below > NOTHING)


def _rests_on(case: Case, values: Float[np.ndarray, " episodes"], below: Float[np.ndarray, " horizon"]) -> Quotient:
    log = case.prepared
    return Quotient(
        values,
        np.ones(len(values)),
        weight=log.by_episode(log.growth * case.cumulative),
        base=log.steps_each,
        mass=float(log.discounts @ below / log.discounts.sum() / len(values)),
        heaviest=case.heaviest_product(len(below)),
    )
