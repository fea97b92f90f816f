"""A table of observations to act on, in any format of logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from statewise.base.files import write_text
from statewise.data.delimited import harmless
from statewise.data.findings import Findings, RowNames
from statewise.data.formats import open_file, writable_endings, write_frame
from statewise.data.rawlog import Columns

JSON = ".json"


@dataclass(frozen=True, eq=False)
class ObservationTable:
    """The table in a file; its numbers are read by column name."""

    path: Path
    frame: pl.DataFrame
    rows: RowNames

    @property
    def names(self) -> list[str]:
        return self.frame.columns

    def numbers(self, columns: Sequence[str]) -> np.ndarray:
        """[rows, columns] of float64. An empty cell is refused, since a policy cannot act on it."""
        return np.column_stack([self._number(name) for name in columns])

    def flags(self, columns: Sequence[str]) -> np.ndarray:
        """[rows, columns] of true and false, or 1 and 0."""
        values = self.numbers(columns)
        wrong = np.argwhere((values != 0) & (values != 1))
        if len(wrong):
            row, column = wrong[0]
            place = self._place(columns[int(column)], wrong[:1, 0])
            raise ValueError(f"{place}: expected true or false, or 1 or 0, got {values[row, column]:g}")
        return values == 1

    def _number(self, name: str) -> np.ndarray:
        column = self.frame[name]
        numbers = column.cast(pl.Float64, strict=False)
        wrong = np.flatnonzero((numbers.is_null() | ~numbers.is_finite()).fill_null(True).to_numpy())
        if len(wrong):
            value = column[int(wrong[0])]
            given = "an empty cell" if value is None else f"'{value}'"
            more = f", and {len(wrong) - 1:,} more of the kind" if len(wrong) > 1 else ""
            raise ValueError(f"{self._place(name, wrong[:1])}: expected a finite number, got {given}{more}")
        return numbers.to_numpy()

    def _place(self, name: str, row: np.ndarray) -> str:
        return f"{self.path}: column '{name}', {self.rows.list(row, 1)}"


def read_observations(path: str | Path) -> ObservationTable:
    """Reads a file; what is wrong with it is reported as for a log."""
    findings = Findings()
    opened = open_file(Path(path), Columns(), findings)
    if opened is None:
        raise ValueError(str(findings.faults[0]))
    if len(opened.frame) == 0:
        raise ValueError(f"{path}: there are no rows")
    return ObservationTable(Path(path), opened.frame, opened.row_names)


def table_endings() -> list[str]:
    """The endings that `write_table` writes: those of logs, and JSON."""
    return list(dict.fromkeys([*writable_endings(), JSON]))


def write_table(columns: Mapping[str, Any], path: str | Path) -> None:
    """Writes columns in the format of the path's ending (JSON: a list of rows), whole or not at all."""
    path, frame = Path(path), pl.DataFrame(columns)
    if path.suffix.lower() == JSON and JSON not in writable_endings():
        write_text(path, frame.write_json())
    else:
        write_frame(frame, path)


def table_text(columns: Mapping[str, Any], as_json: bool) -> str:
    """The same table as text, for a terminal or a pipe."""
    frame = pl.DataFrame(columns)
    return frame.write_json() if as_json else harmless(frame).write_csv()
