"""Importance sampling of whole episodes, plain and weighted."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient, mean_of


def importance_sampling(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V = mean over episodes of (∏ₜ ρₜ) Σₜ γᵗ rₜ. Precup, Sutton, Singh (2000)."""
    weighted = weighted_importance_sampling(case, rewards)
    return mean_of(weighted.numerator, weighted)


def weighted_importance_sampling(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V = Σ_e (∏ₜ ρₜ) Σₜ γᵗ rₜ / Σ_e ∏ₜ ρₜ: biased by something in 1/episodes, of less variance."""
    log = case.prepared
    weight = case.cumulative[log.dataset.starts[1:] - 1]
    returns = log.by_episode(log.growth * rewards)
    return Quotient(
        weight * returns,
        weight,
        weight=weight,
        base=np.ones(len(weight)),
        mass=float(weight.mean()),
        heaviest=case.heaviest_product(int(log.dataset.lengths.max())),
    )
