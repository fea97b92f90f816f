"""Turns plain values, as TOML and JSON hold them, into frozen dataclasses; checks every name and type.

It is written by hand because it must run where only the learning libraries are installed.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
LARGEST = sys.float_info.max  # whole numbers may be larger


class DecodeError(ValueError):
    """A value of the wrong kind, or with an unknown name."""


def decode(kind: Any, value: Any, where: str) -> Any:
    """`value` as `kind`; `where` names it in messages.

    >>> decode(tuple[int, ...], [1, 2], "seeds")
    (1, 2)
    >>> decode(int, "two", "seeds")
    Traceback (most recent call last):
    statewise.base.decode.DecodeError: seeds: expected a whole number, got 'two'
    """
    return _value(kind, value, where, None)


def changed(settings: T, changes: Mapping[str, Any], where: str = "") -> T:
    """`settings` with some values changed, nested ones included.

    >>> changed(OPPOSD(), {"updates": 100, "critic": {"steps": 5}}).critic.steps  # doctest: +SKIP
    5
    """
    return _object(type(settings), changes, where, settings)


def _value(kind: Any, value: Any, where: str, current: Any) -> Any:
    """`current` is the value so far, to which a table of changes applies."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return _one_of(arguments, value, where, current)
    if kind is NoneType and value is None:
        return None
    if is_dataclass(kind) and isinstance(value, Mapping):
        return _object(kind, value, where, current if isinstance(current, kind) else None)  # pyright: ignore
    if origin is Literal and value in arguments:
        return value
    if origin is tuple and isinstance(value, list | tuple):
        return _items(arguments, value, where)
    if (origin in (dict, Mapping) or kind in (dict, Mapping)) and isinstance(value, Mapping):
        return dict(value)
    if kind is float and _is_number(value):
        return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    raise DecodeError(f"{where}: expected {_description(kind)}, got {_shown(value)}")


def _object(kind: Any, value: Mapping[str, Any], where: str, current: Any) -> Any:
    kinds = get_type_hints(kind)
    known = [each.name for each in fields(kind) if each.init]
    unknown = next((name for name in value if name not in known), None)
    prefix = f"{where}." if where else ""
    if unknown is not None:
        near = difflib.get_close_matches(str(unknown), known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(known)}"
        raise DecodeError(f"{prefix}{unknown}: there is no such setting; {hint}")
    values = {name: getattr(current, name) for name in known} if current is not None else {}
    for name, new in value.items():
        values[name] = _value(kinds[name], new, f"{prefix}{name}", values.get(name))
    required = (e.name for e in fields(kind) if e.init and e.default is MISSING and e.default_factory is MISSING)
    missing = next((name for name in required if name not in values), None)
    if missing is not None:
        raise DecodeError(f"{where}: '{missing}' is missing")
    try:
        return kind(**values)
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from None


def _one_of(kinds: tuple[Any, ...], value: Any, where: str, current: Any) -> Any:
    """The first kind that fits; among tables, that of the current value, or one that has all the names."""
    tables = [kind for kind in kinds if is_dataclass(kind)]
    if isinstance(value, Mapping) and tables:
        fits = [kind for kind in tables if isinstance(current, kind)]  # pyright: ignore[reportArgumentType]
        fits += [kind for kind in tables if {each.name for each in fields(kind)} >= set(value)]
        return _value((fits or tables)[0], value, where, current)
    for kind in kinds:
        try:
            return _value(kind, value, where, current)
        except DecodeError:
            continue
    expected = " or ".join(_description(kind) for kind in kinds if kind is not NoneType)
    raise DecodeError(f"{where}: expected {expected}, got {_shown(value)}")


def _items(kinds: tuple[Any, ...], value: Any, where: str) -> tuple:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_value(kinds[0], item, f"{where}[{i}]", None) for i, item in enumerate(value))
    if len(value) != len(kinds):
        raise DecodeError(f"{where}: expected {len(kinds)} entries, got {len(value)}")
    return tuple(
        _value(kind, item, f"{where}[{i}]", None) for i, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _description(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if is_dataclass(kind) or origin in (dict, Mapping) or kind in (dict, Mapping):
        return "a table"
    if origin is tuple:
        return "a list"
    return {float: "a number", int: "a whole number", str: "text", bool: "true or false"}.get(kind, str(kind))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
