"""The studio's folder: the logs that were given to it, and the runs that were started.

statewise-studio/
  .key                what a browser must show (`guard`)
  .lock               held by the studio that serves this folder
  logs/<id>/          <id>.csv or <id>.parquet as it came, about.json, choices.json
  runs/<id>/          about.json, options.toml, output.txt, .running (locked while a process works on it)
    run/              the run folder of `statewise improve`
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from statewise.base.decode import decode
from statewise.base.files import make_folder, write_text
from statewise.base.jsonfile import read_json

T = TypeVar("T")
ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_ID = 40
ABOUT, CHOICES, KEY = "about.json", "choices.json", ".key"


class StudioError(ValueError):
    """A mistake to be shown on a page, in one sentence."""


class NotThere(StudioError):
    """There is no such page."""


@dataclass(frozen=True)
class Log:
    """A file that was given to the studio."""

    name: str  # as its owner calls it
    file: str  # its name here
    size: int  # bytes
    given: str  # when, in local time
    after: str | None = None  # the run whose policy, or whose advice, it was logged with


@dataclass(frozen=True)
class Run:
    """A run of `statewise improve`: on which logs, oldest first, and how."""

    logs: tuple[str, ...]
    started: str
    preset: str = "default"
    today: str | None = None  # the run whose policy wrote the newest log
    after: str | None = None  # the run of the round before
    wanted: bool = True  # False once it was stopped
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StudioFolder:
    """Where everything is kept. Whatever has no about.json was not finished, and is not there."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> StudioFolder:
        folder = cls(path.resolve())
        for part in (folder.path / "logs", folder.path / "runs"):
            make_folder(part)
        folder.path.chmod(0o700)  # logs are nobody else's business
        return folder

    def key(self) -> str:
        """The secret of this folder, made when it is first asked for."""
        path = self.path / KEY
        if not path.is_file():
            path.touch(0o600)
            write_text(path, secrets.token_urlsafe(24))
            path.chmod(0o600)
        return path.read_text(encoding="utf-8").strip()

    # Logs

    def logs(self) -> dict[str, Log]:
        """By id, the newest first."""
        return dict(sorted(self._all("logs", Log), key=lambda item: item[1].given, reverse=True))

    def log(self, id: str) -> Log:
        return self._one("logs", id, Log, "log")

    def log_name(self, id: str) -> str:
        """As its owner calls it; its id, where it was removed by hand."""
        try:
            return self.log(id).name
        except NotThere:
            return id

    def log_file(self, id: str) -> Path:
        return self.path / "logs" / id / self.log(id).file

    def choices_file(self, id: str) -> Path:
        return self.path / "logs" / id / CHOICES

    # Runs

    def runs(self) -> dict[str, Run]:
        """By id, the newest first."""
        return dict(sorted(self._all("runs", Run), key=lambda item: item[1].started, reverse=True))

    def run(self, id: str) -> Run:
        return self._one("runs", id, Run, "run")

    def run_before(self, id: str) -> Run | None:
        """The run that a log follows; None where it follows none, or where that was removed by hand."""
        after = self.log(id).after
        return self.run(after) if after is not None and after in self.runs() else None

    def run_path(self, id: str) -> Path:
        return self.path / "runs" / id

    # Both

    def new(self, kind: str, name: str) -> tuple[str, Path]:
        """An id that says what it is of, and its folder, which is new."""
        stem = re.sub(r"[^a-z0-9]+", "-", name.lower())[:LONGEST_ID].strip("-") or "log"
        for number in range(1, 100_000):
            id = stem if number == 1 else f"{stem}-{number}"
            try:
                (self.path / kind / id).mkdir()
            except FileExistsError:
                continue
            return id, self.path / kind / id
        raise StudioError(f"there are too many files called {name}")

    def write_about(self, kind: str, id: str, about: Log | Run) -> None:
        write_text(self.path / kind / id / ABOUT, json.dumps(asdict(about), indent=1, ensure_ascii=False))

    def _one(self, kind: str, id: str, type: type[T], word: str) -> T:
        path = self.path / kind / id / ABOUT
        if not ID.fullmatch(id) or not path.is_file():
            raise NotThere(f"there is no {word} '{id}' in this folder")
        return decode(type, read_json(path), f"{kind}/{id}/{ABOUT}")

    def _all(self, kind: str, type: type[T]) -> Iterator[tuple[str, T]]:
        for path in (self.path / kind).iterdir():
            if (path / ABOUT).is_file() and ID.fullmatch(path.name):
                yield path.name, self._one(kind, path.name, type, kind)


def now() -> str:
    """Local time, to the second and to be sorted."""
    return datetime.now().isoformat(timespec="microseconds")
