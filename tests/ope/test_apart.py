"""Sums that other processes make have the same digits as those of one."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from logs import simulated
from scattered import Scattered
from statewise.base.tasks import using
from statewise.ope import order

NAMES = ("doubly-robust-state-ratio", "state-ratio", "weighted-doubly-robust")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(order, "BLOCK", 24)
    monkeypatch.setattr(order, "TOGETHER", 3)


def policy(observations):
    chances = np.exp(np.asarray(observations, np.float64)[:, [1, 0, 2]])
    return chances / chances.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "limit"])
def test_estimates_have_the_same_digits(ends):
    data, backend = simulated(60, 12), Scattered()
    data = data if ends else replace(data, terminated=~data.terminated)
    expected = sw.evaluate_all(policy, data, NAMES, draws=50)
    with using(backend):
        got = sw.evaluate_all(policy, data, NAMES, draws=50)
    assert backend.maps > 10
    for name in NAMES:
        one, other = got[name], expected[name]
        assert (one.value, one.low, one.high, one.reason) == (other.value, other.low, other.high, other.reason)
        np.testing.assert_array_equal(one.influence, other.influence)
        assert [m.value for m in one.measures] == [m.value for m in other.measures]


def test_sums_of_chunks_are_those_of_all_rows():
    equations = sw.prepare(simulated(60, 12), discount=0.9).horizon_equations
    weight = equations.rows.times(np.eye(equations.rows.rank))  # f of every row
    sums = equations.rows.sums(lambda block: np.ones((len(block), 1)))
    folds = np.concatenate([np.full(len(block), block.fold) for block in equations.blocks])
    for fold in range(order.FOLDS):
        np.testing.assert_allclose(sums[fold, :, 0], weight[folds == fold].sum(axis=0), rtol=1e-5, atol=1e-4)


def test_blocks_stay_in_their_process_and_say_so():
    equations = sw.prepare(simulated(60, 12), discount=0.9).horizon_equations
    sent = pickle.loads(pickle.dumps(equations.rows.order))
    np.testing.assert_array_equal(sent.rows, equations.order)
    with pytest.raises(RuntimeError, match="stayed in the process that made them"):
        list(sent.blocks)


def test_what_a_prepared_log_remembers_is_not_sent():
    log = sw.prepare(simulated(60, 12), discount=0.9)
    assert log.horizon_equations.rows.rank > 1
    sent = pickle.loads(pickle.dumps(log))
    assert "horizon_equations" in vars(log)
    assert vars(sent).keys() == {"dataset", "discount", "objective", "seed"}
