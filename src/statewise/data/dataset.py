"""`Dataset`: the one type that a log is passed around as, once it is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.base.column import by_parts, repeated
from statewise.base.drawn import drawn
from statewise.data.horizon import CutOff, Horizon, horizon_of, said
from statewise.data.origin import Origin
from statewise.data.schema import Schema

ROW_COLUMNS = ("observations", "actions", "rewards", "propensities", "distributions", "legal", "targets", "live")
EPISODE_COLUMNS = ("terminated", "final_observations", "episode_ids", "units", "loggers", "logged_by")


@runtime_checkable
class EstimatedPropensities(Protocol):
    """What a Dataset carries if its propensities were estimated: `propensities.estimated.Estimated`."""

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
    """Episodes of logged decisions, of any lengths, checked and immutable.

    Row i is one decision: in state `observations[i]`, action `actions[i]` was taken with probability `propensities[i]`
    and earned `rewards[i]`. Episode e has the rows from `starts[e]` up to `starts[e + 1]`.

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
    propensities: Float[np.ndarray, " steps"] | None  # None: not logged
    starts: Int[np.ndarray, " episodes_and_one"]
    terminated: Bool[np.ndarray, " episodes"]  # the world ended it; if not, it was cut off (truncated)
    final_observations: Float[np.ndarray, "episodes features"]  # NaN if not logged
    action_count: int
    observation_names: tuple[str, ...]
    episode_ids: np.ndarray
    distributions: Float[np.ndarray, "steps actions"] | None = None
    legal: Bool[np.ndarray, "steps actions"] | None = None
    units: np.ndarray | None = None
    targets: Float[np.ndarray, "steps actions"] | None = None  # π(·|s) of a policy to be evaluated, from the log
    live: Bool[np.ndarray, " steps"] | None = None  # False on rows added by augmentation; None: all are live
    action_names: tuple[str, ...] = ()  # the log's names for them; () becomes "0", "1", …
    estimated: EstimatedPropensities | None = None  # None: the propensities were logged, or there are none
    ends: Horizon | None = None  # what its owner says of being cut off, and up to which step the value counts
    loggers: Int[np.ndarray, " episodes"] | None = None  # which of several logs each episode is of, the newest last
    logged_by: np.ndarray | None = None  # the log's own name of who decided in each episode; None: it does not say
    schema: Schema | None = None  # what the columns of its table were taken for; None: it came from arrays
    origin: Origin | None = None  # where it came from, for reports; None: it came from arrays, or is several

    def __post_init__(self) -> None:
        object.__setattr__(self, "action_names", self.action_names or numbered(self.action_count))
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, _frozen(value))
        if self.estimated is not None and not self.estimated.describes(self):
            raise ValueError(
                "actions or propensities differ from the estimated ones; set estimated=None along with them"
            )

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
        cut_off: CutOff | None = None,
        horizon: int | None = None,
    ) -> Dataset:
        """From one array per episode. Observations may have one more row than actions: the final state.

        Give `propensities` (of the actions taken), `distributions` (over all actions) or both. `cut_off` says what it
        means that an episode was, and `horizon` up to which step the value counts, as in `statewise.load`. Warns with
        `LogWarning` of what is merely suspicious.
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
            horizon=said(cut_off, horizon),
        )
        return accept(*build(raw))

    def save(self, path: str | Path) -> None:
        """Writes the log in the format of the path's ending: Parquet, CSV, or one added to `statewise.data.formats`.

        `statewise.load` gives an equal log back; from CSV, numbers in single precision come back in double. A Parquet
        file also keeps how words, dates and gaps became numbers (`schema`).
        """
        from statewise.data.table import save

        save(self, path)

    def to_polars(self) -> Any:
        """The log as a polars frame of features, with the columns that `save` writes and `statewise.load` reads."""
        from statewise.data.table import to_frame

        return to_frame(self)

    def to_pandas(self) -> Any:
        """The log as a pandas frame of features, with the columns that `save` writes and `statewise.load` reads."""
        from statewise.data.table import to_pandas

        return to_pandas(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The log as Arrow: `pyarrow.table(log)` and whatever else takes Arrow has it without another copy."""
        return self.to_polars().__arrow_c_stream__(requested_schema)

    def to_minari(self, name: str, **metadata: Any) -> Any:
        """Writes a Minari dataset called `name`, and returns it; as `statewise.to_minari`."""
        from statewise.data.minari import to_minari

        return to_minari(self, name, **metadata)

    # Reading one

    @property
    def episodes(self) -> int:
        return len(self.starts) - 1

    @property
    def has_action_words(self) -> bool:
        """Whether the log gives its actions as words."""
        return self.action_names != numbered(self.action_count)

    @property
    def truncated(self) -> Bool[np.ndarray, " episodes"]:
        return ~self.terminated

    @cached_property
    def lengths(self) -> Int[np.ndarray, " episodes"]:
        return _frozen(np.diff(self.starts))

    @cached_property
    def episode_of_step(self) -> Int[np.ndarray, " steps"]:
        return _frozen(repeated(np.arange(self.episodes), self.lengths, self.rewards))

    @cached_property
    def time(self) -> Int[np.ndarray, " steps"]:
        """Each row's step within its episode, from 0."""
        begins = repeated(self.starts[:-1], self.lengths, self.rewards)
        return _frozen(by_parts(lambda part: np.arange(part.start, part.stop) - begins[part], len(self), begins))

    @cached_property
    def groups(self) -> Int[np.ndarray, " episodes"]:
        """What each episode must not be separated from, numbered from 0: its unit if there are units, else itself."""
        if self.units is None:
            return _frozen(np.arange(self.episodes))
        return _frozen(np.unique(self.units, return_inverse=True)[1])

    @cached_property
    def horizon(self) -> Horizon:
        """Up to which step the value counts, and what it means that an episode was cut off."""
        return horizon_of(self)

    @property
    def has_final_observation(self) -> Bool[np.ndarray, " episodes"]:
        return np.asarray(~np.isnan(self.final_observations).any(axis=1))

    @cached_property
    def refits(self) -> tuple[Dataset, ...]:
        """The log with propensities refitted to resamples of its episodes (or units); () if they were logged.

        The variance of an estimate between them is what not knowing the propensities adds to its own.
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

    _repr_html_ = drawn("statewise.report.notebook:dataset")
    plot = drawn("statewise.report.plots:dataset", "Draws the returns of all episodes on matplotlib's axes `ax`.")

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything in the log."""
        from statewise.data.fingerprint import fingerprint

        return fingerprint(self)

    # Taking parts

    def take(self, episodes: Int[np.ndarray, " chosen"] | Bool[np.ndarray, " episodes"]) -> Dataset:
        """The chosen episodes: by number, in any order and possibly repeated, or by a mask."""
        episodes = np.asarray(episodes)
        episodes = np.flatnonzero(episodes) if episodes.dtype == bool else episodes.astype(np.int64)
        lengths = self.lengths[episodes]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        moved = repeated(self.starts[episodes] - starts[:-1], lengths, self.rewards)
        rows = by_parts(lambda part: np.arange(part.start, part.stop) + moved[part], len(moved), moved)
        columns: dict[str, Any] = {name: (getattr(self, name), rows) for name in ROW_COLUMNS}
        columns |= {name: (getattr(self, name), episodes) for name in EPISODE_COLUMNS}
        parts = {name: None if column is None else column[places] for name, (column, places) in columns.items()}
        estimated = None if self.estimated is None else self.estimated.take(rows)
        # a part of a log was cut off as the whole was, whatever it would show by itself
        ends = self.ends if self.horizon.cut_off is None else self.horizon
        return replace(self, starts=starts, estimated=estimated, ends=ends, **parts)

    def split(self, *fractions: float, seed: int = 0) -> tuple[Dataset, ...]:
        """Splits at random by whole units if there are units, otherwise by whole episodes; the last part is the rest.

        What fills gaps is learned anew from the first part, and put into the gaps of all.
        `train, held_out = data.split(0.7, seed=0)`; `a, b, c = data.split(0.5, 0.25)`.
        """
        if not fractions or min(fractions) <= 0 or sum(fractions) >= 1:
            raise ValueError(f"split needs fractions above 0 that sum to less than 1, got {fractions}")
        groups = int(self.groups.max()) + 1
        if groups < len(fractions) + 1:
            kind = "episodes" if self.units is None else "units"
            raise ValueError(
                f"{groups} {kind[:-1] if groups == 1 else kind} cannot be split into {len(fractions) + 1} parts"
            )
        shuffled = np.random.default_rng(seed).permutation(groups)
        edges = np.rint(np.cumsum(fractions) * groups).astype(int)
        # every part gets at least one group
        edges = np.clip(edges, np.arange(1, len(edges) + 1), groups - np.arange(len(edges), 0, -1))
        parts = np.split(shuffled, edges)
        return _refilled(tuple(self.take(np.flatnonzero(np.isin(self.groups, part))) for part in parts))


def _refilled(parts: tuple[Dataset, ...]) -> tuple[Dataset, ...]:
    """The parts with their gaps filled by what the first alone shows, unless a policy settled that before."""
    schema = parts[0].schema
    if schema is None or schema.settled or not schema.fills():
        return parts
    fills = schema.learned_fills(parts[0].observations)
    return tuple(
        replace(
            part,
            observations=schema.fill(part.observations, fills),
            final_observations=schema.fill(part.final_observations, fills),
            schema=schema.with_fills(fills),
        )
        for part in parts
    )


def numbered(count: int) -> tuple[str, ...]:
    """The names of actions that have no others."""
    return tuple(str(action) for action in range(count))


def _frozen(array: np.ndarray) -> np.ndarray:
    """The array made read-only, or a read-only view if it is part of another."""
    if array.base is not None:
        array = array.view()
    array.flags.writeable = False
    return array
