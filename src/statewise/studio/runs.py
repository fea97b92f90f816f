"""Runs of the studio: each is `statewise improve` in a process of its own, and its state is what its files say.

The process holds a lock on `.running` that it inherits from the studio, so that any later studio knows whether it still
works, whatever became of the one that started it. `improve` resumes where it was interrupted.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from statewise.base.files import write_text
from statewise.base.harmless import harmless
from statewise.base.lock import claim
from statewise.data.schema import Schema
from statewise.studio.folder import NotThere, Run, StudioError, StudioFolder, now
from statewise.studio.reading import reading_of

OPTIONS, OUTPUT, RUNNING, RUN = "options.toml", "output.txt", ".running", "run"
STAGE = re.compile(r"^(?P<name>propensities|certifying|learning with [^:]+): (?P<done>[\d,]+) of (?P<total>[\d,]+)")
TAIL = 100_000  # bytes of the output that are looked at
ENDING = 10.0  # seconds for a run to end
WIDE = "400"  # columns, so that no line is broken

State = Literal["running", "finished", "failed", "stopped", "interrupted"]


@dataclass(frozen=True)
class Stage:
    """A part of the work, and how much of it is done."""

    name: str
    done: int
    total: int

    @property
    def share(self) -> float:
        return self.done / max(1, self.total)


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    state: State
    stages: tuple[Stage, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""  # the sentence that it ended with


class Runs:
    """Starts, watches and stops the runs of a folder, one at a time."""

    def __init__(
        self, folder: StudioFolder, options_of: Callable[[Schema], str], settings: Mapping[str, Any] | None = None
    ):
        """`options_of` writes how a log is read as options of `improve`, in TOML; `settings` are those of every run."""
        self.folder, self.options_of, self.settings = folder, options_of, dict(settings or {})
        self.processes: dict[str, subprocess.Popen] = {}
        self.guard = threading.RLock()

    # What is asked for

    def start(self, logs: tuple[str, ...], **about: Any) -> str:
        """Begins a new run, whose id it gives; the newest log is the last."""
        reading = reading_of(self.folder, logs[0])
        if reading.schema is None:
            raise StudioError("this log cannot be used yet: first fix what its page lists")
        with self.guard:
            self._alone()
            name = self.folder.log(logs[-1]).name.rpartition(".")[0]
            id, place = self.folder.new("runs", name)
            run = Run(logs=logs, started=now(), **about)
            options = tomllib.loads(self.options_of(reading.schema)) | {"preset": run.preset} | run.settings
            write_text(place / OPTIONS, _toml(options | self.settings))
            self.folder.write_about("runs", id, run)
            self._work(id)
        return id

    def resume(self, id: str) -> None:
        with self.guard:
            if self.is_running(id):
                return
            self._alone()
            self.folder.write_about("runs", id, replace(self.folder.run(id), wanted=True))
            self._work(id)

    def stop(self, id: str) -> None:
        """Ends the run's process; what it has learned so far is kept."""
        with self.guard:
            self.folder.write_about("runs", id, replace(self.folder.run(id), wanted=False))
            self._end(id)

    def resume_interrupted(self) -> None:
        """Goes on with what an earlier studio was at when it ended, unless it goes on by itself."""
        for id in self.folder.runs():
            if self.progress(id).state == "interrupted":
                with suppress(StudioError):  # one at a time
                    self.resume(id)

    def close(self) -> None:
        """Ends what this studio started; the next one resumes it."""
        with self.guard:
            for id in list(self.processes):
                self._end(id)

    # What can be seen

    def is_running(self, id: str) -> bool:
        process = self.processes.get(id)
        if process is not None and process.poll() is None:
            return True
        self.processes.pop(id, None)
        try:
            handle = os.open(self.folder.run_path(id) / RUNNING, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            return claim(handle) is False
        finally:
            os.close(handle)

    def running(self) -> str | None:
        """The run that is being worked on."""
        return next((id for id in self.folder.runs() if self.is_running(id)), None)

    def progress(self, id: str) -> Progress:
        run, place = self.folder.run(id), self.folder.run_path(id)
        running, output = self.is_running(id), _tail(place / OUTPUT)
        stages, notes, error = _said(output)
        if running:
            return Progress("running", stages, notes)
        if (place / RUN / "report.html").is_file():
            return Progress("finished", stages, notes)
        if error:
            return Progress("failed", stages, notes, error)
        return Progress("interrupted" if run.wanted else "stopped", stages, notes)

    def planned(self, id: str) -> list[str]:
        """The stages that the run goes through, as its command line calls them."""
        from statewise.improvement import Plan  # it waits for JAX, which a first page need not

        options = tomllib.loads((self.folder.run_path(id) / OPTIONS).read_text(encoding="utf-8"))
        learners = (options.get("algorithm", "opposd"), *options.get("beside", Plan.beside))
        learning = [f"learning with {name}" for name in dict.fromkeys(learners)]
        return ["propensities"] * (options.get("propensity") == "estimate") + [*learning, "certifying"]

    def file(self, id: str, name: str) -> Path:
        """A file of the run that may be downloaded."""
        self.folder.run(id)
        path = self.folder.run_path(id) / RUN / name
        if not path.is_file():
            raise NotThere(f"this run has no {name}")
        return path

    # The process

    def _alone(self) -> None:
        busy = self.running()
        if busy is not None:
            raise StudioError("another run is in progress: wait until it has finished, or stop it first")

    def _command(self, id: str) -> list[str]:
        run, place = self.folder.run(id), self.folder.run_path(id)
        files = [str(self.folder.log_file(log)) for log in run.logs]
        today = [] if run.today is None else ["--today", str(self.file(run.today, "policy.safetensors"))]
        options = ["--config", str(place / OPTIONS), "--out", str(place / RUN), *today]
        return [sys.executable, "-m", "statewise", "improve", *files, *options]

    def _work(self, id: str) -> None:
        command, place = self._command(id), self.folder.run_path(id)
        lock = os.open(place / RUNNING, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if claim(lock) is False:
                return
            os.set_inheritable(lock, True)
            with (place / OUTPUT).open("wb") as output:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "COLUMNS": WIDE, "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"},
                    pass_fds=(lock,) if os.name != "nt" else (),
                    start_new_session=True,
                )
            os.ftruncate(lock, 0)
            os.write(lock, str(process.pid).encode())
            self.processes[id] = process
        finally:
            os.close(lock)

    def _end(self, id: str) -> None:
        process = self.processes.get(id)
        pid = process.pid if process is not None else self._pid(id)
        deadline = time.monotonic() + ENDING
        while pid is not None and self.is_running(id):
            late = time.monotonic() > deadline
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
            time.sleep(0.05)
        self.processes.pop(id, None)

    def _pid(self, id: str) -> int | None:
        """The process that holds the lock, which therefore lives; None where it is not known."""
        try:
            text = (self.folder.run_path(id) / RUNNING).read_text()
        except FileNotFoundError:
            return None
        return int(text) if self.is_running(id) and text.isdecimal() else None


def _toml(options: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {_toml_value(value)}\n" for name, value in options.items())


def _toml_value(value: Any) -> str:
    """Tables inline; everything else is written as JSON writes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml_value(each)}" for name, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            return file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _said(output: str) -> tuple[tuple[Stage, ...], tuple[str, ...], str]:
    """Stages, notes and the error in what the command line printed."""
    stages: dict[str, Stage] = {}
    notes, error = [], ""
    for line in map(str.rstrip, output.splitlines()):
        found = STAGE.match(line)
        if line.startswith("note  "):
            notes.append(harmless(line.removeprefix("note  ")))
        elif line.startswith("Error: "):
            error = harmless(line.removeprefix("Error: "))
        elif found:
            done, total = (int(found[key].replace(",", "")) for key in ("done", "total"))
            stages[found["name"]] = Stage(harmless(found["name"]), done, total)
    return tuple(stages.values()), tuple(notes), error
