"""How a log larger than memory is read: learned from rows from all over it, before its shards are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from statewise.data.choices import MOST_ACTIONS
from statewise.data.columns import Ends, Propensity
from statewise.data.convert import doses_of
from statewise.data.findings import Findings, RowNames
from statewise.data.frame import Opened, named_once, raw_from_frame
from statewise.data.horizon import Horizon
from statewise.data.parquet import stated
from statewise.data.rawlog import Columns
from statewise.data.schema import Schema
from statewise.data.source_files import SourceFiles, is_remote

SAMPLE, PLACES = 1_000_000, 20  # rows that are looked at, and from how many places


@dataclass(frozen=True)
class Reading:
    """The parameters of `scan` that say how rows are read."""

    columns: Columns
    actions: int | tuple[str, ...] | None
    propensity: Propensity
    ends: Ends | None
    horizon: Horizon | None
    schema: Schema | None


def learn(files: SourceFiles, frame: pl.LazyFrame, asked: Reading, findings: Findings) -> Reading | None:
    """The same with all that was left open settled; None after a fault."""
    if not named_once(frame.collect_schema().names(), findings):
        return None
    columns, schema = asked.columns, asked.schema
    ends, actions, horizon = asked.ends, asked.actions, asked.horizon
    if schema is not None:
        columns, ends = schema.over(columns), ends or schema.ends
        actions = schema.actions if actions is None else actions
        told = None if horizon is None else horizon.cut_off, None if horizon is None else horizon.steps
        both = Horizon(told[0] or schema.cut_off, told[1] or schema.horizon)
        horizon = None if both == (None, None) else both
    opened = Opened(pl.DataFrame()) if is_remote(files.paths[0]) else stated(files.paths[0])
    opened = opened._replace(horizon=_either(horizon, opened.horizon))
    actions = actions or opened.actions
    sample, places = _sample(files)
    columns = columns.as_spelt_in(sample.columns)
    known = _actions(frame, columns, actions)
    opened = opened._replace(frame=sample, row_names=RowNames(places=places))
    raw, found = raw_from_frame(opened, columns, asked.propensity, ends, known, schema)
    if raw is None or found.faults:
        findings.items += found.faults
        return None
    findings.items += [one for one in found.warnings if one.column == "columns"]
    learned = raw.schema
    assert learned is not None
    given = asked.horizon or Horizon(None)
    learned = replace(learned, cut_off=given.cut_off, horizon=given.steps)
    width = raw.action_count if raw.action_names is None and raw.action_count else None
    return Reading(
        columns=replace(learned.columns, target_prefix=columns.target_prefix),
        actions=raw.action_names or width or known,
        propensity=asked.propensity,
        ends=learned.ends,
        horizon=opened.horizon,
        schema=learned,
    )


def check_ends(reading: Reading, all_single: bool, findings: Findings) -> None:
    """Where every decision of the sample was an episode, and it was guessed that they end so, all must be."""
    assert reading.schema is not None
    if "ends" in reading.schema.guessed and not all_single:
        advice = "If all episodes ended by themselves, use `ends='terminated'`; if cut off, `ends='truncated'`"
        findings.fault(reading.columns.terminated, "there is no such column", advice)


def _sample(files: SourceFiles) -> tuple[pl.DataFrame, np.ndarray]:
    """All rows of a short log, and some from many places of a long one; and where they are."""
    rows = sum(files.rows)
    if rows <= SAMPLE:
        return files.frame().collect(), np.arange(rows)
    size = SAMPLE // PLACES
    places = np.linspace(0, rows - size, PLACES).astype(np.int64)
    parts = [files.slice(int(place), size).collect() for place in places]
    return pl.concat(parts), np.concatenate([np.arange(place, place + size) for place in places])


def _actions(frame: pl.LazyFrame, columns: Columns, given: Any) -> Any:
    """The names of the actions where the whole log gives them as words or doses; else what was given."""
    if columns.action not in frame.collect_schema().names() or isinstance(given, tuple):
        return given
    different = frame.select(pl.col(columns.action).unique()).collect(engine="streaming")[columns.action]
    if different.dtype in (pl.String, pl.Categorical, pl.Enum):
        words = sorted({word.strip() for word in different.cast(pl.String).to_list() if word and word.strip()})
        numbers = pl.Series(words, dtype=pl.String).cast(pl.Float64, strict=False)
        return given if not words or numbers.is_not_null().any() else tuple(words)
    doses = doses_of(different, given)
    if doses is not None:
        return tuple(map(str, doses))
    most = different.cast(pl.Float64, strict=False).drop_nans().max()
    # a shard may lack the greatest
    return given or (int(most) + 1 if isinstance(most, float) and 0 <= most < MOST_ACTIONS else None)


def _either(given: Horizon | None, stored: Horizon | None) -> Horizon | None:
    """What is said now, and what the file says of the rest."""
    if given is None or stored is None:
        return given or stored
    return Horizon(given.cut_off or stored.cut_off, given.steps or stored.steps)
