"""A log in files is judged as the same log in memory, by every estimator, and with every measure."""

from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from logs import simulated
from statewise.base import column
from statewise.data import scan as scanning
from statewise.ope import order
from statewise.ope.estimators import ESTIMATORS

QUICK = ("doubly-robust-state-ratio", "behaviour")
LEARNED = ("state-ratio-network", "fitted-q-trees")  # whose learners have tests of their own


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(scanning, "FEWEST", 500)
    monkeypatch.setattr(scanning, "MOST", 500)
    monkeypatch.setattr(column, "LONG", 400)
    monkeypatch.setattr(column, "PART", 256)
    monkeypatch.setattr(order, "BLOCK", 256)


def policy(observations):
    logits = np.asarray(observations, np.float64)[:, [1, 0, 2]]
    chances = np.exp(logits)
    return chances / chances.sum(axis=1, keepdims=True)


def both(data, folder):
    (folder / "log").mkdir()
    data.save(folder / "log" / "part.parquet")
    return sw.load(folder / "log" / "part.parquet"), sw.scan(folder / "log", scratch=folder / "scratch")


def agree(data, names, folder):
    loaded, scanned = both(data, folder)
    assert isinstance(scanned.rewards, column.Column)
    expected, got = (sw.evaluate_all(policy, log, names, draws=50, seed=3) for log in (loaded, scanned))
    for name in names:
        one, other = got[name], expected[name]
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(one.influence, other.influence, rtol=1e-6, atol=1e-8)
        assert (one.verdict, one.reason) == (other.verdict, other.reason)
        assert [m.name for m in one.measures] == [m.name for m in other.measures]


KINDS = {
    "ends": lambda: simulated(60, 12),
    "limit": lambda: cut_off(simulated(60, 12)),
    "masked": lambda: simulated(60, 12, masked=True),
    "single decisions": lambda: simulated(700, 1),
}


def cut_off(data):
    return replace(data, terminated=~data.terminated)


@pytest.mark.parametrize("kind", ["ends", "limit"])
def test_same_answer(kind, tmp_path):
    agree(KINDS[kind](), QUICK, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_same_answer_by_every_estimator(kind, tmp_path):
    agree(KINDS[kind](), [name for name in ESTIMATORS if name not in LEARNED], tmp_path)


def test_parts_of_it_stay_in_files(tmp_path):
    loaded, scanned = both(simulated(200, 12), tmp_path)
    for one, other in zip(scanned.split(0.5, seed=1), loaded.split(0.5, seed=1), strict=True):
        assert isinstance(one.observations, column.Column)
        assert one.fingerprint == other.fingerprint
        np.testing.assert_array_equal(np.asarray(one.time), other.time)
        np.testing.assert_array_equal(np.asarray(one.episode_of_step), other.episode_of_step)
