"""The judge's features of every row of a log, never written out, and the sums over rows that all else is made of.

    f(s, t) = turnᵀ (φ(s) ⊗ h(t))

Of the hats h(t) only two neighbours are not 0: the knots before and after t. A row keeps its part for these two alone,
z = (h₁ φA₁, h₂ φA₂), whatever the number of knots. Products with f cost no more than with z, and second moments know
only neighbouring knots. A makes each knot's part white by itself, so that single precision suffices. Without a clock
f = z = φ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from statewise.base.column import like
from statewise.ope.order import Block, Order
from statewise.parts.ratio_closed_form import FOLDS

AT_ONCE = 1024  # rows of which products are taken


class Weights(NamedTuple):
    """How much rows count in sums of products; several sets of weights side by side."""

    stays: Float[np.ndarray, "n sets"] | None = None  # of the row's own features
    moves: Float[np.ndarray, "n sets"] | None = None  # of those of what follows
    group: Int[np.ndarray, " n"] | None = None  # the sum that a row belongs to


@dataclass(frozen=True, eq=False)
class Rows:
    """z of every row, and what makes f of it."""

    order: Order
    features: Float[np.ndarray, "rows width"]  # z
    turn: Float[np.ndarray, "products rank"] | None = None  # None: f = z
    beyond: Float[np.ndarray, "episodes width"] | None = None  # f of the states after the last rows, where they count

    @property
    def rank(self) -> int:
        return self.features.shape[1] if self.turn is None else self.turn.shape[1]

    @property
    def each(self) -> int:
        """Features of a knot."""
        return self.features.shape[1] if self.turn is None else self.features.shape[1] // 2

    def of(self, block: Block) -> Float[np.ndarray, "n width"]:
        """z of a block's rows, in the precision of sums."""
        part = self.features[block.part]
        return _single(part) if part.dtype == np.float16 else part

    def at(self, span: int) -> slice:
        """The products that rows between a knot and the next have a part in."""
        return slice(span * self.each, span * self.each + self.features.shape[1])

    def lifted(self, vectors: Float[np.ndarray, "rank c"]) -> Float[np.ndarray, "products c"]:
        """Vectors to multiply f by, as `times_in` takes them."""
        lifted = vectors if self.turn is None else self.turn @ vectors
        return lifted.astype(np.float64 if self.features.dtype == np.float64 else np.float32, order="C")

    def times_in(self, block: Block, lifted: Float[np.ndarray, "products c"]) -> Float[np.ndarray, "n c"]:
        """f · v of a block's rows, in the precision of sums."""
        features, out = self.of(block), np.empty((len(block), lifted.shape[1]), lifted.dtype)
        for span, part in block.spans:
            out[part] = features[part] @ lifted[self.at(span)]
        return out

    def times_beyond(self, block: Block, lifted: Float[np.ndarray, "products c"]) -> Float[np.ndarray, "episodes c"]:
        """f · v of the states after a block's last rows."""
        assert self.beyond is not None
        return (self.beyond[block.episodes].astype(lifted.dtype) @ lifted).astype(np.float64)

    def times(self, vectors: Float[np.ndarray, "rank c"]) -> Float[np.ndarray, "rows c"]:
        """f · v of every row."""
        lifted, out = self.lifted(vectors), like(self.features, (len(self.features), vectors.shape[1]))
        for block, values in self.order.blocks.map(lambda block: self.times_in(block, lifted)):
            out[block.part] = values
        return out

    def sums(self, weigh: Callable[[Block], Float[np.ndarray, "n c"]]) -> Float[np.ndarray, "folds rank c"]:
        """Σᵢ weightᵢ fᵢ over each fold; `weigh` gives the weights of a block's rows."""

        def chunk(blocks: Sequence[Block]) -> Float[np.ndarray, "products c"]:
            total = Sums(self)
            for block in blocks:
                total.add(block, weigh(block))
            return total.of_fold()

        return self.by_fold(self.order.blocks.chunks(chunk))

    def of_firsts(self, weigh: Callable[[Block], Float[np.ndarray, "episodes c"]]) -> Float[np.ndarray, "rank c"]:
        """Σ weight f over the first rows of all episodes, which are few; `weigh` gives the weights of a block's."""
        total: np.ndarray | float = 0.0
        for block in self.order.blocks:
            first = self.features[block.part.start + block.first].astype(np.float64)
            total = total + first.T @ weigh(block)
        assert isinstance(total, np.ndarray)
        return total if self.turn is None else self.turn[self.at(0)].T @ total  # before all, the first knot

    def by_fold(
        self, parts: Iterable[tuple[int, Float[np.ndarray, "products c"]]]
    ) -> Float[np.ndarray, "folds rank c"]:
        """Sums of f over each fold, from those of chunks."""
        total: np.ndarray | None = None
        for fold, part in parts:
            total = np.zeros((FOLDS, *part.shape)) if total is None else total
            total[fold] += part
        assert total is not None
        return total if self.turn is None else self.turn.T @ total

    def by_episode(self, block: Block, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, "episodes rank"]:
        """Σᵢ weightᵢ fᵢ over each episode of a block."""
        features = self.of(block)
        scaled = features * weights.astype(features.dtype)[:, None]
        if self.turn is None:
            return block.by_episode(scaled).astype(np.float64)
        out = np.zeros((len(block.starts), len(self.turn)))
        for span, part in block.spans:
            episode = block.episode[part]
            begins = np.flatnonzero(np.diff(episode, prepend=-1))
            out[episode[begins], self.at(span)] += np.add.reduceat(scaled[part], begins, axis=0)
        return out @ self.turn

    def moments(self, weigh: Callable[[Block], Weights], groups: int = 1) -> Float[np.ndarray, "folds groups sets _ _"]:
        """Σᵢ (movesᵢ f'ᵢ + staysᵢ fᵢ) fᵢᵀ over each fold and group, with f' of the state and time that follow.

        What follows an episode's last row counts as 0 where it is not known.
        """
        width = self.features.shape[1]
        products = width if self.turn is None else len(self.turn)
        spans = (products - width) // self.each + 1

        def chunk(blocks: Sequence[Block]) -> Float[np.ndarray, "groups spans sets width width"]:
            part: np.ndarray | None = None
            for block in blocks:
                for where, product in self._products(block, weigh(block)):
                    if part is None:
                        part = np.zeros((groups, spans, len(product) // width, width, width))
                    part[where] += product.reshape(part.shape[2:])
            assert part is not None
            return part

        total: np.ndarray | None = None
        for fold, part in self.order.blocks.chunks(chunk):
            total = np.zeros((FOLDS, *part.shape)) if total is None else total
            total[fold] += part
        assert total is not None
        if self.turn is None:
            return total[:, :, 0]
        out = np.empty((FOLDS, groups, total.shape[3], self.rank, self.rank))
        for fold, part in enumerate(total):  # one after the other: with many groups each is large
            turned = np.zeros((groups, total.shape[3], products, self.rank))
            for span in range(spans):
                turned[..., self.at(span), :] += part[:, span] @ self.turn[self.at(span)]
            out[fold] = self.turn.T @ turned
        return out

    def _products(self, block: Block, weights: Weights) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
        """What a block adds to `moments`: the group and the span, and the products of what has a part there."""
        features, (stays, moves, group) = self.of(block), weights
        following = None if moves is None else self._following(block, features)
        for span, part in block.spans:
            for number, rows in _grouped(part, group):
                here, left = features[rows], None
                if stays is not None:
                    left = _scaled(here, stays[rows])
                if moves is not None and following is not None:
                    moved = _scaled(following[rows], moves[rows])
                    left = moved if left is None else np.add(left, moved, out=left)
                assert left is not None
                yield (number, span), left.reshape(len(here), -1).T @ here

    def _following(self, block: Block, features: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """z of what follows, in the place of the row's own two knots."""
        following = features.take(block.following, axis=0)
        following[block.last] = 0.0 if self.beyond is None else self.beyond[block.episodes]
        if self.turn is not None:
            span = np.repeat([span for span, _ in block.spans], [part.stop - part.start for _, part in block.spans])
            reached = np.flatnonzero(span[block.following] > span)  # the knot after, where a new span begins
            following[reached, self.each :] = following[reached, : self.each]
            following[reached, : self.each] = 0.0
        return following


class Sums:
    """Sums of f that blocks of one fold add to."""

    def __init__(self, rows: Rows):
        self.rows = rows
        self.total: np.ndarray | None = None

    def add(self, block: Block, weights: Float[np.ndarray, "n c"]) -> None:
        rows, features = self.rows, self.rows.of(block)
        if self.total is None:
            products = rows.rank if rows.turn is None else len(rows.turn)
            self.total = np.zeros((products, weights.shape[1]))
        weights = weights.astype(features.dtype)
        for span, part in block.spans:
            self.total[rows.at(span)] += features[part].T @ weights[part]

    def of_fold(self) -> Float[np.ndarray, "products c"]:
        """As `Rows.by_fold` takes them."""
        assert self.total is not None
        return self.total


def _single(half: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
    """`half.astype(np.float32)` of finite numbers, bit by bit: NumPy takes seven times as long, a third of all time."""
    bits = half.view(np.int16).astype(np.int32)
    bits <<= 13  # the sign stands in all bits from 28 on …
    bits &= np.int32(-0x70002000)  # … and stays in the last
    single = bits.view(np.float32)
    single *= np.float32(2.0**112)  # exponents count from 127, and not from 15
    return single


def _scaled(features: Float[np.ndarray, "n width"], weights: Float[np.ndarray, "n sets"]) -> np.ndarray:
    """weight · z, side by side for each set of weights."""
    return weights.astype(features.dtype)[:, :, None] * features[:, None, :]


def _grouped(part: slice, group: Int[np.ndarray, " n"] | None) -> Iterator[tuple[int, slice | Int[np.ndarray, " m"]]]:
    """The rows of `part` by their group, and no more at a time than fit into a cache with their products."""
    if group is None:
        for first in range(part.start, part.stop, AT_ONCE):
            yield 0, slice(first, min(first + AT_ONCE, part.stop))
        return
    order = part.start + np.argsort(group[part], kind="stable")
    for a, b in pairwise(np.flatnonzero(np.diff(group[order], prepend=-1, append=-1))):
        yield int(group[order[a]]), order[a:b]
