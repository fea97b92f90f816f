"""The state-ratio estimate of what a critic leaves unexplained: its error is that of w times that of Q̂.

    V = mean V̂(s₀) + Σᵢ γᵗ wᵢ ρᵢ (rᵢ + γcV̂(s'ᵢ) − Q̂(sᵢ,aᵢ)) / Σᵢ γᵗ wᵢ ρᵢ (1 − γcᵢ)

Errors in w and Q̂ enter as their product. Both are regularised, so that it is not nothing: what an episode does to w is
counted, as in the state ratio's own estimate.
Tang, Feng, Li, Zhou, Liu (2020); Kallus and Uehara (2020).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from statewise.ope.estimators.state_ratio import missed, within_horizon
from statewise.ope.linear_critic import action_values, widened
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient, mean_of


def doubly_robust_state_ratio(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    found = widened(case, *(corrected(case, rewards, *critic) for critic in action_values(case, rewards)))
    return replace(found, leaning=missed(case, rewards, found))


def corrected(
    case: Case,
    rewards: Float[np.ndarray, " steps"],
    chosen: Float[np.ndarray, " steps"],
    values: Float[np.ndarray, " steps"],
) -> Quotient:
    """From Q̂ of the logged actions and V̂, on every row; as a mean over episodes."""
    log = case.prepared
    left = within_horizon(case, rewards + log.onward * np.append(values[1:], 0.0) - chosen)
    return mean_of(values[log.dataset.starts[:-1]] + left.value + left.influence(), left)
