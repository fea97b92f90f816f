"""Logs of few states."""

import numpy as np

from statewise.data import states as module
from statewise.data.states import few_states, places_of


def test_every_row_has_its_state(monkeypatch):
    monkeypatch.setattr(module, "PART", 7)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(6, 3)).astype(np.float32)
    number = rng.integers(6, size=100)
    few = few_states(table[number])
    assert few is not None
    np.testing.assert_array_equal(few.states[few.place], table[number])
    assert len(few.states) == len(np.unique(number))
    for state, row in enumerate(few.first):
        assert row == np.flatnonzero(few.place == state)[0]


def test_single_and_double_precision_are_the_same_state():
    """Scaled observations have double precision, what a device gives back has not."""
    values = np.random.default_rng(0).normal(size=(5, 2))
    rows = np.tile(values, (8, 1))
    few = few_states(rows)
    assert few is not None
    np.testing.assert_array_equal(places_of(few.states, rows.astype(np.float32)), few.place)
    np.testing.assert_array_equal(places_of(few.states, rows), few.place)


def test_too_many():
    rng = np.random.default_rng(0)
    assert few_states(rng.normal(size=(100, 2)).astype(np.float32)) is None
    three_each = np.repeat(np.arange(40.0), 3)[:, None]
    assert few_states(three_each) is None
    assert few_states(np.repeat(np.arange(40.0), 4)[:, None]) is not None


def test_places_among_the_states():
    table = np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
    np.testing.assert_array_equal(places_of(table, np.array([[1.0, 0.0], [5.0, 5.0], [0.0, 1.0]])), [2, -1, 0])
