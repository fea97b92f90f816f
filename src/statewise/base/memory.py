"""How much memory there is, so that a file which needs more is refused before it is read."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

CONTAINER = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@cache
def memory_of_machine() -> int:
    """Bytes of memory of this machine, or of the container that this runs in."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not on every system
        total = 1 << 36
    return min(total, *(_limit(path, total) for path in CONTAINER))


def in_words(count: int | float) -> str:
    """A number of bytes for a reader.

    >>> in_words(5_600_000_000)
    '5.6 GB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB" if count < 1e6 else "more than a million TB"


def _limit(path: Path, otherwise: int) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such limit
        return otherwise
