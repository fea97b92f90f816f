"""A log that was saved with its schema: its columns are features by now, and are read as such.

`save` writes features, so that nothing is encoded twice, and beside them in the file's metadata how they were made. So
what is learned from the saved log takes the same raw rows as what is learned from the log itself.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from statewise.data.frame import Opened
from statewise.data.rawlog import NAMED, Columns, RawLog
from statewise.data.schema import Schema


def kept_schema(opened: Opened, asked: Schema | None) -> Schema | None:
    """The schema that the table's features were made by; the one that is asked for, where that makes the same.

    None where the table is raw, or where its features are not those: then it is read as any other.
    """
    own = opened.schema
    if own is None or not set(_places(own)) <= set(opened.frame.columns):
        return None
    return own if asked is None else asked if _same(own, asked) else None


def as_saved(columns: Columns, kept: Schema, frame: pl.DataFrame) -> Columns:
    """The names that `save` gave to the columns, in place of those that the log had before."""
    usual, before = Columns(), kept.columns
    names = {
        role: getattr(usual, role)
        for role in NAMED
        if getattr(columns, role) == getattr(before, role) and getattr(columns, role) not in frame.columns
    }
    named_before = columns.observations == before.observations
    observations = tuple(_places(kept)) if named_before or columns.observations is None else columns.observations
    return replace(columns, **names, observations=observations, words=(), orders=())


def with_schema(raw: RawLog, own: Schema, kept: Schema) -> RawLog:
    """The log with that schema, and with what it puts into gaps."""
    if raw.observation_names != kept.features:
        return raw
    observations = raw.observations
    if own.fills() != kept.fills():
        observations = kept.fill(observations, kept.fills())
    return replace(raw, observations=observations, schema=kept)


def _places(schema: Schema) -> list[str]:
    return [Columns().observation_prefix + feature for feature in schema.features]


def _same(one: Schema, other: Schema) -> bool:
    """Whether both make the same features, but for what stands in gaps."""
    codes = [replace(code, fill=None if code.fill is None else 0.0) for code in one.codes]
    return codes == [replace(code, fill=None if code.fill is None else 0.0) for code in other.codes]
