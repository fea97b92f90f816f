"""Plain values, as TOML and JSON give them, into frozen dataclasses; every name and type is checked.

By hand, since it must run where there are only the learning libraries; it is the only such decoder here.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class DecodeError(ValueError):
    """A value that does not fit where it stands."""


def decode(kind: Any, given: Any, where: str) -> Any:
    """`given` as `kind`; `where` says in messages what it is.

    >>> decode(tuple[int, ...], [1, 2], "seeds")
    (1, 2)
    >>> decode(int, "two", "seeds")
    Traceback (most recent call last):
    statewise.base.decode.DecodeError: seeds: expected a whole number, got 'two'
    """
    return _value(kind, given, where, None)


def changed(settings: T, changes: Mapping[str, Any], where: str = "") -> T:
    """`settings` with some values changed, also inside of its own settings.

    >>> changed(OPPOSD(), {"updates": 100, "critic": {"steps": 5}}).critic.steps  # doctest: +SKIP
    5
    """
    return _object(type(settings), changes, where, settings)


def _value(kind: Any, given: Any, where: str, like: Any) -> Any:
    """`like` is what stands there already: a table of changes changes it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return given
    if origin in (Union, UnionType):
        return _one_of(arguments, given, where, like)
    if kind is NoneType and given is None:
        return None
    if is_dataclass(kind) and isinstance(given, Mapping):
        return _object(kind, given, where, like if isinstance(like, kind) else None)  # pyright: ignore
    if origin is Literal and given in arguments:
        return given
    if origin is tuple and isinstance(given, list | tuple):
        return _items(arguments, given, where)
    if (origin in (dict, Mapping) or kind in (dict, Mapping)) and isinstance(given, Mapping):
        return dict(given)
    if kind is float and _is_number(given):
        return float(given)
    if kind in (int, str, bool) and type(given) is kind:
        return given
    raise DecodeError(f"{where}: expected {_words(kind)}, got {_shown(given)}")


def _object(kind: Any, given: Mapping[str, Any], where: str, like: Any) -> Any:
    kinds = get_type_hints(kind)
    known = [each.name for each in fields(kind) if each.init]
    unknown = next((name for name in given if name not in known), None)
    prefix = f"{where}." if where else ""
    if unknown is not None:
        near = difflib.get_close_matches(str(unknown), known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
        raise DecodeError(f"{prefix}{unknown}: there is no such setting; {hint}")
    values = {name: getattr(like, name) for name in known} if like is not None else {}
    for name, value in given.items():
        values[name] = _value(kinds[name], value, f"{prefix}{name}", values.get(name))
    required = (e.name for e in fields(kind) if e.init and e.default is MISSING and e.default_factory is MISSING)
    missing = next((name for name in required if name not in values), None)
    if missing is not None:
        raise DecodeError(f"{where}: '{missing}' is missing")
    try:
        return kind(**values)
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from None


def _one_of(kinds: tuple[Any, ...], given: Any, where: str, like: Any) -> Any:
    """The first kind that fits; of several tables the one that stands there, or that knows all the names."""
    tables = [kind for kind in kinds if is_dataclass(kind)]
    if isinstance(given, Mapping) and tables:
        fits = [kind for kind in tables if isinstance(like, kind)]  # pyright: ignore[reportArgumentType]
        fits += [kind for kind in tables if {each.name for each in fields(kind)} >= set(given)]
        return _value((fits or tables)[0], given, where, like)
    for kind in kinds:
        try:
            return _value(kind, given, where, like)
        except DecodeError:
            continue
    words = " or ".join(_words(kind) for kind in kinds if kind is not NoneType)
    raise DecodeError(f"{where}: expected {words}, got {_shown(given)}")


def _items(kinds: tuple[Any, ...], given: Any, where: str) -> tuple:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_value(kinds[0], item, f"{where}[{i}]", None) for i, item in enumerate(given))
    if len(given) != len(kinds):
        raise DecodeError(f"{where}: expected {len(kinds)} entries, got {len(given)}")
    return tuple(
        _value(kind, item, f"{where}[{i}]", None) for i, (kind, item) in enumerate(zip(kinds, given, strict=True))
    )


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)


def _words(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if is_dataclass(kind) or origin in (dict, Mapping):
        return "a table"
    if origin is tuple:
        return "a list"
    return {float: "a number", int: "a whole number", str: "text", bool: "true or false"}.get(kind, str(kind))


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:57]}…"
