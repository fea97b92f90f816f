"""The column `logger`: who decided in each episode, and what becomes of it."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.data.findings import LogError, LogWarning
from statewise.data.loggers import by_logger, newest_last


def table(loggers, **more) -> pl.DataFrame:
    """One episode of two decisions for each logger that is named."""
    count = len(loggers)
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "episode": np.repeat(np.arange(count), 2),
            "age": rng.normal(size=2 * count),
            "action": rng.integers(2, size=2 * count),
            "reward": rng.random(2 * count),
            "propensity": np.full(2 * count, 0.5),
            "terminated": [False, True] * count,
            "logger": [name for name in loggers for _ in range(2)],
        }
    ).with_columns(**more)


def test_it_is_a_role_and_never_an_observation():
    with pytest.warns(LogWarning, match="the observations are age"):
        log = sw.load(table(["a", "a", "b"]))
    assert log.observation_names == ("age",)
    assert log.logged_by is not None
    assert log.logged_by.tolist() == ["a", "a", "b"]
    assert log.loggers is not None
    assert log.loggers.tolist() == [0, 0, 1]
    columns = sw.Columns(observations=("age", "logger"))
    with pytest.raises(LogError, match="logger: it says who decided, not in which state"):
        sw.load(table(["a", "b"]), columns=columns)


def test_another_column_may_hold_it():
    columns = sw.Columns(observations=("age",), logger="policy")
    log = sw.load(table(["a", "b"]).rename({"logger": "policy"}), columns=columns)
    assert log.logged_by is not None
    assert log.logged_by.tolist() == ["a", "b"]
    with pytest.raises(LogError, match="policy: there is no such column"):
        sw.load(table(["a", "b"]), columns=columns)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_it_is_kept_by_parts_joins_and_files(ending, tmp_path):
    log = sw.load(table(["007", "007", "7", "7"]), columns=sw.Columns(observations=("age",)))
    assert log.take(np.array([3, 0])).logged_by.tolist() == ["7", "007"]
    parts = log.split(0.5, seed=0)
    assert sorted(name for part in parts for name in part.logged_by) == ["007", "007", "7", "7"]
    log.save(tmp_path / f"log.{ending}")
    again = sw.load(tmp_path / f"log.{ending}")
    assert again.logged_by.tolist() == ["007", "007", "7", "7"]
    assert again.fingerprint == log.fingerprint
    assert replace(log, logged_by=None).fingerprint != log.fingerprint
    nameless = replace(log, logged_by=None, loggers=None)
    assert sw.concat([nameless, log]).logged_by.tolist() == ["log 1"] * 4 + ["007", "007", "7", "7"]
    assert sw.concat([nameless, nameless]).logged_by is None


def test_final_states_need_none_but_every_episode_needs_one():
    frame = table(["a", "b"])
    final = pl.DataFrame({"episode": [1], "age": [0.3]})
    frame = pl.concat([frame, final], how="diagonal")
    frame = frame.with_columns(terminated=pl.Series([False, True, False, False, None]))
    log = sw.load(frame, columns=sw.Columns(observations=("age",)))
    assert log.logged_by.tolist() == ["a", "b"]
    assert log.has_final_observation.tolist() == [False, True]
    with pytest.raises(LogError, match="logger: 1 row begins an episode without a logger"):
        sw.load(table(["a", None]), columns=sw.Columns(observations=("age",)))


def test_an_episode_that_changes_hands_counts_as_its_first_loggers():
    frame = table(["a", "b"], logger=pl.Series(["a", "b", "b", "b"]))
    with pytest.warns(LogWarning, match="1 row has a different logger from the previous row of the same episode"):
        log = sw.load(frame, columns=sw.Columns(observations=("age",)))
    assert log.logged_by.tolist() == ["a", "b"]


def test_the_newest_is_who_decided_last():
    assert newest_last(np.array(["b", "b", "a", "c"])).tolist() == [0, 0, 1, 2]
    assert newest_last(np.array(["a", "b", "b", "a"])).tolist() == [1, 0, 0, 1]  # the first came back


def test_the_episodes_of_each_logger_oldest_first():
    log = sw.load(table(["old"] * 6 + ["new"] * 5), columns=sw.Columns(observations=("age",)))
    old, new = by_logger(log)
    assert (old.episodes, new.episodes) == (6, 5)
    np.testing.assert_array_equal(new.observations, log.observations[12:])
    assert by_logger(new) == (new,)
    nameless = replace(log, logged_by=None)
    assert by_logger(nameless) == (nameless,)


def test_loggers_that_took_turns_are_refused_and_a_handover_is_not():
    turns = sw.load(table(["a", "b"] * 10), columns=sw.Columns(observations=("age",)))
    with pytest.raises(ValueError, match="the loggers a, b took turns in the log, so that none of them is what is"):
        by_logger(turns)
    handover = sw.load(table(["a"] * 9 + ["b", "a"] + ["b"] * 9), columns=sw.Columns(observations=("age",)))
    assert [one.episodes for one in by_logger(handover)] == [10, 10]
