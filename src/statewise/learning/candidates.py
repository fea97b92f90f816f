"""Learning with several algorithms, each in a folder of its own: in turn, or side by side in other processes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from statewise.base.tasks import elsewhere
from statewise.data.dataset import Dataset
from statewise.learning.apart import OutOfTime, Run, learn_apart
from statewise.learning.fit import Progress, fit
from statewise.learning.runs import RunFolder
from statewise.learning.trackers.parquet import write_metrics

FIRST = 2 / 3  # of the time for learning, the share of the first algorithm


@dataclass(frozen=True)
class Stage:
    """What is being done, and how much of it is done."""

    name: str
    done: int
    total: int
    note: str = ""


OnStage = Callable[[Stage], None]


def learn(
    log: Dataset, runs: Mapping[str, Run], deadline: float | None, progress: OnStage
) -> tuple[dict[str, RunFolder], dict[str, str]]:
    """Every algorithm's finished run, by its name; and how far those got that ran out of time.

    `deadline` is when learning should end, by the monotonic clock. Time that the first algorithm does not use goes to
    the others.
    """
    if elsewhere():
        return _side_by_side(log, runs, deadline, progress)
    began = time.monotonic()
    stopped = {}
    for number, (name, run) in enumerate(runs.items()):
        until = None if deadline is None else began + (deadline - began) * (FIRST if number == 0 else 1)
        watch = _watch(name, until, progress)
        try:
            fit(log, run.config, seeds=run.seeds, updates=run.updates, out=run.folder, progress=watch)
        except OutOfTime as out_of_time:
            stopped[name] = str(out_of_time)
    return {name: _finished(run) for name, run in runs.items()}, stopped


def _side_by_side(
    log: Dataset, runs: Mapping[str, Run], deadline: float | None, progress: OnStage
) -> tuple[dict[str, RunFolder], dict[str, str]]:
    """The same, by other processes."""
    seconds = None if deadline is None else deadline - time.monotonic()
    asked = [replace(run, seconds=seconds) for run in runs.values()]
    stopped = {}
    for done, (name, late) in enumerate(zip(runs, learn_apart(log, asked), strict=True), start=1):
        stopped |= {} if late is None else {name: late}
        progress(Stage("learning", done, len(asked), name))
    return {name: _finished(run) for name, run in runs.items()}, stopped


def _finished(run: Run) -> RunFolder:
    folder = RunFolder.open(run.folder)
    write_metrics(folder)
    return folder


def last_policies(runs: Mapping[str, RunFolder]) -> dict[str, Any]:
    """The last policy of every seed, by algorithm, and by seed where there are several."""
    policies = {}
    for name, run in runs.items():
        last = run.last_policies()
        for seed, policy in last.items():
            policies[name if len(last) == 1 else f"{name}, seed {seed}"] = policy
    return policies


def _watch(name: str, until: float | None, progress: OnStage) -> Callable[[Progress], None]:
    """Reports progress, and stops learning at a checkpoint when its time is up."""

    def watch(learned: Progress) -> None:
        # NaN: the algorithm has no critic
        note = "" if math.isnan(learned.value) else f"V̂(s₀) {learned.value:.4g}"
        late = until is not None and time.monotonic() > until and learned.update < learned.updates
        note = "stopped by the time budget" if late else note
        progress(Stage(f"learning with {name}", learned.update, learned.updates, note))
        if late:
            raise OutOfTime(f"{learned.update:,} of {learned.updates:,} updates")

    return watch
