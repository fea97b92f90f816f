"""`scan`: a log larger than memory, from Parquet files to a Dataset whose rows stay on disk.

One pass finds where episodes are; the rows are then read, checked and written shard by shard, each shard some whole
episodes in the order of their first rows, as `load` would have them. Where the rows of an episode are not side by side,
they are first dealt out to their shards' own files. A killed scan goes on with the shard that was not finished, and
one that was finished is opened again as it is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from statewise.base.files import make_folder
from statewise.base.lock import locked
from statewise.base.memory import in_words, memory_of_machine
from statewise.data import learned_schema
from statewise.data.buckets import ROW, Buckets, again
from statewise.data.build import accept, build, warn_of_choices
from statewise.data.checks import warn_of_constant, warn_of_single_episode
from statewise.data.columns import Ends, Propensity, check_words
from statewise.data.dataset import Dataset, numbered
from statewise.data.findings import Finding, Findings, RowNames
from statewise.data.frame import Opened, raw_from_frame
from statewise.data.horizon import CutOff, said
from statewise.data.learned_schema import Reading
from statewise.data.order import NOT_IN_ORDER
from statewise.data.rawlog import Columns, RawLog
from statewise.data.schema import Schema
from statewise.data.shards import Shards
from statewise.data.source_files import Source, SourceFiles, find_files, is_remote

FEWEST, MOST = 50_000, 2_000_000  # rows of a shard
TIMES = 20  # what a shard takes while it is read, in sizes of its rows
LEAST_MEMORY = 1 << 28
PIECES = "pieces"  # the folder of rows that were dealt out to their shards
Progress = Callable[[str, int, int], None]


def scan(
    source: Source,
    *,
    columns: Columns | None = None,
    actions: int | Sequence[str] | None = None,
    propensity: Propensity = "logged",
    ends: Ends | None = None,
    cut_off: CutOff | None = None,
    horizon: int | None = None,
    schema: Schema | None = None,
    memory: int | None = None,
    scratch: str | os.PathLike | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Dataset:
    """A log that may be larger than memory: Parquet files in a folder, by a pattern, a list, or an s3:// address.

    It becomes a Dataset like any other, and what is computed from it is the same, but its rows stay in files under
    `scratch` (by default a folder of the user's cache), where the next scan of the same files finds them. `memory` is
    how many bytes reading may take, by default a quarter of the machine. `progress` is given the stage, and how many of
    its shards are done. The other parameters are those of `statewise.load`; words and gaps are learned from up to a
    million rows from all over the log, unless a `schema` has them.
    """
    dataset, findings = read_scan(
        source,
        columns=columns,
        actions=actions,
        propensity=propensity,
        ends=ends,
        cut_off=cut_off,
        horizon=horizon,
        schema=schema,
        memory=memory,
        scratch=scratch,
        progress=progress,
    )
    return accept(dataset, findings)


def read_scan(
    source: Source,
    *,
    columns: Columns | None = None,
    actions: int | Sequence[str] | None = None,
    propensity: Propensity = "logged",
    ends: Ends | None = None,
    cut_off: CutOff | None = None,
    horizon: int | None = None,
    schema: Schema | None = None,
    memory: int | None = None,
    scratch: str | os.PathLike | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> tuple[Dataset | None, Findings]:
    """As `scan`, but returns the findings instead of raising them."""
    check_words(propensity, ends)
    memory = memory_of_machine() // 4 if memory is None else memory
    if memory < LEAST_MEMORY:
        raise ValueError(f"memory: expected {in_words(LEAST_MEMORY)} at least, got {in_words(memory)}")
    findings = Findings()
    files = again(lambda: find_files(source, findings), is_remote(source))
    if files is None:
        return None, findings
    actions = actions if actions is None or isinstance(actions, int) else tuple(actions)
    asked = Reading(columns or Columns(), actions, propensity, ends, said(cut_off, horizon), schema)
    key = files.key(asked)
    folder = (default_scratch() if scratch is None else Path(scratch)) / key[:16]
    make_folder(folder)
    shards = Shards(folder, key)
    if shards.finished:
        shutil.rmtree(folder / PIECES, ignore_errors=True)  # which a process left that was killed just before its end
        shards.check(lambda done: progress("checking shards", done, shards.count))
        return _whole(shards)
    with locked(folder):
        shards = Shards(folder, key)  # as whoever had the lock before left it
        if not shards.finished:
            files.check(findings)
        if not shards.finished and not findings.faults:
            _read(files, asked, shards, memory, findings, progress)
        return (None, findings) if findings.faults else _whole(shards)


def default_scratch() -> Path:
    """Where shards are kept, unless another folder is given."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "statewise" / "scans"


def _whole(shards: Shards) -> tuple[Dataset, Findings]:
    """The log, and what is found in its shards and in the whole."""
    findings, dataset = Findings(), shards.dataset()
    findings.items += _merged(shards.findings())
    assert dataset.schema is not None
    columns = dataset.schema.columns
    sources = columns.observations or [columns.observation_prefix + code.name for code in dataset.schema.codes]
    codes = zip(sources, dataset.schema.codes, strict=True)
    places = [place for source, code in codes for place in (source, *code.features[1:])]
    low, high = dataset.observations.min(axis=0), dataset.observations.max(axis=0)
    for j in np.flatnonzero(low == high):
        warn_of_constant(places[j], float(low[j]), findings)
    if dataset.episodes == 1:
        warn_of_single_episode(columns.episode, findings)
    warn_of_choices(dataset, columns, findings)
    return dataset, findings


# Reading


def _read(
    files: SourceFiles, asked: Reading, shards: Shards, memory: int, findings: Findings, progress: Progress
) -> None:
    """Writes all shards that are not there yet, unless there are faults."""
    frame = files.frame()
    reading = again(lambda: learned_schema.learn(files, frame, asked, findings), files.remote)
    if reading is None:
        return
    assert reading.schema is not None
    left_out = tuple(name for name, _ in reading.schema.left_out)
    width = 8 * (len(frame.collect_schema()) - len(left_out))
    rows = shards.settled_limit(int(np.clip(memory // (TIMES * width), FEWEST, MOST)))
    progress("finding episodes", 0, 1)
    buckets = Buckets.of(files, reading.columns.episode, left_out, rows)
    learned_schema.check_ends(reading, buckets.all_single, findings)
    if findings.faults:
        return
    pieces, count = shards.folder / PIECES, len(buckets.sizes)
    dealing = partial(progress, "dealing rows out to shards")
    take = buckets.slices() if buckets.in_order else buckets.dealt(pieces, dealing)
    for shard in range(shards.count, count):
        progress("reading shards", shard, count)
        faults = _append(take(shard), reading, shards)
        if faults:  # all of this shard at once
            findings.items += faults
            return
    _finish(shards, reading, buckets.in_order, findings)
    shutil.rmtree(pieces, ignore_errors=True)
    progress("reading shards", count, count)


def _append(frame: pl.DataFrame, reading: Reading, shards: Shards) -> list[Finding]:
    """Checks and writes a shard; its faults, if it has any."""
    places = frame[ROW].to_numpy().astype(np.int64)
    opened = Opened(frame.drop(ROW), RowNames(places=places), actions=None, horizon=reading.horizon)
    raw, found = raw_from_frame(
        opened, reading.columns, reading.propensity, reading.ends, reading.actions, reading.schema
    )
    part = None
    if raw is not None:
        part, more = build(replace(raw, part=True))
        found.items += more.items
    items = [replace(one, rows=tuple(int(places[row]) for row in one.rows)) for one in found.items]
    faults = [one for one in items if one.severity == "fault"]
    if not faults:
        assert part is not None
        assert raw is not None
        shards.append(part, [one for one in items if one.severity == "warning"], _least_step(raw))
    return faults


def _least_step(raw: RawLog) -> int | None:
    return None if raw.step is None else int(raw.step.min())


def _finish(shards: Shards, reading: Reading, ordered: bool, findings: Findings) -> None:
    known, columns = shards.known["shards"], reading.columns
    steps = sorted({shard["least"] for shard in known} - {None})
    if len(steps) > 1:
        advice = f"Number every episode {steps[0]}, {steps[0] + 1}, … without gaps"
        findings.fault(columns.step, f"some episodes start at step {steps[-1]}, others at {steps[0]}", advice)
        return
    if not ordered and not any(one["problem"] == NOT_IN_ORDER[0] for shard in known for one in shard["findings"]):
        findings.warn(columns.step if steps else columns.episode, *NOT_IN_ORDER)
    assert reading.schema is not None
    names = reading.schema.actions or numbered(max(shard["actions"] for shard in known))
    shards.finish(names, reading.schema, reading.horizon, findings.warnings)


def _merged(found: list[Finding]) -> list[Finding]:
    """Each finding once, with the number of the other shards that it is made in."""
    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for one in found:
        alike.setdefault((one.severity, one.column, one.advice), []).append(one)
    return [_with_others(ones) for ones in alike.values()]


def _with_others(ones: list[Finding]) -> Finding:
    first, others = ones[0], len(ones) - 1
    if not others or not first.where:
        return first
    return replace(first, where=f"{first.where}; the same in {others} other shard{'s' if others > 1 else ''}")
