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
from statewise.data.encoding import Code
from statewise.data.findings import Findings, RowNames
from statewise.data.formats import open_file, writable_endings, write_frame
from statewise.data.learn_codes import encode
from statewise.data.rawlog import Columns

JSON = ".json"


@dataclass(frozen=True, eq=False)
class ObservationTable:
    """The table in a file; its columns are read by name."""

    path: Path
    frame: pl.DataFrame
    rows: RowNames

    @property
    def names(self) -> list[str]:
        return self.frame.columns

    def numbers(self, columns: Sequence[str]) -> np.ndarray:
        """[rows, columns] of float64. An empty cell is refused, since a policy cannot act on it."""
        return self.encoded([Code(name) for name in columns], columns)[0]

    def encoded(self, codes: Sequence[Code], columns: Sequence[str]) -> tuple[np.ndarray, list[str]]:
        """[rows, features] of float64, and what a reader should know; what has no meaning to the policy is refused."""
        features, notes = [], []
        for code, name in zip(codes, columns, strict=True):
            column, made = self.frame[name], encode(code, self.frame[name])
            self._refuse(np.flatnonzero(made.refused | np.isinf(made.features[:, 0])), code, column)
            unknown = np.flatnonzero(made.unknown)
            if len(unknown) and not code.other:
                words = ", ".join(f"'{word}'" for word in dict.fromkeys(column[unknown.tolist()].to_list()[:3]))
                rows = "1 row" if len(unknown) == 1 else f"{len(unknown):,} rows"
                notes.append(f"{name}: the policy's log does not hold {words}, which {code.unknown} ({rows})")
            features.append(made.features)
        return np.column_stack(features), notes

    def flags(self, columns: Sequence[str]) -> np.ndarray:
        """[rows, columns] of true and false, or 1 and 0."""
        values = self.numbers(columns)
        wrong = np.argwhere((values != 0) & (values != 1))
        if len(wrong):
            row, column = wrong[0]
            place = self._place(columns[int(column)], wrong[:1, 0])
            raise ValueError(f"{place}: expected true or false, or 1 or 0, got {values[row, column]:g}")
        return values == 1

    def _refuse(self, wrong: np.ndarray, code: Code, column: pl.Series) -> None:
        if not len(wrong):
            return
        value = column[int(wrong[0])]
        given = "an empty cell, and the policy's own log has none here" if value is None else f"'{value}'"
        if value is None and code.plain:
            given = "an empty cell"
        more = f", and {len(wrong) - 1:,} more like it" if len(wrong) > 1 else ""
        raise ValueError(f"{self._place(column.name, wrong[:1])}: expected {code.expected}, got {given}{more}")

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
