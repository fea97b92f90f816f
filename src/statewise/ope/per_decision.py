"""Importance sampling of single decisions: each reward is weighted by the decisions up to it, not by later ones."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from statewise.ope.intervals import Quotient, mean_of
from statewise.ope.prepared import Case


def per_decision(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V = mean over episodes of Σₜ γᵗ ρ₀…ρₜ rₜ. Precup, Sutton, Singh (2000)."""
    log = case.prepared
    weight = log.growth * case.cumulative
    return mean_of(log.by_episode(weight * rewards), log.by_episode(weight), log.steps_each)


def weighted_per_decision(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V = Σₜ γᵗ xₜ,  xₜ = Σ_e ρ₀…ρₜ rₜ / Dₜ,  Dₜ = Σ_e ρ₀…ρ_{min(t, T_e − 1)}. Thomas (2015), section 3.

    An episode that has ended keeps its last weight in Dₜ and earns 0: leaving it out would give the reward of those
    that go on to all. As a mean over episodes, each adds V + n Σₜ γᵗ (ρ₀…ρₜ rₜ − xₜ ρ₀…ρ_{min(t, T − 1)}) / Dₜ.
    """
    log, data = case.prepared, case.prepared.dataset
    horizon, time = int(data.lengths.max()), data.time
    last = case.cumulative[data.starts[1:] - 1]
    ended = np.cumsum(np.bincount(data.lengths, last, minlength=horizon + 1))[:horizon]  # Σ of those with T ≤ t
    below = np.bincount(time, case.cumulative, minlength=horizon) + ended
    above = np.bincount(time, case.cumulative * rewards, minlength=horizon)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(below > 0, above / below, 0.0)
        share = np.where(below > 0, log.discount ** np.arange(horizon) / below, 0.0)
    value = float(np.sum(below * share * mean))
    later = np.append(np.cumsum((share * mean)[::-1])[::-1], 0.0)  # Σ_{t ≥ T} γᵗ xₜ/Dₜ, by T
    moved = log.by_episode(share[time] * case.cumulative * (rewards - mean[time])) - last * later[data.lengths]
    weight = log.by_episode(log.growth * case.cumulative)
    return mean_of(value + data.episodes * moved, weight, log.steps_each)
