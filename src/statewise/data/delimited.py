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
from statewise.data.records import Records, scan

EMPTY = ["", "NA", "N/A", "null", "NULL"]
NOT_UTF8 = "the text is not encoded in UTF-8 (spreadsheets call other encodings Unicode text, UTF-16 or ANSI)"
MOST_COLUMNS = 100_000
# A spreadsheet computes cells that begin so. Words that do are written behind an apostrophe, and lose it when read.
FORMULA, QUOTED_FORMULA = r"^('*[=+\-@\t\r])", r"^'('*[=+\-@\t\r])"
WITH_COMMA, WITH_POINT = r"^\s*[+-]?(?:\d{1,3}(?:\.\d{3})+|\d*),\d+\s*$", r"^\s*[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\s*$"
# by itself it may be a word, as in "the 5. day"
POINT_AT_END, NUMBER = r"^\s*[+-]?\d+\.(?:[eE][+-]?\d+)?\s*$", r"^\s*[+-]?(?:\d+,?\d*|,\d+)(?:[eE][+-]?\d+)?\s*$"
LINES = RowNames("line", 1)


def read(path: Path, columns: Columns, findings: Findings) -> Opened | None:
    """The table. Rows with another number of fields than the header, and other encodings, are faults."""
    try:
        with path.open("rb") as file:
            if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise UnicodeError
        records = scan(path)
        if records is None:
            findings.fault(str(path), "the file is empty", "Give one row for each decision")
            return None
        if records.nul:
            raise UnicodeError
        return _read(path, records, columns, findings)
    except (UnicodeError, pl.exceptions.PolarsError) as error:
        if not isinstance(error, UnicodeError) and "utf-8" not in str(error).lower():
            raise
        findings.fault(str(path), NOT_UTF8, "Save it again as CSV UTF-8, or as Parquet")
    return None


def write(frame: pl.DataFrame, path: Path, metadata: Mapping[str, str]) -> None:
    harmless(frame).write_csv(path)


def harmless(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with an apostrophe before words that a spreadsheet would take for a formula."""
    return frame.with_columns(pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String).str.replace(FORMULA, "'$1"))


def _read(path: Path, records: Records, columns: Columns, findings: Findings) -> Opened | None:
    header = records.header.decode("utf-8-sig").rstrip("\r")
    try:
        written = next(csv.reader([header], delimiter=records.separator), [])
    except csv.Error as error:
        raise ValueError(f"its header is not that of a table ({error})") from error
    names = [name.strip() for name in written]
    if len(names) > MOST_COLUMNS:
        findings.fault(str(path), f"there are {len(names):,} columns", f"Keep {MOST_COLUMNS:,} at most")
        return None
    if not (_well_formed(path, records, findings) and named_once(names, findings)):
        return None
    columns = columns.as_spelt_in(names)
    named = tuple(dict.fromkeys((columns.episode, columns.unit, columns.logger, *identifiers(names))))
    frame = pl.read_csv(
        path,
        glob=False,
        separator=records.separator,
        eol_char=records.end_of_line,
        decimal_comma=records.separator == ";",
        null_values=EMPTY,
        infer_schema_length=None,
        # names of episodes and units may look like numbers: 007 and 7 are two patients
        schema_overrides={raw: pl.String for raw, name in zip(written, names, strict=True) if name in named},
    )
    if frame.columns != written or frame.height != len(records.line):
        problem = "its columns and rows cannot be told apart with certainty"
        findings.fault(str(path), problem, "Check its quotation marks: they go around whole cells, without blanks")
        return None
    frame.columns = names
    lines = RowNames("line", 1, records.line - 1)
    if records.separator == ";" and records.commas:
        if _points_and_commas(frame, named, lines, findings):
            return None
        frame = frame.with_columns(_with_blanks(frame[name]) for name in frame.columns if name not in named)
    if not records.last_is_whole and len(records.line):
        problem = "the last line has no line end, so it may be cut off"
        findings.warn(str(path), problem, "Check that the file was copied or exported completely")
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    kept = np.flatnonzero(~blank)
    frame = frame if len(kept) == len(blank) else frame[kept]
    frame = frame.with_columns(pl.col(pl.String).str.replace(QUOTED_FORMULA, "$1"))
    frame = frame.with_columns(_as_written(frame[name]) for name in named if name in names)
    place = records.line[kept] - 2
    moved = len(kept) > 0 and place[-1] != len(kept) - 1
    return Opened(frame, RowNames("line", 2, place if moved else None))  # the header is line 1


def _well_formed(path: Path, records: Records, findings: Findings) -> bool:
    """Whether every record has the fields of the header, and every mark its place; what has not is a fault."""
    reported, width = Findings(LINES), records.width
    other = np.flatnonzero((records.fields != width) & (records.fields > 0))
    if records.open_quote is not None:
        advice = "Close it, and double any quotation marks within a text"
        reported.fault(str(path), "a quotation mark is not closed", advice, np.array([records.open_quote - 1]))
    elif records.stray_quote is not None:
        problem = "a cell goes on after its closing quotation mark"
        advice = "Put quotation marks around whole cells, and double those within a text"
        reported.fault(str(path), problem, advice, np.array([records.stray_quote - 1]))
    elif records.stray_return is not None:
        advice = "Export it again, with one kind of line end"
        place = np.array([records.stray_return - 1])
        reported.fault(str(path), "there is a carriage return in the middle of a line", advice, place)
    elif len(other) == 1 and other[0] == len(records.fields) - 1 and not records.last_is_whole:
        problem = f"the file ends in the middle of a line: expected {width} fields, got {records.fields[other[0]]}"
        advice = "Copy or export it again, completely"
        reported.fault(str(path), problem, advice, records.line[other] - 1)
    elif len(other):
        one = len(other) == 1
        problem = f"expected {width} fields as in the header, got {records.fields[other[0]]}"
        problem += "" if one else " in the first of these lines"
        advice = "Give every row a field for every column; put text that contains the separator between quotation marks"
        reported.fault(str(path), problem, advice, records.line[other] - 1)
    findings.items += reported.items
    return not reported.items


def _points_and_commas(frame: pl.DataFrame, named: tuple[str, ...], lines: RowNames, findings: Findings) -> bool:
    """Whether some numbers have decimal commas and others points, which may then stand for thousands: a fault."""
    text = [name for name, kind in frame.schema.items() if kind == pl.String and name not in named]
    comma = any(kind == pl.Float64 for kind in frame.schema.values()) or any(
        frame[name].str.contains(WITH_COMMA).any() for name in text
    )
    reported = Findings(lines)
    for name in text if comma else ():
        column = frame[name].str
        pattern = f"{WITH_POINT}|{POINT_AT_END}" if column.contains(NUMBER).any() else WITH_POINT
        rows = np.flatnonzero(column.contains(pattern).fill_null(False).to_numpy())
        if len(rows):
            value = frame[name][int(rows[0])].strip()
            problem = f"'{value}' has a point where other numbers have decimal commas"
            advice = f"Write {value.replace('.', ',').rstrip(',')}"
            if value[0] != "." and value[-1].isdigit():
                advice += f" or {value.replace('.', '')}, whichever is meant"
            reported.fault(name, problem, advice, rows)
    findings.items += reported.items
    return bool(reported.items)


def _with_blanks(column: pl.Series) -> pl.Series:
    """Numbers, if it is text only because of tabs around some of its decimal commas."""
    if column.dtype != pl.String or not column.str.contains(WITH_COMMA).any():
        return column
    numbers = column.str.strip_chars().str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == column.null_count() else column


def _as_written(names: pl.Series) -> pl.Series:
    """Whole numbers if every name is written as one; text otherwise."""
    numbers = names.cast(pl.Int64, strict=False)
    same = (numbers.cast(pl.String) == names).fill_null(False) | names.is_null()
    return numbers if same.all() else names


CSV = Format(read, write)
TEXT = Format(read)
