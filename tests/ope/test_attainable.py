"""What can be earned at all, by hand; and no value or interval beyond it."""

from dataclasses import replace

import numpy as np
import pytest

from logs import make
from statewise.data.horizon import Horizon
from statewise.ope.attainable import attainable
from statewise.ope.estimators import ESTIMATORS
from statewise.ope.evaluate import evaluate_all, prepare
from statewise.ope.gate import gate

QUICK = [name for name in ESTIMATORS if name not in ("state-ratio-network", "fitted-q", "fitted-q-trees")]


def log(lengths, least, greatest, **changes):
    data = make(lengths)
    rewards = np.linspace(least, greatest, len(data))
    return replace(data, rewards=rewards, **{"terminated": np.ones(len(lengths), bool)} | changes)


@pytest.mark.parametrize(
    ("lengths", "least", "greatest", "discount", "expected"),
    [
        ([3, 3, 3], -1.0, 2.0, 1.0, (-3.0, 6.0)),
        ([3, 3, 3], 1.0, 2.0, 1.0, (3.0, 6.0)),
        ([3, 3, 3], -2.0, -1.0, 0.5, (-3.5, -1.75)),
        # they end by themselves: another policy's may go on for ever, or end at once
        ([1, 2, 4], -1.0, 2.0, 1.0, (-np.inf, np.inf)),
        ([1, 2, 4], 1.0, 2.0, 1.0, (1.0, np.inf)),
        ([1, 2, 4], -2.0, -1.0, 0.5, (-4.0, -1.0)),
    ],
)
def test_by_hand(lengths, least, greatest, discount, expected):
    data = log(lengths, least, greatest)
    assert attainable(prepare(data, discount=discount)) == pytest.approx(expected)
    assert attainable(prepare(data, discount=discount, objective="average")) == pytest.approx((least, greatest))


@pytest.mark.parametrize(
    ("least", "greatest", "discount", "expected"),
    [(-1.0, 2.0, 1.0, (-4.0, 8.0)), (1.0, 2.0, 1.0, (1.0, 8.0)), (-2.0, -1.0, 0.5, (-3.75, -1.0))],
)
def test_up_to_a_limit(least, greatest, discount, expected):
    data = log([1, 2, 4], least, greatest, terminated=np.array([True, True, False]))
    assert attainable(prepare(data, discount=discount)) == pytest.approx(expected)


def test_rewards_beyond_the_horizon_do_not_count():
    data = replace(log([5, 5], 0.0, 1.0), ends=Horizon("limit", 2))
    data = replace(data, rewards=np.where(data.time < 2, 1.0 + data.time, 100.0))
    assert attainable(prepare(data, discount=1.0)) == pytest.approx((2.0, 4.0))


@pytest.mark.parametrize("interval", ["bootstrap", "bernstein"])
def test_no_value_and_no_interval_lies_beyond(interval):
    """Weights of up to 1,000 on a dozen episodes: plain importance sampling is far out."""
    rng, lengths = np.random.default_rng(0), [1 + e % 3 for e in range(12)]
    data = log(lengths, 1.0, 2.0, propensities=rng.uniform(0.1, 0.9, sum(lengths)), distributions=None)
    data = replace(data, ends=Horizon("limit", 3))
    certain = np.eye(3)[data.actions]
    low, high = attainable(prepare(data, discount=1.0))
    found = evaluate_all(lambda seen: certain, data, QUICK, discount=1.0, interval=interval)
    for one in found.values():
        assert low <= one.low <= one.value <= one.high <= high, one
    assert found["importance"].value == high  # it would be more
    decision = gate(lambda seen: certain, data, estimator="importance", discount=1.0)
    today = found["behaviour"]
    assert low - today.high <= decision.low <= decision.difference <= decision.high <= high - today.low + 1e-9
