"""Parquet files, which keep all types, the number of actions, and what the owner said of being cut off.

Files written here carry the SHA-256 of their own bytes, in which the sum itself counts as zeros, so that damage is
found: Parquet's pages may lose a bit and still be read.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from statewise.base.decode import decode
from statewise.base.memory import in_words, memory_of_machine
from statewise.data.choices import MOST_ACTIONS
from statewise.data.findings import Findings
from statewise.data.formats import ACTIONS_KEY, HORIZON_KEY, SCHEMA_KEY, Format
from statewise.data.frame import Opened
from statewise.data.horizon import Horizon, said
from statewise.data.rawlog import Columns
from statewise.data.schema import Schema

CHECKSUM_KEY = "statewise.sha256"
SUM, SIZE = 64, 20  # digits of the sum, and of the file's size: another size says that the file was rewritten
UNKNOWN = f"{'0' * SUM}:{'0' * SIZE}"
LONGEST_METADATA = 1 << 22
BLOCK = 1 << 24
WIDTHS = {
    0: (pl.Boolean, pl.Null),
    1: (pl.Int8, pl.UInt8),
    2: (pl.Int16, pl.UInt16),
    4: (pl.Int32, pl.UInt32, pl.Float32, pl.Date, pl.Categorical, pl.Enum),
    8: (pl.Int64, pl.UInt64, pl.Float64, pl.Datetime, pl.Duration, pl.Time),
}


def read(path: Path, columns: Columns, findings: Findings) -> Opened | None:
    if not _fits(path, findings):
        return None
    if not undamaged(path, findings):
        return None
    return stated(path)._replace(frame=pl.read_parquet(path, glob=False))


def stated(path: str | Path) -> Opened:
    """What a file says of its log beside the rows: the actions, the schema, and the owner's word on being cut off."""
    metadata = pl.read_parquet_metadata(path)
    return Opened(
        pl.DataFrame(),
        actions=_actions(metadata.get(ACTIONS_KEY)),
        horizon=_horizon(metadata.get(HORIZON_KEY)),
        schema=_schema(metadata.get(SCHEMA_KEY)),
    )


def undamaged(path: Path, findings: Findings) -> bool:
    """Whether its bytes are those that were written, as far as it says; a fault where not."""
    return _undamaged(path, pl.read_parquet_metadata(path).get(CHECKSUM_KEY), findings)


def write(frame: pl.DataFrame, path: Path, metadata: Mapping[str, str]) -> None:
    frame.write_parquet(path, metadata=dict(metadata) | {CHECKSUM_KEY: UNKNOWN})
    digest, place = _sum(path, UNKNOWN)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(f"{digest}:{path.stat().st_size:0{SIZE}}".encode())


def _fits(path: Path, findings: Findings) -> bool:
    """Whether the table fits into memory; a file of a few bytes may say that it has a billion rows."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        footer = int.from_bytes(file.read(4), "little")
    if footer > size:
        raise ValueError("it is cut short, or it is not a Parquet file")
    kinds = pl.read_parquet_schema(path)
    rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    needed, there = rows * sum(_width(kind) for kind in kinds.values()), memory_of_machine()
    if needed > there:
        problem = f"its {rows:,} rows of {len(kinds):,} columns need {in_words(needed)} of memory"
        findings.fault(str(path), problem, f"This machine has {in_words(there)}; give a part of the log")
    return needed <= there


def _width(kind: Any) -> int:
    """Bytes of a cell in memory."""
    for width, kinds in WIDTHS.items():
        if kind in kinds:
            return width
    return 16


def _undamaged(path: Path, known: str | None, findings: Findings) -> bool:
    """Whether the bytes are those that were written; a file without a sum is believed."""
    if known is None or len(known) != len(UNKNOWN) or known == UNKNOWN:
        return True
    size = path.stat().st_size
    if known[SUM + 1 :] != f"{size:0{SIZE}}":
        problem = "its checksum is that of another file, so damage to this one cannot be detected"
        findings.warn(str(path), problem, "Another program rewrote it; that is fine if you expected it")
        return True
    if _sum(path, known)[0] == known[:SUM]:
        return True
    findings.fault(str(path), "its contents were damaged or changed after it was written", "Copy or collect it again")
    return False


def _sum(path: Path, known: str) -> tuple[str, int]:
    """The sum of a file's bytes, with zeros in the place of the sum that it says; and that place."""
    digest = hashlib.sha256()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as contents:
        place = contents.rfind(known.encode())
        for first, last in ((0, place), (place + len(known), len(contents))):
            for start in range(first, last, BLOCK):
                digest.update(contents[start : min(start + BLOCK, last)])
            if first == 0:
                digest.update(UNKNOWN.encode())
    return digest.hexdigest(), place


def _actions(text: str | None) -> int | tuple[str, ...] | None:
    known = _parsed(text, "number or names of actions")
    if known is None:
        return None
    if isinstance(known, list) and len(known) > MOST_ACTIONS:
        raise ValueError(f"its metadata '{ACTIONS_KEY}' name {len(known):,} actions, expected {MOST_ACTIONS:,} at most")
    if isinstance(known, list) and all(isinstance(name, str) for name in known) and len(set(known)) == len(known) > 0:
        return tuple(known)
    if type(known) is int and 1 <= known <= MOST_ACTIONS:
        return known
    expected = f"different names of actions, or their number from 1 to {MOST_ACTIONS:,}"
    raise ValueError(f"its metadata '{ACTIONS_KEY}': expected {expected}, got {str(known)[:40]}")


def _horizon(text: str | None) -> Horizon | None:
    known = [None, None] if text is None else _parsed(text, "horizon")
    if not (
        isinstance(known, list)
        and len(known) == 2
        and isinstance(known[0], str | None)
        and (known[1] is None or type(known[1]) is int)
    ):
        raise ValueError(f"its metadata '{HORIZON_KEY}': expected a word and a number, got {str(known)[:40]}")
    return said(*known)


def _schema(text: str | None) -> Schema | None:
    return None if text is None else decode(Schema, _parsed(text, "schema"), f"its metadata '{SCHEMA_KEY}'")


def _parsed(text: str | None, what: str) -> Any:
    if text is None:
        return None
    if len(text) > LONGEST_METADATA:
        raise ValueError(f"its metadata hold {in_words(len(text))} for the {what}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its metadata do not hold the {what} as JSON") from error


PARQUET = Format(read, write)
