"""Parquet files, which keep all types, the number of actions, and what the owner said of being cut off."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from statewise.data.findings import Findings
from statewise.data.formats import ACTIONS_KEY, HORIZON_KEY, Format
from statewise.data.frame import Opened
from statewise.data.horizon import said
from statewise.data.rawlog import Columns


def read(path: Path, columns: Columns, findings: Findings) -> Opened:
    metadata = pl.read_parquet_metadata(path)
    known = json.loads(metadata.get(ACTIONS_KEY, "null"))
    return Opened(
        pl.read_parquet(path),
        actions=tuple(known) if isinstance(known, list) else known,
        horizon=said(*json.loads(metadata.get(HORIZON_KEY, "[null, null]"))),
    )


def write(frame: pl.DataFrame, path: Path, metadata: Mapping[str, str]) -> None:
    frame.write_parquet(path, metadata=dict(metadata))


PARQUET = Format(read, write)
