"""What is wrong, or only odd, in a log: one finding is one plain sentence that names the column and the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

ROWS_SHOWN = 5


@dataclass(frozen=True)
class RowNames:
    """How a reader counts rows: an editor's lines of a CSV file, or a frame's rows from 0."""

    word: str = "row"
    first: int = 0
    skipped: np.ndarray | None = None  # where lines were left out: the place of each row that was not

    def list(self, rows: np.ndarray, total: int) -> str:
        places = rows[:ROWS_SHOWN] if self.skipped is None else self.skipped[rows[:ROWS_SHOWN]]
        shown = ", ".join(str(int(place) + self.first) for place in places)
        rest = f" and {total - ROWS_SHOWN:,} more" if total > ROWS_SHOWN else ""
        return f"{self.word}{'' if total == 1 else 's'} {shown}{rest}"


@dataclass(frozen=True)
class Finding:
    """One fault (the log is refused) or one warning (it is read, and the reader should know)."""

    severity: Literal["fault", "warning"]
    column: str
    found: str
    advice: str
    rows: tuple[int, ...] = ()
    where: str = ""

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"{self.column}: {self.found}{place}. {self.advice}"

    def to_dict(self) -> dict:
        return {
            "severity": self.severity,
            "column": self.column,
            "rows": list(self.rows),
            "found": self.found,
            "advice": self.advice,
        }


def no_observations(prefix: str, candidates: tuple[str, ...] = ()) -> Finding:
    """`candidates` are columns that could describe the state."""
    listed = repr(candidates) if candidates else "..."
    advice = f"Name the columns that describe the state {prefix}…, or list them: `Columns(observations={listed})`"
    return Finding("fault", f"{prefix}*", "no observation column was found", advice)


class LogError(ValueError):
    """The log cannot be used; `faults` holds every reason at once."""

    def __init__(self, faults: Sequence[Finding]):
        self.faults = tuple(faults)
        count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        super().__init__("\n".join([f"the log has {count}:", *(f"- {fault}" for fault in self.faults)]))


class LogWarning(UserWarning):
    """The log was read, and something in it is suspicious."""


class Findings:
    """Collects findings while a log is checked."""

    def __init__(self, row_names: RowNames | None = None):
        self.items: list[Finding] = []
        self.row_names = row_names or RowNames()

    def fault(self, column: str, found: str, advice: str, rows: np.ndarray | None = None) -> None:
        self._add("fault", column, found, advice, rows)

    def warn(self, column: str, found: str, advice: str, rows: np.ndarray | None = None) -> None:
        self._add("warning", column, found, advice, rows)

    def _add(self, severity, column: str, found: str, advice: str, rows: np.ndarray | None) -> None:
        if rows is None:
            self.items.append(Finding(severity, column, found, advice))
            return
        shown = tuple(int(row) for row in rows[:ROWS_SHOWN])
        where = self.row_names.list(rows, len(rows))
        self.items.append(Finding(severity, column, found, advice, shown, where))

    @property
    def faults(self) -> list[Finding]:
        return [item for item in self.items if item.severity == "fault"]

    @property
    def warnings(self) -> list[Finding]:
        return [item for item in self.items if item.severity == "warning"]

    def raise_faults(self) -> None:
        if self.faults:
            raise LogError(self.faults)


def count(rows: np.ndarray) -> str:
    return "1 row holds" if len(rows) == 1 else f"{len(rows):,} rows hold"
