"""How a log is read: which column is what, and what becomes of each observation. NumPy alone: policies carry it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from statewise.base.decode import decode
from statewise.data.encoding import Code
from statewise.data.rawlog import Columns

SCHEMA = "schema"  # its place on a policy's card and in a run's manifest


@dataclass(frozen=True)
class Schema:
    """What a log was read as, so that the next one and the rows to act on are read alike."""

    columns: Columns
    codes: tuple[Code, ...]  # of the observed columns, in order
    ends: Literal["terminated", "truncated"] | None = None
    # ignored: there were logged ones, and their owner asked for estimates
    propensity: Literal["logged", "estimate", "ignored"] = "logged"
    actions: tuple[str, ...] | None = None  # their names, if they are words
    cut_off: Literal["limit", "censored", "continuing"] | None = None  # `horizon.CutOff`, which needs more than NumPy
    horizon: int | None = None
    present: tuple[str, ...] = ()  # the roles that a column of the log plays
    guessed: tuple[str, ...] = ()  # the roles that were found by name and contents, rather than given
    left_out: tuple[tuple[str, str], ...] = ()  # columns that play no part, and why
    settled: bool = False  # whether what fills gaps was learned elsewhere and stays

    def __post_init__(self) -> None:
        names = list(self.features)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"there are two observations '{twice}'; rename one of them")

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all features, in order."""
        return tuple(feature for code in self.codes for feature in code.features)

    @property
    def plain(self) -> bool:
        """Whether every observation is a number without gaps, which stays as it is."""
        return all(code.plain for code in self.codes)

    def over(self, columns: Columns) -> Columns:
        """The columns as given, and as they were here where nothing was given."""
        usual, given = Columns(), {}
        for each in fields(Columns):
            value = getattr(columns, each.name)
            given[each.name] = getattr(self.columns, each.name) if value == getattr(usual, each.name) else value
        return Columns(**given)

    def as_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(replace(self, settled=True))

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> Schema | None:
        """From a policy's card or a run's manifest; None where they hold none, ValueError where it makes no sense."""
        found = stated.get(SCHEMA)
        return None if found is None else decode(cls, found, SCHEMA)

    @staticmethod
    def stated(schema: Schema | None) -> dict[str, Any]:
        """What a policy's card or a run's manifest says of it; nothing where there is none."""
        return {} if schema is None else {SCHEMA: schema.as_json()}

    # Gaps

    def fills(self) -> list[float]:
        """What stands in the gaps, column by column."""
        return [code.fill for code in self.codes if code.fill is not None]

    def learned_fills(self, observations: np.ndarray) -> list[float]:
        """The median of what is known in each column with gaps; the present fill where nothing is."""
        known = [observations[observations[:, mark] == 0, value] for value, mark in self._filled()]
        pairs = zip(known, self.fills(), strict=True)
        return [float(np.median(values)) if len(values) else fill for values, fill in pairs]

    def with_fills(self, fills: Sequence[float]) -> Schema:
        left = iter(fills)
        return replace(
            self, codes=tuple(code if code.fill is None else replace(code, fill=next(left)) for code in self.codes)
        )

    def fill(self, observations: np.ndarray, fills: Sequence[float]) -> np.ndarray:
        """The observations with these numbers in the gaps."""
        observations = observations.copy()
        for (value, mark), fill in zip(self._filled(), fills, strict=True):
            observations[observations[:, mark] == 1, value] = fill
        return observations

    def _filled(self) -> list[tuple[int, int]]:
        """Where the filled features are, and those that mark the gaps."""
        places, first = [], 0
        for code in self.codes:
            if code.fill is not None:
                places.append((first, first + 1))
            first += len(code.features)
        return places
