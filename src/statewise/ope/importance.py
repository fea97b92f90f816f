"""Importance sampling of whole episodes, plain and weighted."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from statewise.ope.intervals import Quotient, mean_of
from statewise.ope.prepared import Case


def importance_sampling(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V = mean over episodes of (∏ₜ ρₜ) Σₜ γᵗ rₜ. Precup, Sutton, Singh (2000)."""
    weight, returns = _weights_and_returns(case, rewards)
    return mean_of(weight * returns, weight, np.ones(len(weight)))


def weighted_importance_sampling(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V = Σ_e (∏ₜ ρₜ) Σₜ γᵗ rₜ / Σ_e ∏ₜ ρₜ: biased by something in 1/episodes, of less variance."""
    weight, returns = _weights_and_returns(case, rewards)
    return Quotient(weight * returns, weight, weight, np.ones(len(weight)))


def _weights_and_returns(
    case: Case, rewards: Float[np.ndarray, " steps"]
) -> tuple[Float[np.ndarray, " episodes"], Float[np.ndarray, " episodes"]]:
    log = case.prepared
    return case.cumulative[log.dataset.starts[1:] - 1], log.by_episode(log.growth * rewards)
