"""Settings files: TOML tables, from which `base.decode` makes frozen settings."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from statewise.base.decode import DecodeError


def read_settings(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"{path}: not a TOML file ({error})") from error
