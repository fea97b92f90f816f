"""What today's behaviour is worth by the judge's own method, with a model of it in the policy's place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset
from statewise.ope.estimators.behaviour_return import behaviour_return
from statewise.ope.estimators.doubly_robust_state_ratio import doubly_robust_state_ratio
from statewise.ope.order import Block
from statewise.ope.prepared import Case, Prepared
from statewise.ope.quotient import Quotient, standard_error
from statewise.ope.rows import Weights

RIDGE = 1e-3  # of features with second moment 1
LEAST = 1e-3  # probability of every action that was ever taken


class Itself(NamedTuple):
    """The behaviour's value by the judge, and what the log earned."""

    value: float
    earned: float
    deviation: float  # in standard errors of the difference


def behaviour_by_clone(log: Prepared) -> Itself | None:
    """Judged once for each log."""
    return log.remembered("itself", lambda: _judged(log))


def _judged(log: Prepared) -> Itself | None:
    data = log.dataset
    if data.action_count < 2 or data.propensities is None:
        return None
    case = Case(log, cloned(log))
    known = data.distributions is not None
    judged = by_the_judge(log, case.probabilities) if known else doubly_robust_state_ratio(case, data.rewards)
    earned = behaviour_return(case, data.rewards)
    apart = judged.value - earned.value
    error = standard_error(judged.influence() - earned.influence(), data.groups)
    if not np.isfinite([apart, error]).all():
        return None
    return Itself(judged.value, earned.value, abs(apart) / error if error > 0 else 0.0)


def whole_distributions(data: Dataset) -> Float[np.ndarray, "steps actions"] | None:
    """μ(·|s) where the log tells it: whole distributions, or one of two actions' propensity."""
    if data.distributions is not None or data.propensities is None:
        return data.distributions
    if data.action_count != 2 or data.legal is not None:
        return None
    taken = data.propensities[:, None]
    return np.where(np.eye(2, dtype=bool)[data.actions], taken, 1 - taken)


def by_the_judge(log: Prepared, behaviour: Float[np.ndarray, "steps actions"]) -> Quotient:
    """What the behaviour is worth by the judge's own method, computed once for each log."""

    def judged() -> Quotient:
        return doubly_robust_state_ratio(Case(log, behaviour), log.dataset.rewards)

    return log.remembered("behaviour", judged)


def cloned(log: Prepared) -> Float[np.ndarray, "steps actions"]:
    """The logged distributions, or the ridge regression of the action taken on the judge's features."""
    data = log.dataset
    if data.distributions is not None:
        return data.distributions
    equations = log.horizon_equations
    rows, order = equations.rows, equations.order
    taken = np.eye(data.action_count)

    def weigh(block: Block) -> Float[np.ndarray, "n actions"]:
        return equations.weight(block)[:, None] * taken[data.actions[order[block.part]]]

    gram = rows.moments(lambda block: Weights(equations.weight(block)[:, None])).sum(axis=(0, 1, 2))
    fitted = np.linalg.solve(gram + RIDGE * np.eye(rows.rank), rows.sums(weigh).sum(axis=0))
    lifted, out = rows.lifted(fitted), np.empty((len(data), data.action_count))
    seen = np.bincount(data.actions, minlength=data.action_count) > 0
    for block in equations.blocks:
        at = order[block.part]
        allowed = seen if data.legal is None else seen & data.legal[at]
        clipped = np.where(allowed, np.clip(rows.times_in(block, lifted), LEAST, 1.0), 0.0)
        out[at] = clipped / clipped.sum(axis=1, keepdims=True)
    return out
