"""What today's behaviour is worth by the judge's own method, with a model of it in the policy's place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset
from statewise.ope.estimators.behaviour_return import behaviour_return
from statewise.ope.estimators.doubly_robust_state_ratio import doubly_robust_state_ratio
from statewise.ope.prepared import Case, Prepared
from statewise.ope.quotient import Quotient, standard_error

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
    judged, earned = by_the_judge(log), behaviour_return(Case(log, cloned(log)), data.rewards)
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


def by_the_judge(log: Prepared) -> Quotient:
    """What the clone is worth by the judge's own method; computed once for each log."""

    def judged() -> Quotient:
        return doubly_robust_state_ratio(Case(log, cloned(log)), log.dataset.rewards)

    return log.remembered("clone", judged)


def cloned(log: Prepared) -> Float[np.ndarray, "steps actions"]:
    """The logged distributions, or the ridge regression of the action taken on the judge's features."""
    data, logged = log.dataset, whole_distributions(log.dataset)
    if logged is not None:
        return logged
    equations = log.horizon_equations
    here, weight = equations.here, equations.weight.astype(np.float32)[:, None]
    taken = np.eye(data.action_count, dtype=np.float32)[data.actions[equations.order]]
    gram = (here.T @ (weight * here)).astype(np.float64) + RIDGE * np.eye(here.shape[1])
    fitted = here @ np.linalg.solve(gram, (here.T @ (weight * taken)).astype(np.float64)).astype(np.float32)
    seen = np.bincount(data.actions, minlength=data.action_count) > 0
    allowed = seen if data.legal is None else seen & data.legal[equations.order]
    clipped = np.where(allowed, np.clip(fitted, LEAST, 1.0), 0.0)
    return equations.in_log_order(clipped / clipped.sum(axis=1, keepdims=True))
