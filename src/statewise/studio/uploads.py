"""A file from the browser into the studio's folder: streamed, bounded, under a harmless name."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import AsyncIterator
from pathlib import PurePosixPath, PureWindowsPath

from statewise.base.files import written_whole
from statewise.base.harmless import harmless
from statewise.base.memory import in_words
from statewise.data.formats import FORMATS, any_of
from statewise.studio.folder import Log, StudioError, StudioFolder, now

LARGEST = 2 * 10**9  # bytes
SPARE = 500 * 10**6  # bytes that are left free on the disk
LONGEST_NAME = 120


def shown_name(given: str) -> str:
    r"""The last part of a file's name, fit to be shown.

    >>> shown_name("C:\\logs\\visits.csv"), shown_name("../../etc/visits\x1b.csv")
    ('visits.csv', 'visits\\x1b.csv')
    """
    name = PurePosixPath(PureWindowsPath(given).name).name
    name = re.sub(r"\s+", " ", harmless(unicodedata.normalize("NFC", name))).strip()
    stem, dot, ending = name.rpartition(".")
    return name if len(name) <= LONGEST_NAME else f"{stem[: LONGEST_NAME - 10]}…{dot}{ending[:8]}"


async def receive(
    folder: StudioFolder,
    name: str,
    body: AsyncIterator[bytes],
    after: str | None = None,
    largest: int = LARGEST,
) -> str:
    """Keeps a file that is being sent, and gives its id; what is not complete leaves nothing behind."""
    name = shown_name(name)
    ending = f".{name.rpartition('.')[2].lower()}" if "." in name else ""
    if ending not in FORMATS:
        kind = f"its name ends in {ending}" if ending else "its name has no ending"
        raise StudioError(f"{name or 'the file'}: {kind}; export it as {any_of(FORMATS)}")
    largest = min(largest, shutil.disk_usage(folder.path).free - SPARE)
    id, place = folder.new("logs", name.removesuffix(ending))
    try:
        file, size = f"{id}{ending}", 0  # reports name it
        with written_whole(place / file) as part, part.open("wb") as out:
            async for chunk in body:
                size += len(chunk)
                if size > largest:
                    most = in_words(max(0, largest))
                    raise StudioError(f"{name}: it is larger than the {most} that there is room for; give a part of it")
                out.write(chunk)
        if not size:
            raise StudioError(f"{name}: it is empty")
        folder.write_about("logs", id, Log(name, file, size, now(), after))
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return id
