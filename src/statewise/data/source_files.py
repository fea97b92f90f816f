"""The files that a large log lies in: a folder, a pattern, a list, or addresses in an object store."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from statewise.data.findings import Findings
from statewise.data.parquet import undamaged

ENDING = ".parquet"
WEB = ("http://", "https://")
Source = str | os.PathLike | Sequence[str | os.PathLike]


class SourceFiles(NamedTuple):
    """Parquet files whose rows are one log, in the order of their names."""

    paths: tuple[str, ...]
    rows: tuple[int, ...]  # of each
    versions: tuple[str, ...]  # which change with their contents

    @property
    def remote(self) -> bool:
        return any(map(is_remote, self.paths))

    def frame(self) -> pl.LazyFrame:
        """All rows, one file after the other; columns of whole and of broken numbers may be mixed."""
        return pl.concat([pl.scan_parquet(path, glob=False) for path in self.paths], how="vertical_relaxed")

    def slice(self, first: int, count: int) -> pl.LazyFrame:
        """Some rows, from the files that hold them: a slice of all files would read all those before it."""
        parts, begins = [], 0
        for path, rows in zip(self.paths, self.rows, strict=True):
            start, stop = max(first, begins), min(first + count, begins + rows)
            if start < stop:
                parts.append(pl.scan_parquet(path, glob=False).slice(start - begins, stop - start))
            begins += rows
        kinds = self.frame().collect_schema()
        return pl.concat(parts, how="vertical_relaxed").cast(dict(kinds))

    def key(self, *options: Any) -> str:
        """A name for this log, read in this way."""
        return hashlib.sha256(repr((self.paths, self.versions, options)).encode()).hexdigest()

    def check(self, findings: Findings) -> None:
        """Finds damage to files that carry a checksum."""
        for path in self.paths:
            if not is_remote(path):
                undamaged(Path(path), findings)


def is_remote(path: Any) -> bool:
    """Whether it is an address such as s3://bucket/folder."""
    return "://" in str(path)


def find_files(source: Source, findings: Findings) -> SourceFiles | None:
    """The files, or None after a fault."""
    if isinstance(source, str | os.PathLike):
        if str(source).startswith(WEB) and not str(source).endswith(ENDING):
            problem = "a web server does not list its files"
            findings.fault(str(source), problem, f"Give the address of one {ENDING} file")
            return None
        paths = _remote(str(source)) if is_remote(source) else _local(str(source))
    else:
        paths = [str(path) for path in source]
    missing = [path for path in paths if not is_remote(path) and not os.path.isfile(path)]
    for path in missing:
        findings.fault(path, "there is no such file", "Check the path")
    if not paths:
        problem = f"there are no {ENDING} files"
        findings.fault(
            str(source), problem, "Large logs are read from the Parquet files of a folder; subfolders are not searched"
        )
    if missing or not paths:
        return None
    rows = [pl.scan_parquet(path, glob=False).select(pl.len()).collect().item() for path in paths]
    return SourceFiles(tuple(paths), tuple(rows), tuple(map(_version, paths, rows)))


def _local(source: str) -> list[str]:
    """A file or a folder of that very name, or else the files that the pattern fits."""
    if os.path.isfile(source):
        return [source]
    if os.path.isdir(source):
        names = sorted(os.listdir(source))
        return [os.path.join(source, name) for name in names if name.endswith(ENDING) and not name.startswith(".")]
    return sorted(path for path in glob.glob(source) if os.path.isfile(path))


def _remote(source: str) -> list[str]:
    if source.endswith(ENDING) and not any(sign in source for sign in "*?["):
        return [source]
    pattern = source if source.endswith(ENDING) else source.rstrip("/") + f"/*{ENDING}"
    paths = pl.scan_parquet(pattern, include_file_paths="path").select(pl.col("path").unique()).collect()
    return sorted(paths["path"].to_list())


def _version(path: str, rows: int) -> str:
    if is_remote(path):  # its length stands for it: stores do not tell more through polars
        return str(rows)
    about = os.stat(path)
    return f"{about.st_size}:{about.st_mtime_ns}"
