"""Settings from a file or a mapping put into a frozen settings class, every name and type checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class SettingsError(ValueError):
    """A setting that does not exist, or cannot have that value."""


def read_settings(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: it is not a TOML file ({error})") from error


def changed(settings: T, changes: Mapping[str, Any], where: str = "") -> T:
    """`settings` with some values changed, also inside of its own settings.

    >>> changed(OPPOSD(), {"updates": 100, "critic": {"steps": 5}}).critic.steps  # doctest: +SKIP
    5
    """
    known = {each.name: getattr(settings, each.name) for each in fields(settings)}  # pyright: ignore[reportArgumentType]
    new = {}
    for name, value in changes.items():
        place = f"{where}{name}"
        if name not in known:
            raise SettingsError(f"there is no setting '{place}'; there are {', '.join(known)}")
        new[name] = _fitted(known[name], value, place)
    return replace(settings, **new)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _fitted(old: Any, value: Any, place: str) -> Any:
    if is_dataclass(old):
        if not isinstance(value, Mapping):
            raise SettingsError(f"'{place}' is a table of settings, not {value!r}")
        return changed(old, value, f"{place}.")
    if isinstance(old, tuple) and isinstance(value, list | tuple):
        return tuple(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(old, float) and number:
        return float(value)
    if old is None or value is None or type(value) is type(old):
        return tuple(value) if isinstance(value, list) else value  # settings must be hashable
    raise SettingsError(f"'{place}' is {value!r}, but should be something like {old!r}")
