"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; it replaces `path` on success, and otherwise `path` stays as it was.

    A full disk or a missing folder is reported under the name of `path`, not of the temporary file.

    >>> with written_whole("answer.txt") as part:  # doctest: +SKIP
    ...     part.write_text("42")
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        os.replace(part, path)
    except OSError as error:
        if error.filename not in (None, str(part), part):
            raise
        reason = (error.strerror or str(error)).strip().split("\n")[0]
        raise OSError(error.errno or 0, f"it could not be written ({reason})", str(path)) from error
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            part.unlink()


def write_text(path: str | Path, text: str) -> None:
    """Writes UTF-8 text, whole or not at all."""
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")
