from __future__ import annotations

import numpy as np
import pytest

from statewise.ops.clock import hats, knots


def test_a_short_limit_has_a_knot_at_every_step():
    at = knots(np.array([0, 0, 1]), horizon=5, count=8)
    assert at.tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(hats(np.arange(5), at), np.eye(5))


@pytest.mark.parametrize("times", [np.arange(200), np.zeros(50, int), np.full(50, 199), np.repeat(np.arange(200), 3)])
def test_knots_increase_from_the_first_step_to_the_last(times):
    at = knots(times, horizon=200, count=12)
    assert len(at) == 12
    assert at[0] == 0
    assert at[-1] == 199
    assert (np.diff(at) > 0).all()


def test_there_are_as_many_rows_between_any_two_knots():
    times = np.repeat(np.arange(100), np.arange(100, 0, -1))
    at = knots(times, horizon=100, count=6)
    between = np.diff(np.searchsorted(np.sort(times), at))
    assert between[:-1] == pytest.approx(len(times) / 5, rel=0.06)


def test_rows_beyond_the_limit_do_not_count():
    assert knots(np.arange(1000), horizon=50, count=5).tolist() == knots(np.arange(50), horizon=50, count=5).tolist()


def test_a_piecewise_linear_function_is_its_values_at_the_knots():
    at = np.array([0, 3, 4, 19])
    values = np.random.default_rng(0).normal(size=4)
    times = np.arange(20)
    assert hats(times, at) @ values == pytest.approx(np.interp(times, at, values), abs=1e-12)
    assert hats(times, at).sum(axis=1) == pytest.approx(np.ones(20), abs=1e-12)
    assert hats(np.array([25]), at).tolist() == [[0, 0, 0, 1]]


def test_one_step_has_one_knot():
    assert hats(np.array([0, 0]), knots(np.array([0, 0]), horizon=1, count=12)).tolist() == [[1.0], [1.0]]
