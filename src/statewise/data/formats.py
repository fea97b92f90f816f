"""File formats of logs by file ending: the one registry behind `load`, `save`, the commands and their messages.

A format of your own is one entry:

    FORMATS.add(".jsonl", Format(
        read=lambda path, columns, findings: Opened(pl.read_ndjson(path)),
        write=lambda frame, path, metadata: frame.write_ndjson(path),
    ))
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from statewise.base.files import written_whole
from statewise.base.registry import Registry
from statewise.data.findings import Findings
from statewise.data.frame import Opened
from statewise.data.rawlog import Columns

# in a file's metadata
ACTIONS_KEY = "statewise.actions"  # the number of actions, taken or not, or their names
SCHEMA_KEY = "statewise.schema"  # how words, dates and gaps became features, where there were any
HORIZON_KEY = "statewise.horizon"  # what the log's owner said of being cut off, and how far the value counts


@dataclass(frozen=True)
class Format:
    """How files of one format are read and, if `write` is given, written.

    `read` returns None after adding a fault to `findings`; a ValueError, OSError or polars error that it raises becomes
    a fault as well. `write` may ignore the metadata.
    """

    read: Callable[[Path, Columns, Findings], Opened | None]
    write: Callable[[pl.DataFrame, Path, Mapping[str, str]], None] | None = None


FORMATS: Registry[Format] = Registry(
    "log format",
    {
        ".parquet": "statewise.data.parquet:PARQUET",
        ".csv": "statewise.data.delimited:CSV",
        ".tsv": "statewise.data.delimited:TEXT",
        ".txt": "statewise.data.delimited:TEXT",
    },
)


def writable_endings() -> list[str]:
    """The endings that a log can be saved under."""
    return [ending for ending, kind in FORMATS.items() if kind.write is not None]


def any_of(endings: Iterable[str]) -> str:
    """`.parquet, .csv or .tsv`."""
    *most, last = endings
    return f"{', '.join(most)} or {last}" if most else last


def open_file(path: Path, columns: Columns, findings: Findings) -> Opened | None:
    """The table in a file; what is wrong with it is added to `findings`."""
    if not path.exists():
        near = difflib.get_close_matches(path.name, _names_beside(path), n=1)
        hint = f"Did you mean {near[0]}?" if near else "Check the path"
        findings.fault(str(path), "there is no such file", hint)
        return None
    if path.is_dir():
        from statewise.data import recorded  # it builds on what is here

        if recorded.is_record(path):
            record = recorded.read(path, findings)
            return None if record is None else record[0]
        findings.fault(str(path), "it is a folder", f"Give a {any_of(FORMATS)} file, or a folder of Parquet files")
        return None
    ending = path.suffix.lower()
    if ending not in FORMATS:
        problem = f"'{path.suffix}' is not a supported format" if path.suffix else "its name has no ending"
        findings.fault(str(path), problem, f"Export it as {any_of(FORMATS)}")
        return None
    try:
        return FORMATS[ending].read(path, columns, findings)
    except pl.exceptions.PanicException:  # of polars, on some damaged files; it is no Exception, and says nothing
        findings.fault(str(path), "it cannot be read: its contents were damaged", "Copy or export it again")
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        findings.fault(str(path), f"it cannot be read: {reason}", "Export it again")
    return None


def write_frame(frame: pl.DataFrame, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Writes a frame in the format of the path's ending, whole or not at all."""
    write = FORMATS[path.suffix.lower()].write
    if write is None:
        raise ValueError(f"{path.name}: this format can only be read; write {any_of(writable_endings())}")
    with written_whole(path) as part:
        try:
            write(frame, part, metadata or {})
        except pl.exceptions.PolarsError as error:  # raised, for one, when the disk is full
            raise OSError(None, str(error)) from error


def _names_beside(path: Path) -> list[str]:
    return [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
