"""Progress on anything that takes more than a moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from statewise.cli.terminal import messages


class Watch:
    """A bar for what is being done now; where there is no terminal, only the lines that are asked for."""

    def __init__(self, console: Console, title: str = "", total: int | None = None, note: str = ""):
        self.console, self.title, self.began = console, title, time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task(title, total=total, note=note)

    def __enter__(self) -> Watch:
        self.bar.start()
        return self

    def __exit__(self, *_) -> None:
        self.bar.stop()

    def show(self, title: str, done: int, total: int | None, note: str = "") -> None:
        """How much is done; another title begins another bar."""
        if title != self.title:
            self.title, self.began = title, time.monotonic()
            self.bar.reset(self.task, total=total)
        self.bar.update(self.task, completed=done, total=total, description=title, note=note)

    def left(self, done: int, total: int) -> str:
        """How long the rest of this title will take, about; empty where that is nothing, or a second or two."""
        seconds = (time.monotonic() - self.began) * (total - done) / max(done, 1)
        if seconds < 3:
            return ""
        return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"

    def line(self, text: str) -> None:
        """A line for where there is no terminal."""
        if not self.console.is_terminal:
            self.console.print(text)


@contextmanager
def bar(title: str, total: int, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar on standard error; the function it gives takes how much is done."""
    with Watch(messages(quiet=quiet), title, total) as watch:
        yield lambda done: watch.show(title, done, total)
