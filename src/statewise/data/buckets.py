"""Where the episodes of a large log are, and its rows dealt out to shards of whole episodes.

The order is that of the episodes' first rows, as in memory. Where each episode's rows are side by side, a shard is a
slice of the log. Otherwise its rows are first written to files of their own, a slice of the log at a time.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

from statewise.base.files import make_folder, sync_folder
from statewise.data.shards import ShardError
from statewise.data.source_files import SourceFiles

ROW, FIRST, SHARD = "(row)", "(first)", "(shard)"  # columns that no log has
TRIES, PAUSE = 4, 0.5  # of reading from an object store, and seconds between them
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Buckets:
    """The episodes of a log by shard."""

    files: SourceFiles
    episode: str  # the column
    left_out: tuple[str, ...]  # columns that are not read
    table: pl.DataFrame  # of each episode, in order: its first and last row, how many it has, and its shard
    limit: int  # rows of a shard, about

    @classmethod
    def of(cls, files: SourceFiles, episode: str, left_out: tuple[str, ...], limit: int) -> Buckets:
        """One pass over the column of episodes; a shard begins with the first that does not fit any more."""
        row = pl.col(ROW)
        alone = files.frame().select(episode).with_row_index(ROW)
        found = alone.group_by(episode).agg(row.min().alias(FIRST), row.max().alias("last"), pl.len().alias("rows"))
        table = again(lambda: found.collect(engine="streaming"), files.remote).sort(FIRST)
        lengths = table["rows"].to_numpy().astype(np.int64)
        number = np.unique((np.cumsum(lengths) - lengths) // limit, return_inverse=True)[1]
        return cls(files, episode, left_out, table.with_columns(pl.Series(SHARD, number)), limit)

    @property
    def in_order(self) -> bool:
        """Whether the rows of every episode are side by side."""
        return bool((self.table["last"] - self.table[FIRST] + 1 == self.table["rows"]).all())

    @property
    def all_single(self) -> bool:
        """Whether every decision is an episode."""
        return bool((self.table["rows"] == 1).all())

    @property
    def sizes(self) -> list[int]:
        """How many rows each shard has."""
        return self.table.group_by(SHARD).agg(pl.col("rows").sum()).sort(SHARD)["rows"].to_list()

    def slices(self) -> Callable[[int], pl.DataFrame]:
        """Gives a shard's rows, with their places in the log, where they are side by side."""
        sizes = self.sizes
        begins = np.cumsum([0, *sizes]).tolist()
        return lambda shard: self._slice(begins[shard], sizes[shard])

    def _slice(self, first: int, rows: int) -> pl.DataFrame:
        frame = self.files.slice(first, rows).drop(self.left_out, strict=False)
        part = again(frame.collect, self.files.remote)
        return part.with_columns(pl.int_range(first, first + len(part), dtype=pl.Int64, eager=True).alias(ROW))

    def dealt(self, folder: Path, progress: Callable[[int, int], None]) -> Callable[[int], pl.DataFrame]:
        """The same wherever they are: dealt out to files, a slice at a time, whose folder gets its name last."""
        make_folder(folder)
        sizes = self.sizes
        slices = range(0, sum(sizes), self.limit)
        for i, first in enumerate(slices):
            if not (folder / str(i)).is_dir():
                progress(i, len(slices))
                self._deal(first, folder / f"{i}.part", folder / str(i))

        def take(shard: int) -> pl.DataFrame:
            places = [folder / str(i) / f"{shard}.parquet" for i in range(len(slices))]
            rows = pl.concat([pl.read_parquet(place) for place in places if place.is_file()])
            if len(rows) != sizes[shard]:
                raise ShardError(f"{folder}: rows are missing; delete the folder")
            return rows.sort(FIRST, ROW).drop(FIRST)

        return take

    def _deal(self, first: int, unfinished: Path, folder: Path) -> None:
        shutil.rmtree(unfinished, ignore_errors=True)
        make_folder(unfinished)
        shard_of = self.table.select(self.episode, FIRST, SHARD)
        rows = self._slice(first, self.limit).join(shard_of, on=self.episode, how="left", nulls_equal=True)
        for (shard,), piece in rows.partition_by(SHARD, as_dict=True).items():
            piece.drop(SHARD).write_parquet(unfinished / f"{shard}.parquet")
        sync_folder(unfinished)
        unfinished.rename(folder)


def again(read: Callable[[], T], remote: bool) -> T:
    """What is read; from an object store again where the connection breaks."""
    for _ in range(TRIES - 1 if remote else 0):
        try:
            return read()
        except (OSError, pl.exceptions.PolarsError):
            time.sleep(PAUSE)
    return read()
