"""Faults in a log, and warnings about it: each is one plain sentence that names the column and the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

ROWS_SHOWN = 5
PLURAL = {"is": "are", "has": "have"}
NOT_WHOLE = "is not a whole number", "are not whole numbers"
NOT_FINITE = "is not a finite number", "are not finite numbers"


@dataclass(frozen=True)
class RowNames:
    """How rows are counted in messages: lines of a file, as an editor counts them, or rows of a frame, from 0."""

    word: str = "row"
    first: int = 0
    places: np.ndarray | None = None  # of the rows among all lines, where some lines were left out

    def list(self, rows: np.ndarray, total: int) -> str:
        places = rows[:ROWS_SHOWN] if self.places is None else self.places[rows[:ROWS_SHOWN]]
        shown = ", ".join(str(int(place) + self.first) for place in places)
        rest = f" and {total - ROWS_SHOWN:,} more" if total > ROWS_SHOWN else ""
        return f"{self.word}{'' if total == 1 else 's'} {shown}{rest}"


@dataclass(frozen=True)
class Finding:
    """One fault (the log is refused) or one warning (the log is read, but the reader should know)."""

    severity: Literal["fault", "warning"]
    column: str
    problem: str
    advice: str
    rows: tuple[int, ...] = ()
    where: str = ""

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"{self.column}: {self.problem}{place}. {self.advice}"

    def to_dict(self) -> dict:
        return {
            "severity": self.severity,
            "column": self.column,
            "rows": list(self.rows),
            "problem": self.problem,
            "advice": self.advice,
        }


def no_observations(prefix: str, candidates: tuple[str, ...] = ()) -> Finding:
    """The fault of a log that has none; `candidates` are columns that could be observations."""
    listed = repr(candidates) if candidates else "..."
    advice = f"Start their names with {prefix}, or list them: `Columns(observations={listed})`"
    return Finding("fault", f"{prefix}*", "there are no observation columns", advice)


class LogError(ValueError):
    """The log cannot be used; `faults` holds every reason at once."""

    def __init__(self, faults: Sequence[Finding]):
        self.faults = tuple(faults)
        count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        super().__init__("\n".join([f"the log has {count}:", *(f"- {fault}" for fault in self.faults)]))


class LogWarning(UserWarning):
    """The log was read, but something in it is suspicious."""


class Findings:
    """Collects findings while a log is checked."""

    def __init__(self, row_names: RowNames | None = None):
        self.items: list[Finding] = []
        self.row_names = row_names or RowNames()

    def fault(self, column: str, problem: str, advice: str, rows: np.ndarray | None = None) -> None:
        self._add("fault", column, problem, advice, rows)

    def warn(self, column: str, problem: str, advice: str, rows: np.ndarray | None = None) -> None:
        self._add("warning", column, problem, advice, rows)

    def _add(self, severity, column: str, problem: str, advice: str, rows: np.ndarray | None) -> None:
        if rows is None:
            self.items.append(Finding(severity, column, problem, advice))
            return
        shown = tuple(int(row) for row in rows[:ROWS_SHOWN])
        where = self.row_names.list(rows, len(rows))
        self.items.append(Finding(severity, column, problem, advice, shown, where))

    @property
    def faults(self) -> list[Finding]:
        return [item for item in self.items if item.severity == "fault"]

    @property
    def warnings(self) -> list[Finding]:
        return [item for item in self.items if item.severity == "warning"]

    def raise_faults(self) -> None:
        if self.faults:
            raise LogError(self.faults)


def rows_that(rows: np.ndarray, singular: str, plural: str | None = None) -> str:
    """`1 row is empty`, `1,200 rows are empty`; a plural that only changes "is" or "has" need not be given."""
    if len(rows) == 1:
        return f"1 row {singular}"
    verb, _, rest = singular.partition(" ")
    return f"{len(rows):,} rows {plural or f'{PLURAL[verb]} {rest}'}"
