"""Importance sampling of single decisions: each reward is weighted by the decisions up to it, not by later ones."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from statewise.data.horizon import recorded_weight
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient

NOTHING = 1e-200  # a sum of weights below this is rounding


def per_decision(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V = mean over episodes of Σₜ γᵗ ρ₀…ρₜ rₜ. Precup, Sutton, Singh (2000)."""
    log = case.prepared
    return _rests_on(case, log.by_episode(log.growth * case.cumulative * rewards), _below(case))


def weighted_per_decision(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V = Σₜ γᵗ xₜ,  xₜ = Σ_e ρ₀…ρₜ rₜ / Dₜ,  Dₜ = Σ_e ρ₀…ρ_{min(t, T_e − 1)}. Thomas (2015), section 3.

    An episode that has ended keeps its last weight in Dₜ and earns 0: leaving it out would give the reward of those
    that go on to all. As a mean over episodes, each adds V + n Σₜ γᵗ (ρ₀…ρₜ rₜ − xₜ ρ₀…ρ_{min(t, T − 1)}) / Dₜ.
    """
    log, data, below = case.prepared, case.prepared.dataset, _below(case)
    carried, inverse = _recorded(case), _inverse(below)
    time, reached = np.minimum(data.time, len(below) - 1), np.minimum(data.lengths, len(below))
    above = np.bincount(time, carried * rewards, minlength=len(below))  # what is beyond carries nothing
    mean, share = above * inverse, log.discounts * inverse
    value = float(np.sum(share * above))
    later = np.append(np.cumsum((share * mean)[::-1])[::-1], 0.0)  # Σ_{t ≥ T} γᵗ xₜ/Dₜ, by T
    last = carried[data.starts[1:] - 1]
    moved = log.by_episode(share[time] * carried * (rewards - mean[time])) - last * later[reached]
    return _rests_on(case, value + data.episodes * moved, below)


def carried_by_decisions(case: Case) -> Float[np.ndarray, " steps"]:
    """What `per_decision` multiplies each row's reward by."""
    return case.prepared.growth * case.cumulative / case.prepared.dataset.episodes


def carried_by_weighted_decisions(case: Case) -> Float[np.ndarray, " steps"]:
    """What `weighted_per_decision` multiplies each row's reward by."""
    data, inverse = case.prepared.dataset, _inverse(_below(case))
    return case.prepared.growth * case.cumulative * inverse[np.minimum(data.time, len(inverse) - 1)]


def _recorded(case: Case) -> Float[np.ndarray, " steps"]:
    """ρ₀…ρₜ times what a row stands for where other episodes are no longer recorded; 0 beyond the horizon."""
    return recorded_weight(case.prepared.dataset) * case.cumulative


def _below(case: Case) -> Float[np.ndarray, " horizon"]:
    """Dₜ. An episode whose record stops before its end has a last row that stands for none: others stand for it."""
    data, carried, horizon = case.prepared.dataset, _recorded(case), len(case.prepared.discounts)
    last, reached = carried[data.starts[1:] - 1], np.minimum(data.lengths, horizon)
    ended = np.cumsum(np.bincount(reached, last, minlength=horizon + 1))[:horizon]  # Σ of those with T ≤ t
    return np.bincount(data.time, carried, minlength=horizon)[:horizon] + ended


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
