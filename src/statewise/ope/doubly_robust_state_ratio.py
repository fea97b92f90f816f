"""The state-ratio estimate of what a critic leaves unexplained: its error is that of w times that of Q̂.

    V = mean V̂(s₀) + Σᵢ γᵗ wᵢ ρᵢ (rᵢ + γcV̂(s'ᵢ) − Q̂(sᵢ,aᵢ)) / Σᵢ γᵗ wᵢ ρᵢ (1 − γcᵢ)

Errors in w and Q̂ enter as their product, so that to first order neither changes what an episode adds.
Tang, Feng, Li, Zhou, Liu (2020); Kallus and Uehara (2020).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from statewise.ope.critic import action_values
from statewise.ope.intervals import Quotient
from statewise.ope.prepared import Case


def doubly_robust_state_ratio(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    chosen, values = action_values(case, rewards)
    log = case.prepared
    carried = log.growth * case.horizon_solved.ratio * case.ratio
    errors = rewards + log.onward * np.append(values[1:], 0.0) - chosen
    return corrected(case, carried, values[log.dataset.starts[:-1]], errors)


def corrected(
    case: Case,
    carried: Float[np.ndarray, " steps"],
    first: Float[np.ndarray, " episodes"],
    errors: Float[np.ndarray, " steps"],
) -> Quotient:
    """mean V̂(s₀) plus the errors carried to where the policy goes, as a mean over episodes."""
    log, solved = case.prepared, case.horizon_solved
    begins = log.by_episode(carried * (1 - log.onward))
    above = log.by_episode(carried * errors)
    correction = above.sum() / begins.sum()
    return Quotient(
        first + correction + (above - correction * begins) / begins.mean(),
        np.ones(len(first)),
        weight=log.by_episode(carried),
        base=log.steps_each,
        mass=float(carried.sum() / (log.growth @ solved.ratio)),
        imbalance=solved.excess,
        negative=solved.negative,
    )
