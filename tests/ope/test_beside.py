"""Simple rules and other estimators are those of `evaluate`, asked for one by one."""

import numpy as np
import pytest

import statewise as sw
from logs import simulated
from statewise.ope.beside import SLOW, by_all_estimators, values_of_simple_rules
from statewise.ope.estimators import ESTIMATORS
from statewise.ope.evaluate import prepare


def test_rules_that_need_no_learning():
    data = simulated(length=3)
    log = prepare(data)
    values = values_of_simple_rules(log, 0.9)
    often = np.argsort(-np.bincount(data.actions), kind="stable")
    assert list(values) == [
        f"always {often[0]} (most frequent)",
        *(f"always {action}" for action in often[1:3]),
        "at random",
    ]
    first = sw.evaluate(lambda o: np.full(len(o), often[0]), log, level=0.9)
    assert values[f"always {often[0]} (most frequent)"].value == pytest.approx(first.value)
    assert all(one.level == 0.9 for one in values.values())


def test_every_quick_estimator_is_there():
    data = simulated(length=3)

    def policy(observations):
        return np.tile([0.5, 0.3, 0.2], (len(observations), 1))

    log = prepare(data)
    values = by_all_estimators(policy, log, 0.95)
    assert set(values) | {*SLOW, "behaviour"} == set(ESTIMATORS)
    assert values["importance"].value == sw.evaluate(policy, log, "importance").value
