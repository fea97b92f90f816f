"""The clock of a log whose episodes are cut off by a limit."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from logs import make
from statewise.data.clock import CLOCK, clock, has_clock, limit_of, up_to, with_clock
from statewise.data.device import device_log, row_table
from statewise.data.horizon import Horizon


def cut(lengths, limit):
    """Episodes that the world ended, except for those of the full length."""
    data = make(lengths)
    return replace(data, terminated=data.lengths < limit)


def test_a_limit_counts_where_enough_of_the_future_lies_beyond_it():
    data = cut([6, 6, 3, 2], limit=6)
    assert limit_of(data, 1.0) == 6
    assert limit_of(data, 0.4) == 6  # half of the episodes reach it: .5 · .4⁶ = .002
    assert limit_of(data, 0.3) is None  # .0004


def test_what_is_censored_goes_on_or_ended_has_no_limit():
    assert limit_of(make([5, 4, 3, 2]), 1.0) is None  # cut off at several lengths
    assert limit_of(replace(make([5, 4, 3]), terminated=np.ones(3, bool)), 1.0) is None
    assert limit_of(replace(cut([6, 6, 3], 6), ends=Horizon("continuing")), 1.0) is None


def test_the_clock_is_a_last_column_and_the_limit_an_end():
    data = cut([6, 6, 3, 2], limit=6)
    timed = with_clock(data, 6)
    assert has_clock(timed)
    assert not has_clock(data)
    assert timed.observation_names == (*data.observation_names, CLOCK)
    assert np.array_equal(timed.observations[:, :-1], data.observations)
    assert timed.observations[:, -1] == pytest.approx(np.sqrt(12) * (data.time / 6 - 0.5))
    assert timed.final_observations[:, -1] == pytest.approx(np.sqrt(12) * (np.array([6, 6, 3, 2]) / 6 - 0.5))
    assert timed.terminated.all()
    again = with_clock(with_clock(data, 6, ends=False), 6)
    assert np.array_equal(again.observations, timed.observations)
    assert np.array_equal(again.terminated, timed.terminated)
    assert np.array_equal(with_clock(data, 6, ends=False).terminated, data.terminated)
    assert clock(np.arange(6), 6).std() == pytest.approx(1, abs=0.03)


def test_nothing_is_bootstrapped_at_the_limit():
    data = cut([6, 6, 3, 2], limit=6)
    onward = np.asarray(row_table(with_clock(data, 6)).take(jnp.arange(len(data))).onward)
    last = np.isin(np.arange(len(data)), data.starts[1:] - 1)
    assert np.array_equal(onward == 0, last)
    before = np.asarray(row_table(data).take(jnp.arange(len(data))).onward)
    assert before[data.starts[1:3] - 1].tolist() == [1, 1]


def test_values_are_bounded_by_what_can_be_earned_up_to_the_limit():
    data = cut([6, 6, 3, 2], limit=6)
    low, high = np.asarray(device_log(with_clock(data, 6), 1.0).value_bounds)
    assert low == pytest.approx(6 * data.rewards.min())
    assert high == pytest.approx(6 * data.rewards.max())
    _, endless = np.asarray(device_log(with_clock(data, 6, ends=False), 0.9).value_bounds)
    assert endless == pytest.approx(data.rewards.max() / 0.1)
    _, high = np.asarray(device_log(with_clock(data, 6), 0.9).value_bounds)
    assert high == pytest.approx(data.rewards.max() * (1 - 0.9**6) / 0.1)


def test_a_policy_sees_all_but_the_clock():
    table = row_table(with_clock(cut([6, 6, 3, 2], limit=6), 6))
    assert (table.features, table.inputs(), table.inputs(clock=True)) == (3, 2, 3)
    plain = row_table(cut([6, 6, 3, 2], limit=6))
    assert (plain.features, plain.inputs(), plain.inputs(clock=True)) == (2, 2, 2)


def test_an_earlier_limit_cuts_the_log_there():
    data = make([6, 3, 4, 2])
    shorter = up_to(data, 4)
    assert shorter.lengths.tolist() == [4, 3, 4, 2]
    assert np.array_equal(shorter.rewards, data.rewards[data.time < 4])
    assert np.array_equal(shorter.final_observations[0], data.observations[4])
    assert np.array_equal(shorter.final_observations[1:], data.final_observations[1:])
    assert shorter.terminated.tolist() == [False, *data.terminated[1:].tolist()]
    assert up_to(data, 6) is data
