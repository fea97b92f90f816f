"""The changes are those of the situations in which episodes begin, and the parts are measured by their own episodes."""

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.ope.evaluate import prepare
from statewise.ope.gate import compare
from statewise.ope.who_loses import changes_of, expected_changes

EPISODES, TREATS = 500, 0.9


def log(spread: float, seed: int = 0) -> sw.Dataset:
    """One decision: treatment is worth x − 0.3 more than none, x even from 0 to `spread`; half are treated today."""
    rng = np.random.default_rng(seed)
    x, treated = spread * rng.random(EPISODES), rng.integers(2, size=EPISODES)
    return sw.load(pl.DataFrame({
        "episode": range(EPISODES), "step": [0] * EPISODES, "obs_x": x, "action": treated,
        "reward": (x - 0.3) * treated + 0.1 * rng.normal(size=EPISODES), "propensity_0": [0.5] * EPISODES,
        "propensity_1": [0.5] * EPISODES, "terminated": [True] * EPISODES,
    }))  # fmt: skip


def treat(observations):
    return np.tile([1 - TREATS, TREATS], (len(observations), 1))


@pytest.fixture(scope="module")
def spread_out():
    data = log(1.0)
    decision, judged = compare(treat, prepare(data), near=True)
    return data, decision, judged


def test_the_change_of_each_beginning_is_near_the_truth(spread_out):
    data, _, judged = spread_out
    change = expected_changes(judged.case, data.distributions)
    truth = (TREATS - 0.5) * (data.observations[:, 0] - 0.3)
    assert np.abs(change - truth).mean() < 0.02
    assert np.corrcoef(change, truth)[0, 1] > 0.97


def test_who_loses(spread_out):
    data, decision, judged = spread_out
    changes = changes_of(decision, judged, data.distributions)
    assert changes.negative == pytest.approx(0.3, abs=0.06)
    assert sum(changes.shares) == pytest.approx(1)
    assert len(changes.edges) == len(changes.shares) + 1
    assert [one.episodes for one in changes.parts] == [100] * 5
    sorted_x = data.observations[np.argsort(expected_changes(judged.case, data.distributions), kind="stable"), 0]
    means = (TREATS - 0.5) * (sorted_x.reshape(5, 100).mean(axis=1) - 0.3)
    assert all(one.low <= truth <= one.high for one, truth in zip(changes.parts, means, strict=True))
    assert changes.parts[0].high < 0 < changes.parts[-1].low  # the first fifth loses, and it is seen
    whole = np.mean([one.gain for one in changes.parts])
    assert whole == pytest.approx(decision.difference)


def test_where_all_begin_alike_nothing_is_said():
    data = log(0.0)
    decision, judged = compare(treat, prepare(data), near=True)
    assert changes_of(decision, judged, data.distributions) is None
