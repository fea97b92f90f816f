"""Kinds of values that options take."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Collection
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from statewise.base.registry import Registry, unknown_name

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


class FilePath(click.Path):
    """The name of a file or a folder. No name at all is refused: a shell makes it of a variable that is not set, and a
    path takes it for the working folder."""

    def __init__(self, *, exists: bool = False, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(exists=exists, file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value, param, ctx) -> Path:
        if not str(value).strip():
            self.fail("expected the name of a file or folder, got nothing", param, ctx)
        return Path(os.fsdecode(super().convert(value, param, ctx)))


class RegisteredName(click.ParamType):
    """The name of a registered thing. Names are looked up when the option is read, so that plugins' are among them."""

    def __init__(
        self, registry: Registry | Collection[str], kind: str | None = None, also: tuple[str, ...] = ()
    ) -> None:
        self.registry, self.also = registry, also
        self.name = kind or getattr(registry, "kind", "name")

    def names(self) -> list[str]:
        return [*self.also, *self.registry]

    def convert(self, value, param, ctx) -> str:
        if value not in self.names():
            self.fail(unknown_name(self.name, value, self.names()), param, ctx)
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        listed = "|".join(self.names())
        return f"{{{listed}}}" if isinstance(param, click.Argument) else f"[{listed}]"

    def shell_complete(self, ctx, param, incomplete) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]


class Actions(click.ParamType):
    """How many actions there are, or their names."""

    name = "number|A,B,…"

    def convert(self, value, param, ctx) -> int | tuple[str, ...]:
        names = listed(str(value))
        if len(names) > 1 and all(names) and len(set(names)) == len(names):
            return names
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"expected a number above 0, or different names such as A,B,C; got '{value}'", param, ctx)
        return int(value)


class Order(click.ParamType):
    """A column, and its words from least to most."""

    name = "name=low,…,high"

    def convert(self, value, param, ctx) -> tuple[str, tuple[str, ...]]:
        if isinstance(value, tuple):
            return value
        column, equals, words = str(value).partition("=")
        names = listed(words) if words else ()
        if not (column and equals) or len(names) < 2 or len(set(names)) < len(names) or not all(names):
            self.fail(f"expected a column and its words in order, such as pain=low,mid,high; got '{value}'", param, ctx)
        return column.strip(), names


class Duration(click.ParamType):
    """Seconds, from 90s, 5m or 1h."""

    name = "time"

    def convert(self, value, param, ctx) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|)", str(value).strip())
        if match is None or float(match[1]) <= 0:
            self.fail(f"expected a time such as 90s, 5m or 1h, got '{value}'", param, ctx)
        return float(match[1]) * UNITS[match[2]]


def listed(text: str) -> tuple[str, ...]:
    """The names in `A,B,"C, D"`."""
    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []))
