"""How commands speak: answers on standard output, notes on standard error, tables, colours, JSON for machines."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from statewise.base.jsonable import jsonable
from statewise.cli.flags import with_flags
from statewise.cli.harmless import Harmless

NARROWEST = 80  # tables need so many columns
COLOURS = {
    "supported": "green",
    "weak": "yellow",
    "not identified": "red",
    "deploy": "bold green",
    "do not deploy": "bold red",
    "collect more data": "bold yellow",
}


def answers(*, wide: bool = False) -> Console:
    """Standard output; `wide`: never too narrow for a table."""
    console = _console()
    if wide:
        console.width = max(console.width, NARROWEST)
    return console


def messages(*, quiet: bool = False) -> Console:
    """Standard error, for notes and progress."""
    return _console(stderr=True, quiet=quiet)


def _console(**options: Any) -> Console:
    console = Console(highlight=False, **options)
    console.push_render_hook(Harmless())
    return console


def note(console: Console, text: str) -> None:
    """Something to know before believing the answer."""
    console.print(Text.assemble(("note  ", "bold yellow"), text))


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Shows this package's own warnings as notes, without the line of code that Python would add."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if category.__module__.startswith("statewise."):
            note(messages(), with_flags(str(message)))
        else:
            usual(message, category, *place, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = usual


def table(titles: Sequence[str] = (), left: Sequence[str] = (), **options: Any) -> Table:
    """Without lines; columns are set right but for those in `left`. Without titles there is no header."""
    made = Table(box=None, header_style="bold", pad_edge=True, show_header=bool(titles))
    for title in titles:
        made.add_column(title, justify="left" if title in left else "right", **options)
    return made


def coloured(outcome: str) -> Text:
    """A verdict or an answer in its colour."""
    return Text.assemble((outcome, COLOURS[outcome.lower()]))


def echo_json(value: Any, indent: int | None = None) -> None:
    """Prints for a machine."""
    click.echo(json.dumps(jsonable(value), indent=indent))
