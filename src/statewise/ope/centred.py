"""A constant in the rewards of equally long episodes changes every value by the same, and no comparison at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

import numpy as np
from jaxtyping import Float

from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient

Estimator = Callable[[Case, Float[np.ndarray, " steps"]], Quotient]


def centred(estimator: Estimator) -> Estimator:
    """The estimator of r − c, plus c Σγᵗ, where all episodes are equally long; c is the log's mean reward.

    Costs of 500 a day with differences of 1 are then judged by the differences, to the last digit.
    """

    @wraps(estimator)
    def of_centred(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
        left, mean = centred_rewards(case, rewards)
        found = estimator(case, left)
        if mean == 0:
            return found
        steps = float(case.prepared.discounts.sum())
        return replace(found, numerator=found.numerator + mean * steps * found.denominator)

    return of_centred


def centred_rewards(case: Case, rewards: Float[np.ndarray, " steps"]) -> tuple[Float[np.ndarray, " steps"], float]:
    """r − c, and c: the mean reward of equally long episodes; 0 where they are not."""
    log = case.prepared
    if not log.equally_long:
        return rewards, 0.0
    mean = float(np.average(rewards, weights=log.growth))
    of = log if rewards is log.dataset.rewards else case  # the log's own are the same for every policy
    return of.remembered(("centred", id(rewards)), lambda: (rewards, rewards - mean))[1], mean
