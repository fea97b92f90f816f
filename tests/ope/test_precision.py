"""A log kept in single precision is worth what it is worth in double precision, unless networks learn from it."""

from dataclasses import replace

import numpy as np
import pytest

from logs import simulated
from statewise.ope.estimators import ESTIMATORS
from statewise.ope.evaluate import evaluate_all

# Networks amplify what is rounded away in single precision: a percent of their value, or far less than their interval.
NETWORKS = ("fitted-q", "state-ratio-network")
DOUBLE = simulated(episodes=60, length=5)
SINGLE = replace(
    DOUBLE,
    observations=DOUBLE.observations.astype(np.float32),
    final_observations=DOUBLE.final_observations.astype(np.float32),
)


def policy(observations):
    logits = np.asarray(observations, np.float64) @ np.array([[1.0, 0, 0], [0, -0.5, 0], [0.3, 0, 1]])
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def test_single_and_double_precision_agree():
    names = [name for name in ESTIMATORS if name not in NETWORKS]
    single, double = (evaluate_all(policy, log, names, draws=2) for log in (SINGLE, DOUBLE))
    for name in names:
        leeway = 1e-4 * double[name].standard_error
        assert single[name].value == pytest.approx(double[name].value, abs=leeway), name
