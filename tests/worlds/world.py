"""What a world is, and episodes as they were played, on their way to a log."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import statewise as sw
from statewise.data.findings import LogWarning
from statewise.data.horizon import Horizon


@dataclass(frozen=True, eq=False)
class Played:
    """Episodes side by side: row e, step t; what lies beyond `lengths[e]` does not count."""

    observations: np.ndarray  # [episodes, horizon + 1, features]
    actions: np.ndarray  # [episodes, horizon]
    rewards: np.ndarray  # [episodes, horizon]
    distributions: np.ndarray  # [episodes, horizon, actions], of whoever acted
    lengths: np.ndarray  # [episodes]
    terminated: np.ndarray  # [episodes]
    legal: np.ndarray | None = None  # [episodes, horizon, actions]

    def returns(self, discount: float) -> np.ndarray:
        steps = np.arange(self.rewards.shape[1])
        counts = steps < self.lengths[:, None]
        return np.where(counts, self.rewards * discount**steps, 0.0).sum(axis=1)

    def cut(self, after: np.ndarray) -> Played:
        """Recorded for `after[e]` steps only."""
        lengths = np.minimum(self.lengths, after)
        return replace(self, lengths=lengths, terminated=self.terminated & (lengths == self.lengths))

    def log(
        self,
        *,
        whole_distributions: bool = True,
        units: np.ndarray | None = None,
        ends: Horizon | None = None,
    ) -> sw.Dataset:
        """The log of them, with whole distributions or with propensities of the actions taken alone."""
        chances = np.take_along_axis(self.distributions, self.actions[:, :, None], axis=2)[:, :, 0]

        def rows(column: np.ndarray) -> list[np.ndarray]:
            return [row[:length] for row, length in zip(column, self.lengths, strict=True)]

        seen = zip(self.observations, self.lengths, self.terminated, strict=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LogWarning)
            data = sw.Dataset.from_episodes(
                observations=[row[: length + (not ended)] for row, length, ended in seen],
                actions=rows(self.actions),
                rewards=rows(self.rewards),
                terminated=list(self.terminated),
                distributions=rows(self.distributions) if whole_distributions else None,
                propensities=None if whole_distributions else rows(chances),
                legal=None if self.legal is None else rows(self.legal),
                units=None if units is None else list(units),
                action_count=self.distributions.shape[2],
            )
        return data if ends is None else replace(data, ends=ends)


def joined(parts: list[Played]) -> Played:
    """Episodes of the same horizon, one after the other."""
    columns = ("observations", "actions", "rewards", "distributions", "lengths", "terminated")
    return Played(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


@dataclass(frozen=True, eq=False)
class World:
    """A problem whose truth is known, logs of it, and a policy to be judged on them.

    `truth` and `today` are the policy's and the behaviour's values, discounted by `discount`, to the horizon that the
    logs have; `log(seed, episodes)` makes a log, of `episodes` episodes unless told otherwise. `play(new, episodes,
    rng)` plays the world itself, by the policy (`new`) or by the behaviour: the second way to the same values.
    """

    name: str
    trap: str
    make_log: Callable[[int, int], sw.Dataset]
    policy: Any
    truth: float
    today: float
    episodes: int
    play: Callable[[bool, int, np.random.Generator], Played]
    discount: float = 1.0
    holds: bool = True  # whether what intervals rest on is true here: only then must they hold
    identified: bool = True  # False: nobody tried what the policy does, so that no *deploy* is right
    exempt: bool = False  # no log can show what is wrong
    error: float = 0.0  # standard error of truth and today, where they were simulated
    needs: tuple[str, ...] = ()  # libraries beyond statewise's core

    @property
    def gain(self) -> bool:
        """Whether the policy is better."""
        return self.truth > self.today

    def log(self, seed: int, episodes: int | None = None) -> sw.Dataset:
        return self.make_log(seed, self.episodes if episodes is None else episodes)


def earnable(log: sw.Dataset, discount: float) -> tuple[float, float]:
    """The least and the greatest return that the logged rewards and lengths allow."""
    horizon = log.horizon.steps or int(log.lengths.max())
    ended = log.lengths[log.terminated]
    shortest = min(horizon, int(ended.min()) if len(ended) else horizon)
    lengths = [float((discount ** np.arange(steps)).sum()) for steps in (shortest, horizon)]
    returns = [length * reward for length in lengths for reward in (log.rewards.min(), log.rewards.max())]
    return float(min(returns)), float(max(returns))
