"""Text separated by commas, semicolons or tabs, as spreadsheets export it."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from statewise.data.findings import Findings, RowNames
from statewise.data.formats import Format
from statewise.data.frame import Opened, named_once
from statewise.data.likely import identifiers
from statewise.data.rawlog import Columns

EMPTY = ["", "NA", "N/A", "null", "NULL"]
NOT_UTF8 = "the text is not encoded in UTF-8 (spreadsheets call other encodings Unicode text, UTF-16 or ANSI)"


def read(path: Path, columns: Columns, findings: Findings) -> Opened | None:
    """The table; an empty file and another encoding are faults."""
    try:
        return _read(path, columns, findings)
    except pl.exceptions.NoDataError:
        findings.fault(str(path), "the file is empty", "Give one row for each decision")
    except (UnicodeError, pl.exceptions.PolarsError) as error:
        if not isinstance(error, UnicodeError) and "utf-8" not in str(error).lower():
            raise
        findings.fault(str(path), NOT_UTF8, "Save it again as CSV UTF-8, or as Parquet")
    return None


def write(frame: pl.DataFrame, path: Path, metadata: Mapping[str, str]) -> None:
    frame.write_csv(path)


def _read(path: Path, columns: Columns, findings: Findings) -> Opened | None:
    """Reads text separated by commas, tabs or, with decimal commas, semicolons, as European spreadsheets export it."""
    with path.open("rb") as file:
        first = file.readline()
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in first:
        raise UnicodeError
    header = first.decode("utf-8-sig")
    separator = max(",;\t", key=header.count)
    written = next(csv.reader([header], delimiter=separator), [])
    names = [name.strip() for name in written]
    if not named_once(names, findings):
        return None
    columns = columns.as_spelt_in(names)
    named = tuple(dict.fromkeys((columns.episode, columns.unit, *identifiers(names))))
    frame = pl.read_csv(
        path,
        separator=separator,
        decimal_comma=separator == ";",
        null_values=EMPTY,
        infer_schema_length=None,
        # names of episodes and units may look like numbers: 007 and 7 are two patients
        schema_overrides={raw: pl.String for raw, name in zip(written, names, strict=True) if name in named},
    )
    frame.columns = names
    text = [
        pl.col(name).str.count_matches("\n").fill_null(0) for name, kind in frame.schema.items() if kind == pl.String
    ]
    within = frame.select(pl.sum_horizontal(text)).to_series().to_numpy() if text else np.zeros(frame.height, int)
    place = np.arange(frame.height) + np.cumsum(within) - within  # quoted text may span several lines
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    kept = np.flatnonzero(~blank)
    frame = frame if len(kept) == len(blank) else frame[kept]
    frame = frame.with_columns(_as_written(frame[name]) for name in named if name in names)
    moved = len(kept) > 0 and place[kept[-1]] != len(kept) - 1
    lines = RowNames("line", 2, place[kept] if moved else None)  # the header is line 1
    return Opened(frame, lines)


def _as_written(names: pl.Series) -> pl.Series:
    """Whole numbers if every name is written as one; text otherwise."""
    numbers = names.cast(pl.Int64, strict=False)
    same = (numbers.cast(pl.String) == names).fill_null(False) | names.is_null()
    return numbers if same.all() else names


CSV = Format(read, write)
TEXT = Format(read)
