"""Where a log came from, for those who read what was made of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from statewise.data.encoding import SECONDS

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Origin:
    """A file or a frame, how many rows it has, and from when to when they are."""

    name: str  # of the file, without its folder; "" of a frame
    rows: int
    first: str | None = None  # ISO 8601, a day or a second; None: no column holds dates
    last: str | None = None


def origin_of(source: Any, frame: pl.DataFrame, time: str | None) -> Origin:
    """Of a file's path or a frame; `time` is the column that holds dates, where there is one."""
    name = Path(source).name if isinstance(source, str | os.PathLike) else ""
    first, last = (None, None) if time is None else _span(frame[time])
    return Origin(name, frame.height, first, last)


def _span(series: pl.Series) -> tuple[str | None, str | None]:
    """The first and the last moment of a column; two Nones where it holds no dates."""
    from statewise.data.learn_codes import Unreadable, encode, gaps_as_null, learn_code

    cells = gaps_as_null(series).drop_nulls().unique()
    try:
        code = learn_code(cells, series.name)
    except Unreadable:
        return None, None
    if code.kind != "date" or not len(cells):
        return None, None
    assert code.origin is not None
    days = encode(code, cells).features[:, 0]
    whole = bool((days == np.floor(days)).all())
    start = datetime.fromisoformat(code.origin).replace(tzinfo=UTC).timestamp()
    moments = (datetime.fromtimestamp(start + SECONDS * end, UTC) for end in (days.min(), days.max()))
    first, last = (moment.date().isoformat() if whole else _second(moment) for moment in moments)
    return first, last


def _second(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")
