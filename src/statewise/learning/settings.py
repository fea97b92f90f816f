"""Settings files: TOML tables, from which `base.decode` makes frozen settings."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from statewise.base.decode import DecodeError
from statewise.base.jsonfile import TextFileError, read_text

LONGEST = 1_000_000  # bytes


def read_settings(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(read_text(path, LONGEST))
    except TextFileError as error:
        raise DecodeError(str(error)) from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise DecodeError(f"{path}: not a TOML file ({reason})") from error
