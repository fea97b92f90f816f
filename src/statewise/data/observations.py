"""A table of observations to act on, read as logs are: CSV as any spreadsheet exports it, or Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from statewise.data.findings import Findings
from statewise.data.rawlog import Columns
from statewise.data.table import open_file, write_frame


@dataclass(frozen=True, eq=False)
class ObservationTable:
    """The columns of a file by name; numbers are asked for by name."""

    path: Path
    frame: pl.DataFrame

    @property
    def names(self) -> list[str]:
        return self.frame.columns

    def numbers(self, columns: Sequence[str]) -> np.ndarray:
        """[rows, columns] of float64; NaN where a cell is empty."""
        picked = [self._number(name) for name in columns]
        return np.column_stack(picked) if picked else np.empty((len(self.frame), 0))

    def flags(self, columns: Sequence[str]) -> np.ndarray:
        """[rows, columns] of true and false, also written as 1 and 0."""
        values = self.numbers(columns)
        if not np.isin(values, (0, 1)).all():
            raise ValueError(f"{self.path}: {columns[0]} … {columns[-1]} hold other things than true or false, 1 or 0")
        return values == 1

    def _number(self, name: str) -> np.ndarray:
        column = self.frame[name]
        try:
            return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        except pl.exceptions.PolarsError:
            values = column.cast(pl.String)
            wrong = values.filter(values.cast(pl.Float64, strict=False).is_null() & values.is_not_null())
            raise ValueError(f"{self.path}: column '{name}' holds '{wrong[0]}', which is not a number") from None


def read_observations(path: str | Path) -> ObservationTable:
    """Opens the file; what is wrong with it is told as it is of a log."""
    findings = Findings()
    opened = open_file(Path(path), Columns(), findings)
    findings.raise_faults()
    assert opened is not None
    if len(opened.frame) == 0:
        raise ValueError(f"{path}: it holds no rows")
    return ObservationTable(Path(path), opened.frame)


def write_table(columns: Mapping[str, Any], path: str | Path) -> None:
    """Writes columns as .csv, .json (a list of rows) or .parquet, whole or not at all."""
    write_frame(pl.DataFrame(columns), Path(path))


def table_text(columns: Mapping[str, Any], as_json: bool) -> str:
    """The same as text, for a terminal or a pipe."""
    frame = pl.DataFrame(columns)
    return frame.write_json() if as_json else frame.write_csv()
