"""What stands beside a policy's value: rules that need no learning, and the same policy by other estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from statewise.data.dataset import Dataset
from statewise.ope.estimate import Estimate
from statewise.ope.estimators import ESTIMATORS
from statewise.ope.evaluate import evaluate, evaluate_all
from statewise.ope.prepared import Prepared
from statewise.policies.simple import constants

# they learn something of their own, which takes seconds to minutes
SLOW = ("state-ratio-network", "magic", "fitted-q", "fitted-q-trees")
CONSTANTS = 3


def simple_rules(log: Dataset) -> dict[str, Any]:
    """Policies by name: always the most frequent actions, and all actions alike."""
    always = constants(log, CONSTANTS)
    named = {f"{name} (most frequent)" if i == 0 else name: one for i, (name, one) in enumerate(always.items())}
    even = np.full(log.action_count, 1 / log.action_count)
    return {**named, "at random": lambda observations: np.tile(even, (len(observations), 1))}


def values_of_simple_rules(log: Prepared, level: float) -> dict[str, Estimate]:
    """What each is worth on the log."""
    return {name: evaluate(rule, log, level=level) for name, rule in simple_rules(log.dataset).items()}


def by_all_estimators(policy: Any, log: Prepared, level: float) -> dict[str, Estimate]:
    """The policy's value by every estimator that needs no learning of its own."""
    quick = [name for name in ESTIMATORS if name not in (*SLOW, "behaviour")]
    return evaluate_all(policy, log, quick, level=level)
