"""Several logs as one."""

from dataclasses import replace

import numpy as np
import pytest

from statewise.data.concat import concat
from statewise.data.dataset import Dataset
from statewise.data.horizon import Horizon


def log(seed: int, **more) -> Dataset:
    rng = np.random.default_rng(seed)
    lengths = [2, 3]
    given = {
        "observations": [rng.normal(size=(n, 1)) for n in lengths],
        "actions": [rng.integers(2, size=n) for n in lengths],
        "rewards": [rng.random(n) for n in lengths],
        "terminated": [True, False],
        "propensities": [np.full(n, 0.5) for n in lengths],
        "action_count": 2,
    }
    return Dataset.from_episodes(**given | more)


def test_rows_and_episodes_stand_one_log_after_the_other():
    first, second = log(0), log(1)
    both = concat([first, second])
    assert both.loggers is not None
    assert both.loggers.tolist() == [0, 0, 1, 1]
    assert both.starts.tolist() == [0, 2, 5, 7, 10]
    for number, one in enumerate((first, second)):
        part = both.take(both.loggers == number)
        for name in ("observations", "actions", "rewards", "propensities", "terminated", "lengths"):
            np.testing.assert_array_equal(getattr(part, name), getattr(one, name))
    assert len(set(both.episode_ids.tolist())) == 4


def test_a_log_of_several_keeps_them_apart():
    three = concat([concat([log(0), log(1)]), log(2)])
    assert three.loggers is not None
    assert three.loggers.tolist() == [0, 0, 1, 1, 2, 2]


def test_distributions_are_kept_if_all_have_them_and_legal_actions_are_completed():
    chances = [np.full((n, 2), 0.5) for n in (2, 3)]
    whole = log(1, distributions=chances)
    assert concat([whole, whole]).distributions is not None
    assert concat([log(0), whole]).distributions is None
    masked = log(2, legal=[np.ones((n, 2), bool) for n in (2, 3)])
    legal = concat([log(0), masked]).legal
    assert legal is not None
    assert legal.shape == (10, 2)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(log(1), observation_names=("age",)), "log 2 has the observations age, and the first"),
        (replace(log(1), action_names=("a", "b")), "log 2 has the actions a, b, and the first 0, 1"),
        (log(1, units=["u", "v"]), "log 2 has units, unlike the first"),
        (replace(log(1), rewards=1e6 * log(1).rewards), "another unit"),
        (replace(log(1), ends=Horizon("limit", 3)), "said to end differently"),
    ],
)
def test_logs_that_do_not_match_are_refused_in_a_sentence(other, said):
    with pytest.raises(ValueError, match=said):
        concat([replace(log(0), ends=Horizon("limit", 5)), other])


def test_estimated_propensities_are_dropped_to_be_estimated_from_all():
    unknown = replace(log(1), propensities=None)
    assert concat([log(0), unknown]).propensities is None
