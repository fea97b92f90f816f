"""The examples are the episodes that differ most, with raw values and the probabilities of both."""

import numpy as np
import pytest

import statewise as sw
from statewise.data.readable import columns_of
from statewise.ope.examples import MOMENTS, examples_of


@pytest.fixture
def log():
    rng = np.random.default_rng(0)
    lengths = [3, 10, 2, 5, 4]
    return sw.Dataset.from_episodes(
        observations=[rng.normal(size=(n, 2)) for n in lengths], actions=[rng.integers(2, size=n) for n in lengths],
        rewards=[rng.normal(size=n) for n in lengths], propensities=[[0.5] * n for n in lengths],
        terminated=[True] * 5, units=["a", "b", "a", "c", "d"], observation_names=("x", "y"),
    )  # fmt: skip


def test_the_episodes_that_differ_most_one_of_each_unit(log):
    today = np.full((len(log), 2), 0.5)
    differs = np.array([0.4, 0.1, 0.3, 0.2, 0.0])[log.episode_of_step]
    differs[log.starts[1] + 8] = 0.45  # of the second episode, its ninth decision most
    policy = np.stack([0.5 - differs, 0.5 + differs], axis=1)
    examples = examples_of(log, policy, today, columns_of(log))
    assert [(one.episode, one.unit) for one in examples] == [("0", "a"), ("3", "c"), ("1", "b")]
    assert [one.steps for one in examples] == [3, 5, 10]
    long = examples[-1]
    assert len(long.moments) == MOMENTS
    assert 9 in [moment.step for moment in long.moments]
    first = examples[0].moments[0]
    assert (first.step, first.logged, first.proposed) == (1, str(log.actions[0]), "1")
    assert (first.policy, first.today, first.reward) == pytest.approx((0.9, 0.5, log.rewards[0]))
    assert [float(value.replace("−", "-")) for value in first.state] == pytest.approx(log.observations[0], rel=1e-2)


def test_nothing_is_shown_where_nothing_differs(log):
    today = np.full((len(log), 2), 0.5)
    assert examples_of(log, today, today, columns_of(log)) == ()
