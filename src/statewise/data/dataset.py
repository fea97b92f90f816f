"""`Dataset`: the one type that travels once a log has passed the border."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

ROW_COLUMNS = ("observations", "actions", "rewards", "propensities", "distributions", "legal", "targets", "live")
EPISODE_COLUMNS = ("terminated", "final_observations", "episode_ids", "units")


@runtime_checkable
class EstimatedPropensities(Protocol):
    """What a log carries whose propensities were not logged; `propensities.estimated.Estimated` is the one there is."""

    @property
    def calibration(self) -> Any: ...
    @property
    def model(self) -> Any: ...
    @property
    def summary(self) -> str: ...
    def take(self, rows: np.ndarray) -> EstimatedPropensities: ...
    def describes(self, dataset: Dataset) -> bool: ...
    def refits(self, dataset: Dataset) -> tuple[Dataset, ...]: ...


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Ragged episodes of logged decisions, checked and immutable.

    Row i is one decision: in state `observations[i]` action `actions[i]` was taken with probability
    `propensities[i]` and earned `rewards[i]`. Episode e owns rows `starts[e]` to `starts[e + 1]`.

    >>> import statewise as sw
    >>> data = sw.Dataset.from_episodes(
    ...     observations=[[[0.0], [1.0]], [[0.5]]], actions=[[0, 1], [1]], rewards=[[0.0, 1.0], [0.5]],
    ...     propensities=[[0.5, 0.5], [0.25]], terminated=[True, False])
    >>> data.lengths.tolist(), data.returns().tolist()
    ([2, 1], [1.0, 0.5])
    """

    observations: Float[np.ndarray, "steps features"]
    actions: Int[np.ndarray, " steps"]
    rewards: Float[np.ndarray, " steps"]
    propensities: Float[np.ndarray, " steps"] | None  # None: not logged, to be estimated
    starts: Int[np.ndarray, " episodes_and_one"]
    terminated: Bool[np.ndarray, " episodes"]  # the world ended it; otherwise it was cut off (truncated)
    final_observations: Float[np.ndarray, "episodes features"]  # NaN where the log does not hold it
    action_count: int
    observation_names: tuple[str, ...]
    episode_ids: np.ndarray
    distributions: Float[np.ndarray, "steps actions"] | None = None
    legal: Bool[np.ndarray, "steps actions"] | None = None
    units: np.ndarray | None = None
    targets: Float[np.ndarray, "steps actions"] | None = None  # π(·|s) of a policy whose decisions came with the log
    live: Bool[np.ndarray, " steps"] | None = None  # False on rows that augmentation added; None: all are live
    action_names: tuple[str, ...] = ()  # () becomes "0", "1", …: what the log calls them
    estimated: EstimatedPropensities | None = None  # None: propensities were logged, or there are none

    def __post_init__(self) -> None:
        object.__setattr__(self, "action_names", self.action_names or numbered(self.action_count))
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, _frozen(value))
        if self.estimated is not None and not self.estimated.describes(self):
            raise ValueError("actions and propensities are not the estimated ones; replace them with estimated=None")

    # Making one

    @classmethod
    def from_episodes(
        cls,
        *,
        observations: Sequence[Any],
        actions: Sequence[Any],
        rewards: Sequence[Any],
        terminated: Sequence[Any],
        propensities: Sequence[Any] | None = None,
        distributions: Sequence[Any] | None = None,
        legal: Sequence[Any] | None = None,
        units: Sequence[Any] | None = None,
        observation_names: Sequence[str] | None = None,
        action_count: int | None = None,
    ) -> Dataset:
        """From one array an episode. Observations may have one more row than actions: the final state.

        `propensities` (of the taken actions) or `distributions` (over all actions) must be given, one at least.
        Warns with `LogWarning` of what is only suspicious, as `statewise.load` does.
        """
        from statewise.data.build import accept, build
        from statewise.data.episodes import raw_from_episodes

        raw = raw_from_episodes(
            observations=observations,
            actions=actions,
            rewards=rewards,
            terminated=terminated,
            propensities=propensities,
            distributions=distributions,
            legal=legal,
            units=units,
            observation_names=observation_names,
            action_count=action_count,
        )
        return accept(*build(raw))

    def save(self, path: str | Path) -> None:
        """Writes the log in the format of the path's ending: Parquet, CSV, or one that you added to `data.formats`.

        `statewise.load` reads Parquet back equal; CSV too, but for single precision, which text does not tell.
        """
        from statewise.data.table import save

        save(self, path)

    # Looking at it

    @property
    def episodes(self) -> int:
        return len(self.starts) - 1

    @property
    def has_action_words(self) -> bool:
        """Whether the log calls its actions by words."""
        return self.action_names != numbered(self.action_count)

    @property
    def truncated(self) -> Bool[np.ndarray, " episodes"]:
        return ~self.terminated

    @cached_property
    def lengths(self) -> Int[np.ndarray, " episodes"]:
        return _frozen(np.diff(self.starts))

    @cached_property
    def episode_of_step(self) -> Int[np.ndarray, " steps"]:
        return _frozen(np.repeat(np.arange(self.episodes), self.lengths))

    @cached_property
    def time(self) -> Int[np.ndarray, " steps"]:
        """Each row's step within its episode, from 0."""
        return _frozen(np.arange(len(self)) - np.repeat(self.starts[:-1], self.lengths))

    @cached_property
    def groups(self) -> Int[np.ndarray, " episodes"]:
        """Which whole each episode belongs to, numbered from 0: its unit where there are units, else itself."""
        if self.units is None:
            return _frozen(np.arange(self.episodes))
        return _frozen(np.unique(self.units, return_inverse=True)[1])

    @property
    def has_final_observation(self) -> Bool[np.ndarray, " episodes"]:
        return np.asarray(~np.isnan(self.final_observations).any(axis=1))

    @cached_property
    def refits(self) -> tuple[Dataset, ...]:
        """The log with propensities fitted anew to resampled episodes (or units); none where they were logged.

        How much an estimate differs between them is what not knowing the propensities adds to its uncertainty.
        """
        return () if self.estimated is None else self.estimated.refits(self)

    def returns(self, discount: float = 1.0) -> Float[np.ndarray, " episodes"]:
        """Σₜ γᵗ rₜ of each episode."""
        return np.add.reduceat(self.rewards * discount**self.time, self.starts[:-1])

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        from statewise.data.summary import describe

        return describe(self)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that the log says, for manifests."""
        from statewise.data.fingerprint import fingerprint

        return fingerprint(self)

    # Parts of it

    def take(self, episodes: Int[np.ndarray, " chosen"] | Bool[np.ndarray, " episodes"]) -> Dataset:
        """The chosen episodes, by number in any order, also repeatedly, or by a mask."""
        episodes = np.asarray(episodes)
        episodes = np.flatnonzero(episodes) if episodes.dtype == bool else episodes.astype(np.int64)
        lengths = self.lengths[episodes]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(starts[-1]) + np.repeat(self.starts[episodes] - starts[:-1], lengths)
        columns: dict[str, Any] = {name: (getattr(self, name), rows) for name in ROW_COLUMNS}
        columns |= {name: (getattr(self, name), episodes) for name in EPISODE_COLUMNS}
        parts = {name: None if column is None else column[places] for name, (column, places) in columns.items()}
        estimated = None if self.estimated is None else self.estimated.take(rows)
        return replace(self, starts=starts, estimated=estimated, **parts)

    def split(self, *fractions: float, seed: int = 0) -> tuple[Dataset, ...]:
        """Splits by whole units where there are units, by whole episodes otherwise; the last part is the rest.

        `train, held_out = data.split(0.7, seed=0)`; `a, b, c = data.split(0.5, 0.25)`.
        """
        if not fractions or min(fractions) <= 0 or sum(fractions) >= 1:
            raise ValueError(f"split needs fractions above 0 that sum to less than 1, not {fractions}")
        groups = int(self.groups.max()) + 1
        if groups < len(fractions) + 1:
            kind = "episodes" if self.units is None else "units"
            raise ValueError(
                f"{groups} {kind[:-1] if groups == 1 else kind} cannot be split into {len(fractions) + 1} parts"
            )
        shuffled = np.random.default_rng(seed).permutation(groups)
        edges = np.rint(np.cumsum(fractions) * groups).astype(int)
        # every part gets one group at least
        edges = np.clip(edges, np.arange(1, len(edges) + 1), groups - np.arange(len(edges), 0, -1))
        parts = np.split(shuffled, edges)
        return tuple(self.take(np.flatnonzero(np.isin(self.groups, part))) for part in parts)


def numbered(count: int) -> tuple[str, ...]:
    """What actions are called that have no other name."""
    return tuple(str(action) for action in range(count))


def _frozen(array: np.ndarray) -> np.ndarray:
    """Read-only for good where the array is its own; a read-only view where it is part of another."""
    if array.base is not None:
        array = array.view()
    array.flags.writeable = False
    return array
