"""Locks that the operating system releases when their process ends, however it ends."""

from __future__ import annotations

import os
import platform
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

NAME = ".lock"
OWNER = re.compile(r"process \d+ on [\w.-]+")
# folders that this process has locked: the thread that did, and how often it entered
_held: dict[str, list[int]] = {}
_guard = threading.Lock()


class FolderInUse(ValueError):
    """Someone else writes to the folder."""


@contextmanager
def locked(folder: str | Path) -> Iterator[None]:
    """Keeps others from writing to a folder; entered again by the same thread, it is the same lock.

    What counts is the operating system's lock on the file `.lock`, not that there is one: a killed process leaves
    nothing to clean up.
    """
    place = os.path.realpath(folder)
    me = threading.get_ident()
    with _guard:
        entered = _held.get(place)
        if entered is not None and entered[0] != me:
            raise FolderInUse(_sentence(folder, "another thread of this process"))
        handle = _take(Path(folder)) if entered is None else None
        _held[place] = [me, 1 if entered is None else entered[1] + 1]
    try:
        yield
    finally:
        with _guard:
            _held[place][1] -= 1
            if handle is not None:
                del _held[place]
                with suppress(OSError):
                    os.unlink(Path(folder) / NAME)
                os.close(handle)


def claim(handle: int) -> bool | None:
    """Locks an open file: False if another process has locked it, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some file systems over a network
        return None
    return True


def _take(folder: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    while True:
        handle = os.open(folder / NAME, flags, 0o666)
        if claim(handle) is False:
            owner = os.read(handle, 200).decode(errors="replace")
            os.close(handle)
            raise FolderInUse(_sentence(folder, owner if OWNER.fullmatch(owner) else "another process"))
        if os.fstat(handle).st_nlink:  # not removed by its owner between the two calls
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {platform.node()}".encode())
            return handle
        os.close(handle)


def _sentence(folder: str | Path, owner: str) -> str:
    return f"{folder}: {owner} is writing to it; wait until it has finished, or choose another folder"
