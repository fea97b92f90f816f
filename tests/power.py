"""Power losses: what a disk would hold if the machine stopped in the middle of a process's writes.

A disk holds a file's contents as of its last fsync, and a folder's names as of its own; of what came after, it may hold
any part. Python's calls to the operating system are watched, and between two of them the folder itself is looked at,
for files that others (polars, NumPy) created or wrote.
"""

import os
import random
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

WATCHED = ("open", "fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir")


class PowerLost(BaseException):
    """The machine stops here; nothing catches this."""


@dataclass
class Folder:
    """A folder as the disk knows it, and the changes to its names that may not have reached it yet."""

    names: dict[str, object] = field(default_factory=dict)
    pending: list[tuple] = field(default_factory=list)


@dataclass
class Contents:
    """A file as the disk knows it."""

    synced: bytes = b""
    now: bytes = b""


class Disk:
    """Watches what is written below `root`, and stops at the given call (None: never)."""

    def __init__(self, root: Path, stop_at: int | None = None):
        self.root, self.stop_at, self.calls, self.lost = root, stop_at, 0, False
        self.top = Folder()
        self.known: dict[int, object] = {}  # by inode
        self.known[root.stat().st_ino] = self.top
        self._look()
        for thing in self.known.values():  # what is there before has long reached the disk
            if isinstance(thing, Folder):
                thing.names, thing.pending = applied(thing), []
            else:
                thing.synced = thing.now

    @contextmanager
    def watched(self):
        """Patches `os`; after the loss every call fails, so that no clean-up changes what is left."""
        original = {name: getattr(os, name) for name in WATCHED}
        self.real = original

        def wrapper(name):
            def call(*arguments, **options):
                return self._call(name, original[name], arguments, options)

            return call

        patches = [patch.object(os, name, wrapper(name)) for name in WATCHED]
        for each in patches:
            each.start()
        try:
            yield self
        except PowerLost:
            pass
        finally:
            for each in patches:
                each.stop()

    def _call(self, name, function, arguments, options):
        if self.lost:
            raise PowerLost
        below = self._concerns(name, arguments)
        if below:
            self._look()
            if self.calls == self.stop_at:
                self.lost = True
                raise PowerLost
            self.calls += 1
        before = self._entry(arguments[-1]) if below and name in ("replace", "rename") else None
        result = function(*arguments, **options)
        if not below:
            return result
        if name == "fsync":
            self._synced(arguments[0])
        elif name in ("replace", "rename"):
            self._moved(*map(Path, arguments), before)
        elif name in ("unlink", "remove", "rmdir"):
            self._removed(Path(arguments[0]))
        else:
            self._look()
        return result

    def _concerns(self, name, arguments) -> bool:
        try:
            path = Path(os.readlink(f"/proc/self/fd/{arguments[0]}") if name == "fsync" else arguments[0])
        except (OSError, TypeError):
            return False
        if name == "open" and not arguments[1] & os.O_CREAT:
            return False
        return path == self.root or self.root in path.parents

    def _entry(self, path):
        try:
            return self.known.get(os.stat(path).st_ino)
        except FileNotFoundError:
            return None

    def _look(self) -> None:
        """Takes notice of files and folders that came into being, and of what files hold now."""
        self._look_into(self.root, self.top)

    def _look_into(self, path, folder) -> None:
        current = applied(folder)
        for entry in os.scandir(path):
            inode = entry.inode()
            if entry.name not in current:
                self.known[inode] = Folder() if entry.is_dir() else Contents()
                folder.pending.append(("add", entry.name, self.known[inode]))
            thing = self.known[inode]
            if isinstance(thing, Folder):
                self._look_into(Path(entry.path), thing)
            else:
                with open(entry.path, "rb") as file:
                    thing.now = file.read()

    def _synced(self, handle) -> None:
        thing = self.known[os.fstat(handle).st_ino]
        if isinstance(thing, Folder):
            thing.names, thing.pending = applied(thing), []
        else:
            thing.synced = thing.now

    def _moved(self, source, target, replaced) -> None:
        assert source.parent == target.parent, "a file that moves between folders is not simulated"
        self.known[source.parent.stat().st_ino].pending.append(("move", source.name, target.name))

    def _removed(self, path) -> None:
        self.known[path.parent.stat().st_ino].pending.append(("remove", path.name))

    def left(self, into: Path, luck: random.Random | None) -> None:
        """Writes what the disk holds: without luck only what was synced, with luck any part of the rest besides."""
        into.mkdir()
        self._write(self.top, into, luck)

    def _write(self, folder, path, luck) -> None:
        for name, thing in applied(folder, luck, everything=False).items():
            if isinstance(thing, Folder):
                (path / name).mkdir()
                self._write(thing, path / name, luck)
            else:
                (path / name).write_bytes(_survived(thing, luck))


def applied(folder: Folder, luck: random.Random | None = None, *, everything: bool = True) -> dict[str, object]:
    """The folder's names after its pending changes: all, none, or by luck each of them."""
    names = dict(folder.names)
    for change, name, *more in folder.pending:
        if not everything and (luck is None or luck.random() < 0.5):
            continue
        if change == "add":
            names[name] = more[0]
        elif name in names:
            thing = names.pop(name)
            if change == "move":
                names[more[0]] = thing
    return names


def _survived(contents: Contents, luck: random.Random | None) -> bytes:
    if luck is None or contents.synced == contents.now:
        return contents.synced
    cut = luck.randrange(len(contents.now) + 1)
    return luck.choice([contents.synced, contents.now, contents.now[:cut], bytes(cut) + contents.now[cut:]])
