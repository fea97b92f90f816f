"""Runs that are learned side by side by other processes, each in a folder of its own, whose files then come back.

The other process may be on a machine that does not see the folder: it gets what the folder holds, so that it resumes
there, and sends back what it has written.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from statewise.algorithms import Settings
from statewise.base.files import make_folder, remove, written_whole
from statewise.base.tasks import mapped
from statewise.data.dataset import Dataset
from statewise.learning.fit import Progress, fit
from statewise.learning.runs import RunFolder

LAST = "state-"  # states are written after all else, since they mark what is complete


class OutOfTime(Exception):
    """The time for learning is up; what was learned so far is kept."""


@dataclass(frozen=True)
class Run:
    """What is to be learned, and where it is kept."""

    config: Settings
    seeds: tuple[int, ...]
    updates: int | None
    folder: Path
    seconds: float | None = None  # that it may take


def learn_apart(dataset: Dataset, runs: Sequence[Run]) -> Iterator[str | None]:
    """Learns all of them, wherever parts are computed; gives how far each came whose time was up."""
    begun = ((run, _files(run.folder)) for run in runs)
    for run, (files, stopped) in zip(runs, mapped(lambda part: _learned(dataset, *part), begun), strict=True):
        _write(files, RunFolder.create(run.folder).path)
        yield stopped


def _learned(dataset: Dataset, run: Run, files: dict[str, bytes]) -> tuple[dict[str, bytes], str | None]:
    until, stopped = None if run.seconds is None else time.monotonic() + run.seconds, None

    def watch(learned: Progress) -> None:
        if until is not None and time.monotonic() > until and learned.update < learned.updates:
            raise OutOfTime(f"{learned.update:,} of {learned.updates:,} updates")

    with TemporaryDirectory() as folder:
        _write(files, Path(folder))
        try:
            # in one process: others learn at the same time
            fit(dataset, run.config, seeds=run.seeds, updates=run.updates, out=folder, progress=watch, processes=1)
        except OutOfTime as out_of_time:
            stopped = str(out_of_time)
        return _files(Path(folder)), stopped


def _files(folder: Path) -> dict[str, bytes]:
    """What `fit` keeps in a folder."""
    paths = [folder / "manifest.json", folder / "metrics.npz", *sorted((folder / "checkpoints").glob("*"))]
    paths = [path for path in paths if path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _write(files: dict[str, bytes], folder: Path) -> None:
    for name in sorted(files, key=lambda name: (name != "manifest.json", LAST in name)):
        make_folder((folder / name).parent)
        with written_whole(folder / name) as part:
            part.write_bytes(files[name])
    older = (folder / "checkpoints").glob(f"{LAST}*.npz")
    remove(*(path for path in older if path.relative_to(folder).as_posix() not in files))
