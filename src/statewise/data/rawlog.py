"""A log as it came: one array per column, rows in the order of the source, nothing checked yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from statewise.data.findings import RowNames

if TYPE_CHECKING:  # policies need `Columns`, and load where there is NumPy alone
    from statewise.data.horizon import Horizon
    from statewise.data.schema import Schema

# The single columns; the others come in families, by prefix.
NAMED = ("episode", "step", "time", "action", "reward", "propensity", "terminated", "truncated", "unit", "logger")


@dataclass(frozen=True)
class Columns:
    """What the columns of a log are called."""

    episode: str = "episode"  # which episode a row is of
    step: str = "step"  # numbers the rows of an episode
    time: str = "time"  # orders the rows of an episode where no column numbers them
    action: str = "action"  # what was done
    reward: str = "reward"  # what it earned
    propensity: str = "propensity"  # probability of the action; with `_0`, `_1`, … appended, of every action
    terminated: str = "terminated"  # true where the episode ended by itself
    truncated: str = "truncated"  # true where it was cut off
    unit: str = "unit"  # patient, student or user; never split between learning and judging
    logger: str = "logger"  # who decided: policies or people that were at it one after the other
    observations: tuple[str, ...] | None = None  # None: all that begin with `observation_prefix`
    words: tuple[str, ...] = ()  # observations whose numbers are names, such as ward numbers
    orders: tuple[tuple[str, tuple[str, ...]], ...] = ()  # observations with their words from least to most
    observation_prefix: str = "obs_"  # prefix of the columns that describe the state
    legal_prefix: str = "legal_"  # prefix of the columns that say which actions were allowed
    target_prefix: str | None = None  # prefix of a policy's probabilities, to be evaluated; None: there are none

    def __post_init__(self) -> None:
        if isinstance(self.orders, Mapping):  # as it is easiest to write
            ordered = tuple((name, tuple(words)) for name, words in self.orders.items())
            object.__setattr__(self, "orders", ordered)

    @property
    def distribution_prefix(self) -> str:
        return self.propensity + "_"

    def as_spelt_in(self, names: Sequence[str]) -> Columns:
        """The same columns in the log's spelling where only capitals differ: `Reward` is the reward."""
        alike = {name: [other for other in names if other.lower() == name.lower()] for name in self._single()}
        spelt = {name: same[0] for name, same in alike.items() if name not in names and len(same) == 1}
        listed = None if self.observations is None else tuple(spelt.get(name, name) for name in self.observations)
        orders = tuple((spelt.get(name, name), words) for name, words in self.orders)
        prefix, length = self.observation_prefix, len(self.observation_prefix)
        prefixes = {name[:length] for name in names if name.lower().startswith(prefix.lower())}
        return replace(
            self,
            **{name: spelt.get(getattr(self, name), getattr(self, name)) for name in NAMED},
            observations=listed,
            words=tuple(spelt.get(name, name) for name in self.words),
            orders=orders,
            observation_prefix=prefixes.pop() if len(prefixes) == 1 else prefix,
        )

    def _single(self) -> set[str]:
        named = {getattr(self, name) for name in NAMED} | set(self.observations or ())
        return named | set(self.words) | {name for name, _ in self.orders}


@dataclass(frozen=True)
class RawLog:
    """The columns of a log before any check.

    `episode` holds codes 0, 1, … in order of first appearance, and `episode_ids[code]` the log's own names. The last
    row of an episode holds its final state if action, reward and propensity are missing (NaN).
    """

    episode: np.ndarray
    episode_ids: np.ndarray
    observations: np.ndarray
    observation_names: tuple[str, ...]
    action: np.ndarray | None  # None: there is no such column
    reward: np.ndarray | None
    observation_columns: tuple[str, ...] = ()  # their names in the source, for messages
    step: np.ndarray | None = None
    propensity: np.ndarray | None = None
    distribution: np.ndarray | None = None
    legal: np.ndarray | None = None
    target: np.ndarray | None = None  # probabilities of a policy to be evaluated
    terminated: np.ndarray | None = None  # 1 true, 0 false, −1 empty; likewise truncated and legal
    truncated: np.ndarray | None = None
    unit: np.ndarray | None = None
    logger: np.ndarray | None = None  # names; "" where a row has none
    all_terminated: bool = False  # how every episode ended, if no column `terminated` says so
    horizon: Horizon | None = None  # what its owner says of being cut off
    schema: Schema | None = None  # what it was read as, if it was a table
    action_count: int | None = None
    action_names: tuple[str, ...] | None = None  # if the log gives actions as words
    unreadable: frozenset[str] = frozenset()  # columns that already have a fault, and are not checked again
    part: bool = False  # of a larger log: what can be said of the whole alone is not checked
    columns: Columns = field(default_factory=Columns)
    row_names: RowNames = field(default_factory=RowNames)

    def __len__(self) -> int:
        return len(self.episode)

    def take(self, order: np.ndarray) -> RawLog:
        """The log with its rows in another order."""
        columns = {name: getattr(self, name) for name in ROW_COLUMNS}
        return replace(self, **{name: column[order] for name, column in columns.items() if column is not None})


ROW_COLUMNS = (
    "episode",
    "observations",
    "action",
    "reward",
    "step",
    "propensity",
    "distribution",
    "legal",
    "target",
    "terminated",
    "truncated",
    "unit",
    "logger",
)
