"""Importance sampling of what a critic leaves unexplained: right if either the propensities or the critic are.

    V = mean V̂(s₀) + [per-decision importance sampling of δₜ],     δₜ = rₜ + γcV̂(sₜ₊₁) − Q̂(sₜ,aₜ)

Q̂ is fitted to other episodes than those it is used on, so that it adds no bias; its noise widens the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from statewise.ope.estimators.per_decision import (
    carried_by_decisions,
    carried_by_weighted_decisions,
    per_decision,
    weighted_per_decision,
)
from statewise.ope.linear_critic import cross_fitted, moved_by
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient


def doubly_robust(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """Jiang and Li (2016)."""
    return _corrected(case, rewards, per_decision, carried_by_decisions)


def weighted_doubly_robust(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """Thomas and Brunskill (2016)."""
    return _corrected(case, rewards, weighted_per_decision, carried_by_weighted_decisions)


def _corrected(
    case: Case,
    rewards: Float[np.ndarray, " steps"],
    correct: Callable[..., Quotient],
    carried: Callable[[Case], Float[np.ndarray, " steps"]],
) -> Quotient:
    critic = cross_fitted(case, rewards)
    left = correct(case, critic.errors)
    moved = moved_by(case, rewards, critic, carried(case))
    return replace(left, numerator=critic.first + left.numerator + moved)
