"""A log of a finite problem as tabular methods see it: counts, and the model that they estimate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from statewise.data.dataset import Dataset
from statewise.domains.source import Exact
from statewise.domains.tabular import Policy


@dataclass(frozen=True, eq=False)
class FiniteLog:
    """A log whose observations are rows of `seen`, with the behaviour, which this literature takes to be known.

    The end of an episode counts as one more state, the last, in which nothing more is earned.
    """

    dataset: Dataset
    behaviour: Policy
    seen: Float[np.ndarray, "states features"]
    seed: int = 0

    @classmethod
    def of(cls, source: Exact, dataset: Dataset, seed: int = 0) -> FiniteLog:
        return cls(dataset, source.behaviour, source.seen, seed)

    def part(self, episodes: Int[np.ndarray, " chosen"]) -> FiniteLog:
        return FiniteLog(self.dataset.take(episodes), self.behaviour, self.seen, self.seed)

    @cached_property
    def states(self) -> Int[np.ndarray, " rows"]:
        return self._numbered(self.dataset.observations)

    @cached_property
    def next_states(self) -> Int[np.ndarray, " rows"]:
        last = self.dataset.starts[1:] - 1
        following = np.append(self.states[1:], 0)
        following[last] = len(self.seen)
        cut_off = ~self.dataset.terminated
        following[last[cut_off]] = self._numbered(self.dataset.final_observations[cut_off])
        return following

    @cached_property
    def transition_counts(self) -> Float[np.ndarray, "states actions places"]:
        counts = np.zeros((*self.behaviour.shape, len(self.seen) + 1))
        np.add.at(counts, (self.states, self.dataset.actions, self.next_states), 1.0)
        return counts

    @cached_property
    def counts(self) -> Float[np.ndarray, "states actions"]:
        """n(s, a)."""
        return self.transition_counts.sum(axis=2)

    @cached_property
    def model(self) -> Float[np.ndarray, "states actions places"]:
        """P̂(s'|s,a) = n(s,a,s')/n(s,a); 0 where a pair was never tried, so that it earns nothing."""
        return self.transition_counts / np.maximum(self.counts, 1.0)[:, :, None]

    @cached_property
    def arriving(self) -> Float[np.ndarray, "places"]:
        """The mean reward of the steps that lead to each state; 0 where none do."""
        count = np.bincount(self.next_states, minlength=len(self.seen) + 1)
        return np.bincount(self.next_states, self.dataset.rewards, len(self.seen) + 1) / np.maximum(count, 1)

    @cached_property
    def rewards(self) -> Float[np.ndarray, "states actions"]:
        """r̂(s,a), the mean reward of a pair; 0 where it was never tried."""
        totals = np.zeros(self.behaviour.shape)
        np.add.at(totals, (self.states, self.dataset.actions), self.dataset.rewards)
        return totals / np.maximum(self.counts, 1.0)

    def _numbered(self, observations: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, " rows"]:
        if np.array_equal(self.seen, np.eye(len(self.seen))):
            return np.argmax(observations, axis=1)
        return np.argmin(((observations[:, None] - self.seen) ** 2).sum(axis=2), axis=1)
