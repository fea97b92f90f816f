"""Rows in blocks, so that what is computed of every row of a long log never exists for all rows at once."""

from __future__ import annotations

from collections.abc import Iterator

BLOCK = 2**16  # rows


def blocks(count: int, size: int | None = None) -> Iterator[slice]:
    """Slices of `size` (by default `BLOCK`) that cover `count` rows in order.

    >>> [(rows.start, rows.stop) for rows in blocks(5, size=2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    size = BLOCK if size is None else size
    return (slice(first, min(first + size, count)) for first in range(0, count, size))
