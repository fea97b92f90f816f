"""Things of one kind by name: those of the package, and those that a user adds."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

T = TypeVar("T")


class UnknownName(LookupError, ValueError):
    """Nothing of that kind has that name."""


class Registry(Generic[T]):
    """Entries by name, in the order they were added.

    `builtin` says where each entry is, as `module:attribute`; it is imported on first use, so that listing names costs
    nothing.

    >>> colours = Registry("colour")
    >>> colours.add("red", 0xFF0000)
    16711680
    >>> list(colours), "red" in colours, colours["red"]
    (['red'], True, 16711680)
    """

    def __init__(self, kind: str, builtin: Mapping[str, str] | None = None):
        self.kind = kind
        self._places = dict(builtin or {})
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        """Registers an entry and returns it; a name that is taken is refused."""
        if name in self:
            raise ValueError(f"there is already {_article(self.kind)} {self.kind} called '{name}'")
        self._entries[name] = entry
        return entry

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            if name not in self._places:
                raise UnknownName(unknown_name(self.kind, name, self))
            module, _, attribute = self._places[name].partition(":")
            self._entries[name] = getattr(import_module(module), attribute)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places or name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._places, *self._entries)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def items(self) -> list[tuple[str, T]]:
        return [(name, self[name]) for name in self]

    def values(self) -> list[T]:
        return [self[name] for name in self]


def unknown_name(kind: str, name: str, names: Iterable[str]) -> str:
    """The message for a name that is not known: the nearest one, and all there are."""
    names = list(names)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"there is no {kind} '{name}'; {hint}choose from {', '.join(names)}"


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"
