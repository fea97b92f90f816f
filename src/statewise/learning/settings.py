"""Settings from a file or a mapping put into a frozen settings class, every name and type checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

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
    kinds = get_type_hints(type(settings))
    new = {}
    for name, value in changes.items():
        place = f"{where}{name}"
        if name not in known:
            raise SettingsError(f"there is no setting '{place}'; there are {', '.join(known)}")
        bare = known[name] is None or (value is None and type(None) in get_args(kinds[name]))
        new[name] = _optional(kinds[name], value, place) if bare else _fitted(known[name], value, place)
    return replace(settings, **new)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _fitted(old: Any, value: Any, place: str) -> Any:
    if is_dataclass(old):
        if not isinstance(value, Mapping):
            raise SettingsError(f"'{place}' is a table of settings, not {value!r}")
        return changed(old, value, f"{place}.")
    if isinstance(old, tuple) and isinstance(value, list | tuple):
        return tuple(_fitted(old[0], one, place) for one in value) if old else tuple(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(old, float) and number:
        return float(value)
    if type(value) is type(old):
        return value
    raise SettingsError(f"'{place}' is {value!r}, but should be something like {old!r}")


def _optional(kind: Any, value: Any, place: str) -> Any:
    """A value for a setting that has none, and so nothing to be like but its type."""
    for one in get_args(kind):
        if one is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if is_dataclass(one) and isinstance(value, Mapping):
            return changed(one(), value, f"{place}.")
        if get_origin(one) is tuple and isinstance(value, list | tuple):
            return tuple(value)
        if type(value) is one:
            return value
    words = {float: "a number", int: "a whole number", str: "text", tuple: "a list"}
    kinds = (get_origin(one) or one for one in get_args(kind) if one is not type(None))
    wanted = " or ".join(words.get(one, "a table") for one in kinds)
    raise SettingsError(f"'{place}' is {value!r}, but should be {wanted}")
