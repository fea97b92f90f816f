"""Where the rows of a log stand while they are summed over: by fold, in blocks of whole episodes, by time within them.

All sums go block by block, so that memory is bounded, and what follows a row is in its block. Rows between the same two
knots in time stand side by side, since their features have the same hats that are not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int

from statewise.base.column import Column, by_parts, like, release, repeated
from statewise.base.tasks import elsewhere, mapped
from statewise.data.dataset import Dataset
from statewise.parts.ratio_closed_form import FOLDS

BLOCK = 8192  # rows at a time, about
TOGETHER = 16  # blocks that one task takes, and whose sum is made apart: so digits do not depend on who adds them
RELEASED = 6  # such chunks of a log in files, after which what was read need not stay in memory
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Block:
    """Some whole episodes of one fold."""

    part: slice  # of all rows
    fold: int
    episodes: slice  # of all episodes
    starts: Int[np.ndarray, " episodes"]  # their first rows, counted from the block's, in order of episode and time
    place: Int[np.ndarray, " n"] | None  # where each row, in order of episode and time, stands; None: as they come
    spans: tuple[tuple[int, slice], ...]  # rows that stand between the same two knots: the first knot, and which rows

    def __len__(self) -> int:
        return self.part.stop - self.part.start

    @property
    def first(self) -> Int[np.ndarray, " episodes"]:
        """Where the first rows of episodes stand."""
        return self.starts if self.place is None else self.place[self.starts]

    @property
    def last(self) -> Int[np.ndarray, " episodes"]:
        last = np.append(self.starts[1:], len(self)) - 1
        return last if self.place is None else self.place[last]

    @property
    def following(self) -> Int[np.ndarray, " n"]:
        """Where the row after each one stands; after an episode's last row, another's first."""
        if self.place is None:  # soon made anew: all blocks' together would be 8 bytes a row
            return np.append(np.arange(1, len(self)), 0)
        return self._following

    @cached_property
    def _following(self) -> Int[np.ndarray, " n"]:
        assert self.place is not None
        following = np.empty(len(self), np.int64)
        following[self.place] = np.roll(self.place, -1)
        return following

    @cached_property
    def episode(self) -> Int[np.ndarray, " n"]:
        """The episode of each row, counted from the block's first."""
        by_time = np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(self)))
        if self.place is None:
            return by_time
        episode = np.empty(len(self), np.int64)
        episode[self.place] = by_time
        return episode

    def after(self, values: Float[np.ndarray, "n *c"]) -> Float[np.ndarray, "n *c"]:
        """Those of the row that follows; 0 after an episode's last."""
        after = values[self.following] if self.place is not None else np.append(values[1:], values[:1], axis=0)
        after[self.last] = 0.0
        return after

    def handed_on(self, values: Float[np.ndarray, "n *c"]) -> Float[np.ndarray, "n *c"]:
        """Those of the row before; 0 for an episode's first: Σ valuesᵢ xᵢ₊₁ = Σ handed_onᵢ xᵢ within episodes."""
        before = np.empty_like(values)
        before[self.following] = values
        before[self.first] = 0.0
        return before

    def by_episode(self, values: Float[np.ndarray, "n *c"]) -> Float[np.ndarray, "episodes *c"]:
        """Their sums over each episode."""
        return np.add.reduceat(values if self.place is None else values[self.place], self.starts, axis=0)


@dataclass(frozen=True, eq=False)
class Blocks:
    """All blocks, one after the other; of a log in files, what one remembers and has read is given up after it."""

    made: tuple[Block, ...] | None  # None in another process
    in_files: bool

    @property
    def each(self) -> tuple[Block, ...]:
        if self.made is None:
            raise RuntimeError("these blocks stayed in the process that made them")
        return self.made

    def __len__(self) -> int:
        return len(self.each)

    def __iter__(self) -> Iterator[Block]:
        for number, block in enumerate(self.each):
            yield replace(block) if self.in_files else block
            if self.in_files and number % (RELEASED * TOGETHER) == RELEASED * TOGETHER - 1:
                release()

    def __reduce__(self) -> Any:
        """Without the blocks, where what holds it is sent to another process: the blocks go there some at a time."""
        return Blocks, (None, self.in_files)

    def chunks(self, compute: Callable[[Sequence[Block]], T]) -> Iterator[tuple[int, T]]:
        """`compute` of some blocks of one fold at a time, and which fold: here, or by other processes."""
        by_fold = [list(some) for _, some in groupby(self.each, lambda block: block.fold)]
        parts = [some[a : a + TOGETHER] for some in by_fold for a in range(0, len(some), TOGETHER)]
        share = elsewhere() and len(self.each) > FOLDS * TOGETHER
        # what a block remembers is given up after it, or stays here
        sent = ([replace(block) for block in some] if share or self.in_files else some for some in parts)
        for number, result in enumerate((mapped if share else map)(compute, sent)):
            yield parts[number][0].fold, result
            if self.in_files and number % RELEASED == RELEASED - 1:
                release()

    def map(self, compute: Callable[[Block], T]) -> Iterator[tuple[Block, T]]:
        """`compute` of each block, in their order."""
        results = self.chunks(lambda chunk: [compute(block) for block in chunk])
        return zip(self.each, (one for _, some in results for one in some), strict=True)


@dataclass(frozen=True, eq=False)
class Order:
    """All rows, and which of the log's they are."""

    rows: Int[np.ndarray, " steps"]
    episodes: Int[np.ndarray, " episodes"]
    blocks: Blocks

    @property
    def fold_of_episode(self) -> Int[np.ndarray, " episodes"]:
        """Of the log's episodes, in the log's order."""
        fold = np.empty(len(self.episodes), np.int64)
        for block in self.blocks:
            fold[self.episodes[block.episodes]] = block.fold
        return fold


def in_folds(dataset: Dataset, seed: int, knots: Int[np.ndarray, " knots"] | None = None) -> Order:
    """Episodes in folds, at random; rows by fold, block and, where there are knots, by those they lie between."""
    if dataset.episodes < FOLDS:
        raise ValueError(f"a state ratio needs {FOLDS} episodes at least, the log has {dataset.episodes}")
    fold = np.random.default_rng(seed).permutation(dataset.episodes) % FOLDS
    episodes = np.argsort(fold, kind="stable")
    bounds = np.append(0, np.cumsum(dataset.lengths[episodes]))
    moved = repeated(dataset.starts[episodes] - bounds[:-1], np.diff(bounds), dataset.rewards)
    whole = np.int32 if len(dataset) < 2**31 else np.int64
    rows = by_parts(lambda part: (moved[part] + np.arange(part.start, part.stop)).astype(whole), len(dataset), moved)
    edges, blocks = np.searchsorted(fold[episodes], np.arange(FOLDS + 1)), []
    places = None if knots is None else like(dataset.rewards, len(dataset), np.int64)
    for number in range(FOLDS):
        begin = int(edges[number])
        while begin < edges[number + 1]:
            wanted = int(np.searchsorted(bounds, bounds[begin] + BLOCK, side="right")) - 1
            end = min(max(wanted, begin + 1), int(edges[number + 1]))
            part, starts = slice(int(bounds[begin]), int(bounds[end])), bounds[begin:end] - bounds[begin]
            size, place = part.stop - part.start, None
            spans: tuple[tuple[int, slice], ...] = ((0, slice(0, size)),)
            if knots is not None and places is not None:
                span = span_of(dataset.time[rows[part]], knots)
                sorted_rows = np.argsort(span.astype(np.int16), kind="stable")
                place = places[part]
                place[sorted_rows] = np.arange(size)
                at = np.searchsorted(span[sorted_rows], np.arange(len(knots)))
                spans = tuple(
                    (j, slice(int(at[j]), int(at[j + 1]))) for j in range(len(knots) - 1) if at[j] < at[j + 1]
                )
                rows[part] = rows[part][sorted_rows]
            blocks.append(Block(part, number, slice(begin, end), starts, place, spans))
            begin = end
    return Order(rows, episodes, Blocks(tuple(blocks), isinstance(dataset.rewards, Column)))


def span_of(time: Int[np.ndarray, " n"], knots: Int[np.ndarray, " knots"]) -> Int[np.ndarray, " n"]:
    """The knot at or before each step, which is never the last."""
    return np.clip(np.searchsorted(knots, time, side="right") - 1, 0, len(knots) - 2)
