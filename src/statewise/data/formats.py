"""Kinds of log files, by ending: `load`, `save`, the commands and their messages all ask this one registry.

A kind of your own is one entry:

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

ACTIONS_KEY = "statewise.actions"  # in a file's metadata: how many actions there are, taken or not, or their names


@dataclass(frozen=True)
class Format:
    """How files of one kind are read, and written where they can be.

    `read` returns None where it put a fault into `findings`; what it raises of ValueError, OSError or a polars error
    becomes one. `write` may leave the metadata out.
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
    """The table that a file holds; what is wrong with it goes to `findings`."""
    if not path.exists():
        near = difflib.get_close_matches(path.name, _names_beside(path), n=1)
        hint = f"Did you mean {near[0]}?" if near else "Check the path"
        findings.fault(str(path), "there is no such file", hint)
        return None
    if path.is_dir():
        findings.fault(str(path), "it is a folder", f"Give a {any_of(FORMATS)} file")
        return None
    ending = path.suffix.lower()
    if ending not in FORMATS:
        kind = f"'{path.suffix}' is not a kind of log that can be read"
        findings.fault(str(path), kind, f"Export it as {any_of(FORMATS)}")
        return None
    try:
        return FORMATS[ending].read(path, columns, findings)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        findings.fault(str(path), f"it cannot be read: {reason}", "Export it again")
    return None


def write_frame(frame: pl.DataFrame, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Writes a frame as its path's ending says, whole or not at all."""
    write = FORMATS[path.suffix.lower()].write
    if write is None:
        raise ValueError(f"{path.name}: files of this kind are only read; write {any_of(writable_endings())}")
    with written_whole(path) as part:
        try:
            write(frame, part, metadata or {})
        except pl.exceptions.PolarsError as error:  # polars says so of a full disk
            raise OSError(None, str(error)) from error


def _names_beside(path: Path) -> list[str]:
    return [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
