"""Logs of any size for a command: a file is loaded, a folder or an address in an object store is scanned."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from statewise.cli.progress import Watch
from statewise.cli.types import FilePath
from statewise.data.dataset import Dataset
from statewise.data.findings import Findings
from statewise.data.recorded import is_record
from statewise.data.scan import LEAST_MEMORY, read_scan
from statewise.data.source_files import ENDING
from statewise.data.table import read

ADDRESS = re.compile(r"(s3|gs|gcs|az|abfss?|https?):/+")
SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kMGT]?)B?", re.IGNORECASE)
LARGEST = 1e18
UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class Size(click.ParamType):
    """A number of bytes, as 8GB."""

    name = "size"

    def convert(self, value, param, ctx) -> int:
        if isinstance(value, int):
            return value
        parts = SIZE.fullmatch(str(value))
        size = 0 if parts is None else int(min(float(parts[1]) * UNITS[parts[2].upper()], LARGEST))
        if size < LEAST_MEMORY:
            self.fail(f"expected a size of 300MB or more, such as 8GB; got '{value}'", param, ctx)
        return size


def scan_options(command: Callable) -> Callable:
    """How to read a log that is larger than memory."""
    command = click.option(
        "--scratch",
        metavar="FOLDER",
        type=FilePath(file_okay=False),
        help="Where a LOG that is a folder or an s3:// address is kept while it is worked on, and for the next time "
        "[default: the user's cache].",
    )(command)
    return click.option(
        "--memory",
        type=Size(),
        help="How much memory reading such a LOG may take, such as 8GB [default: a quarter of the machine's].",
    )(command)


def is_scanned(log: Path) -> bool:
    """Whether the log is read in shards rather than loaded: an address, or a folder of Parquet files."""
    if ADDRESS.match(str(log)) is not None:
        return True
    if not log.is_dir() or is_record(log) or (log / "manifest.json").is_file():  # a run's folder is no log
        return False
    return any(path.suffix == ENDING for path in log.iterdir())


def read_any(
    log: Path, arguments: dict[str, Any], options: dict[str, Any], console: Console
) -> tuple[Dataset | None, Findings]:
    """The log and what was found in it, with a bar that shows shards."""
    memory, scratch = options.pop("memory", None), options.pop("scratch", None)
    if not is_scanned(log):
        return read(log, **arguments)
    source = ADDRESS.sub(r"\1://", str(log), count=1)  # a path has one slash only
    with Watch(console, "reading shards") as watch:
        return read_scan(source, **arguments, memory=memory, scratch=scratch, progress=watch.show)
