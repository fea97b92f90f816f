"""Files that are written whole or not at all, also when the power fails."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from statewise.base.lock import claim

# Windows knows neither of them
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
NO_WAIT = getattr(os, "O_NONBLOCK", 0)


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; it replaces `path` on success, and otherwise `path` stays as it was.

    After this, the file is on the disk: its contents before its name, so that a power failure leaves the old file or
    the new one. A full disk or a missing folder is reported under the name of `path`, not of the temporary file.

    >>> with written_whole("answer.txt") as part:  # doctest: +SKIP
    ...     part.write_text("42")
    """
    path = Path(path)
    try:
        _check_replaceable(path)
        part, handle = _new_part(path)
        try:
            yield part
            _sync(part, NO_FOLLOW)
            os.replace(part, path)
            sync_folder(path.parent)
        finally:
            os.close(handle)
            with suppress(FileNotFoundError):
                part.unlink()
    except OSError as error:
        if error.filename not in (None, str(path)) and not _parts_of(path).fullmatch(Path(error.filename).name):
            raise
        reason = (error.strerror or str(error)).strip().split("\n")[0]
        raise OSError(error.errno or 0, f"it could not be written ({reason})", str(path)) from error
    _remove_abandoned(path)


def write_text(path: str | Path, text: str) -> None:
    """Writes UTF-8 text, whole or not at all."""
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def check_writable(path: str | Path) -> None:
    """Raises the OSError that writing this file would."""
    _check_replaceable(Path(path))
    part, handle = _new_part(Path(path))
    os.close(handle)
    part.unlink()


def make_folder(path: str | Path) -> None:
    """The folder and those above it, each on the disk; one that exists is left as it is."""
    path = Path(path)
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def remove(*paths: Path) -> None:
    """Removes files of one folder for good."""
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Waits until the names of a folder's files are on the disk."""
    if os.name != "nt":  # where a folder cannot be opened
        _sync(folder)


def _sync(path: Path, flags: int = 0) -> None:
    handle = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_replaceable(path: Path) -> None:
    """A file may be replaced by a new one; /dev/stdout, which a superuser may replace too, would be lost to all."""
    of_system = path.is_symlink() and os.readlink(path).startswith(("/proc/", "/dev/"))
    if of_system or (path.exists() and not (path.is_file() or path.is_dir())):
        raise OSError(errno.EINVAL, "it is a device or a pipe, expected a file", str(path))


def _new_part(path: Path) -> tuple[Path, int]:
    """A new file beside `path` that no one else writes to, claimed for as long as the handle is open."""
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666)
        claim(handle)
        if os.fstat(handle).st_nlink:  # not taken for abandoned between the two calls
            return part, handle
        os.close(handle)


def _remove_abandoned(path: Path) -> None:
    """Removes what processes left behind that were killed while they wrote this file."""
    for name in filter(_parts_of(path).fullmatch, os.listdir(path.parent)):
        with suppress(OSError):  # someone else removed it, or may not be asked
            handle = os.open(path.with_name(name), os.O_WRONLY | NO_FOLLOW | NO_WAIT)
            try:
                if stat.S_ISREG(os.fstat(handle).st_mode) and claim(handle):
                    os.unlink(path.with_name(name))
            finally:
                os.close(handle)


def _parts_of(path: Path) -> re.Pattern[str]:
    """The names of its temporary files."""
    return re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{16}\.part")
