"""Reads JSON and text files of bounded size: what is too long, too deep or not JSON is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from statewise.base.memory import in_words

LONGEST = 50_000_000  # bytes; a decision on many episodes has a few million


class TextFileError(ValueError):
    """The file is not what it should be."""


def read_text(path: str | Path, longest: int = LONGEST) -> str:
    """The UTF-8 text of a file."""
    path = Path(path)
    size = path.stat().st_size
    if size > longest:
        raise TextFileError(f"{path}: expected {in_words(longest)} at most, got {in_words(size)}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeError as error:
        raise TextFileError(f"{path}: it is not UTF-8 text") from error


def read_json(path: str | Path, longest: int = LONGEST) -> Any:
    """The value in a JSON file."""
    text = read_text(path, longest)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise TextFileError(f"{path}: it is not JSON ({reason})") from error
