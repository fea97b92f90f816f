"""Importance sampling of what a critic leaves unexplained: right if either the propensities or the critic are.

    V = mean V̂(s₀) + [per-decision importance sampling of δₜ],     δₜ = rₜ + γcV̂(sₜ₊₁) − Q̂(sₜ,aₜ)

Q̂ is fitted to other episodes than those it is used on, so that it adds no bias; its noise widens the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from statewise.ope.estimators.per_decision import per_decision, weighted_per_decision
from statewise.ope.linear_critic import action_values, widened
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient


def doubly_robust(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """Jiang and Li (2016)."""
    return _corrected(case, rewards, per_decision)


def weighted_doubly_robust(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """Thomas and Brunskill (2016)."""
    return _corrected(case, rewards, weighted_per_decision)


def _corrected(case: Case, rewards: Float[np.ndarray, " steps"], correct: Callable[..., Quotient]) -> Quotient:
    log, found = case.prepared, []
    for chosen, values in action_values(case, rewards):
        correction = correct(case, rewards + log.onward * np.append(values[1:], 0.0) - chosen)
        found.append(replace(correction, numerator=values[log.dataset.starts[:-1]] + correction.numerator))
    return widened(case, *found)
