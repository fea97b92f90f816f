"""Pages of mapped files: what a process has read of a file need not stay in its memory.

The system takes such pages back when it runs short, but until then they are counted as the process's memory. So they
are given back here: by those who walk over a long file, as they go, and while rows are drawn from all over it, by a
thread that looks how many there are.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST = 1 << 31  # bytes of files that may stay in memory while rows are drawn from them
LOOKS = 0.02  # seconds from one look to the next

_lock = threading.Lock()  # of the set, which must not change while it is gone through
_mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
_counts = Path("/proc/self/statm")  # in pages: all, in memory, in memory and of a file, …


def map_file(handle: int, size: int, writable: bool, at_random: bool = False) -> mmap.mmap:
    """The file's bytes as memory, whose pages `release` gives back; read `at_random`, none are read ahead."""
    mapping = mmap.mmap(handle, size, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
    if at_random and hasattr(mmap, "MADV_RANDOM"):
        mapping.madvise(mmap.MADV_RANDOM)
    with _lock:
        _mappings.add(mapping)
    return mapping


def release() -> None:
    """Takes the pages of all mapped files out of this process's memory; the system keeps them while it has room."""
    if not hasattr(mmap, "MADV_DONTNEED"):
        return
    with _lock:
        mappings = list(_mappings)
    for mapping in mappings:
        mapping.madvise(mmap.MADV_DONTNEED)


def of_files() -> int:
    """How many bytes of this process's memory are pages of files, its libraries included."""
    return int(_counts.read_text().split()[2]) * mmap.PAGESIZE


@contextmanager
def few_in_memory(most: int | None = None) -> Iterator[None]:
    """Meanwhile, pages of mapped files are given back as soon as they have grown by more than `most` bytes (`MOST`).

    For compiled loops, which cannot do so themselves. Where nothing is mapped, or pages cannot be counted, it does
    nothing.
    """
    if not _mappings or not _counts.exists():
        yield
        return
    release()
    bound, ended = of_files() + (MOST if most is None else most), threading.Event()

    def look() -> None:
        while not ended.wait(LOOKS):
            if of_files() > bound:
                release()

    thread = threading.Thread(target=look, name="pages", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        release()
