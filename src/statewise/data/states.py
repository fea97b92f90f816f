"""The states of a log whose observations take few values, each many times: then whatever follows can be counted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from statewise.base.column import parts_of

SAMPLE = 2000  # rows in which states must repeat, before all are compared
ROWS_PER_STATE = 4  # at least, on average
PART = 1 << 18  # rows that are compared at a time


class FewStates(NamedTuple):
    """The values that observations take, and which of them each row has."""

    states: Float[np.ndarray, "states features"]
    place: Int[np.ndarray, " rows"]

    @property
    def first(self) -> Int[np.ndarray, " states"]:
        """A row of each state: the first."""
        first = np.full(len(self.states), len(self.place))
        np.minimum.at(first, self.place, np.arange(len(self.place)))
        return first


def few_states(observations: Float[np.ndarray, "rows features"]) -> FewStates | None:
    """None where too many rows have a state of their own. States are told apart in single precision, as logs are."""
    count = len(observations)
    some = np.random.default_rng(0).choice(count, min(SAMPLE, count), replace=False)
    if 2 * len(np.unique(observations[np.sort(some)].astype(np.float32), axis=0)) > len(some):
        return None
    states = np.empty((0, observations.shape[1]), np.float32)
    for part in parts_of(count, PART):
        states = np.unique(np.concatenate([states, observations[part].astype(np.float32)]), axis=0)
        if ROWS_PER_STATE * len(states) > count:
            return None
    place = np.concatenate([places_of(states, observations[part]) for part in parts_of(count, PART)])
    return FewStates(states, place)


def places_of(
    states: Float[np.ndarray, "states features"], others: Float[np.ndarray, "n features"]
) -> Int[np.ndarray, " n"]:
    """Where each of the others stands among the states, which do not repeat; −1: it does not."""
    both, place = np.unique(np.concatenate([states, others]).astype(np.float32), axis=0, return_inverse=True)
    place = place.reshape(-1)
    number = np.full(len(both), -1)
    number[place[: len(states)]] = np.arange(len(states))
    return number[place[len(states) :]].astype(np.int32)
