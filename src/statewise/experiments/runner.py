"""Runs a study's jobs, each a method on one dataset. A finished job is kept as a small file, so a run can be resumed.

    out/
      manifest.json                 the study, settings, seeds, versions, commit, machine, fingerprints, seconds
      logs/CELL/SEED.npz            returns of the log's episodes, its fingerprint
      jobs/CELL/METHOD/SEED.npz     scores [checkpoints, episodes], diagnostics, policies
      evaluations/…                 estimates of checkpoints on further logs (`checkpoints`)

Nothing here needs more than the learning libraries. An accelerator learns from all datasets of a method side by side, a
CPU from one after the other in the same compiled program.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np

from statewise.algorithms import Settings, algorithm_of
from statewise.base.files import make_folder
from statewise.base.lock import locked
from statewise.base.tasks import mapped
from statewise.data.dataset import Dataset
from statewise.domains.source import Earned
from statewise.experiments import manifest, records
from statewise.experiments.logs import log_of, play, plays_apart
from statewise.experiments.records import History
from statewise.experiments.stack import part_of, stack_of, stacked
from statewise.experiments.study import Cell, Method, Study
from statewise.learning.fit import keys_of, prepare
from statewise.learning.program import program, stretches

Notify = Callable[[str], None]


def run(study: Study, out: str | Path, notify: Notify = print) -> None:
    """Runs the jobs of the study that are not done yet."""
    make_folder(out)
    with locked(out):
        _run(study, Path(out), notify)


def _run(study: Study, out: Path, notify: Notify) -> None:
    manifest.begin(out, study)
    for cell in study.cells:
        cell_jobs = [(method, pending(out, study, cell, method)) for method in study.methods]
        cell_jobs = [(method, seeds) for method, seeds in cell_jobs if seeds]
        if not cell_jobs:
            continue
        try:
            logs = _logs(out, study, cell, notify)
        except ImportError as error:  # a world that another package holds
            notify(f"{cell.name}: skipped; {error}")
            continue
        for method, seeds in cell_jobs:
            if method.algorithm == "fitted-q" and find_spec("sklearn") is None:
                where = "run it where that is installed, with the same folder"
                notify(f"{cell.name}, {method.name}: skipped, since it needs scikit-learn; {where}")
                continue
            _run_method(out, study, cell, method, seeds, logs, notify)
    manifest.write(out, study)


def pending(out: Path, study: Study, cell: Cell, method: Method) -> list[int]:
    """The datasets whose jobs are not done yet."""
    expected = identity(study, cell, method)
    return [seed for seed in study.datasets if not records.is_done(out, cell, method, seed, expected)]


def identity(study: Study, cell: Cell, method: Method) -> str:
    """Everything but the seed that decides what a job's file holds."""
    config = study.config(cell, method)
    decisive = {
        "algorithm": type(config).__name__,
        "config": asdict(config),
        "log": [cell.domain, cell.episodes, cell.lean, *(["gain"] if cell.gain else [])],
        "every": study.stride(method),
        "score_episodes": study.score_episodes,
    }
    return json.dumps(decisive, sort_keys=True)


def _logs(out: Path, study: Study, cell: Cell, notify: Notify) -> dict[int, Dataset]:
    """Every dataset of the cell, those of finished jobs too: the longest decides the size of a stack."""
    notify(f"{cell.name}: collecting {len(study.datasets)} logs of {cell.episodes:,} episodes")
    logs = {seed: log_of(cell, seed) for seed in study.datasets}
    for seed, data in logs.items():
        records.write_log(out, cell, seed, data)
    return logs


def _run_method(
    out: Path, study: Study, cell: Cell, method: Method, seeds: list[int], logs: Mapping[int, Dataset], notify: Notify
) -> None:
    """Runs the given seeds in one compiled program, or in two where some logs have a clock and some have not."""
    config = study.config(cell, method)
    prepared = {seed: prepare(config, data) for seed, data in logs.items()}
    kinds = {seed: stack_of(data) for seed, (data, _) in prepared.items()}
    for kind in sorted(set(kinds.values())):
        here = [seed for seed in seeds if kinds[seed] == kind]
        if here:
            alike = {seed: one for seed, one in prepared.items() if kinds[seed] == kind}
            _run_alike(out, study, cell, method, here, logs, Learner(config, alike), notify)


def _run_alike(
    out: Path,
    study: Study,
    cell: Cell,
    method: Method,
    seeds: list[int],
    logs: Mapping[int, Dataset],
    learn: Learner,
    notify: Notify,
) -> None:
    """On an accelerator all seeds at once."""
    stride = study.stride(method)
    made_by = identity(study, cell, method)

    def job(group: list[int]) -> tuple[list[History], Earned, dict[str, float]]:
        began = time.perf_counter()
        histories = learn(group, stride)
        learned = time.perf_counter()
        earned = _played(study, cell, group, histories)
        seconds = {"learning": learned - began, "scoring": time.perf_counter() - learned}
        return histories, earned, {name: one / len(group) for name, one in seconds.items()}

    groups = [seeds] if learn.together else [[seed] for seed in seeds]
    for group, (histories, earned, seconds) in zip(groups, mapped(job, groups), strict=True):
        count, last_scores = len(histories[0].policies), []
        for i, (seed, history) in enumerate(zip(group, histories, strict=True)):
            scores = Earned(*(values[i * count : (i + 1) * count] for values in earned))
            kept = history if study.kind == "selection" else history._replace(policies=history.policies[-1:])
            records.write_job(out, cell, method, seed, made_by, logs[seed].fingerprint, kept, scores, seconds)
            last_scores.append(getattr(scores, study.measure)[-1].mean())
        datasets, earnings = ", ".join(map(str, group)), ", ".join(f"{score:.4g}" for score in last_scores)
        taken = len(group) * sum(seconds.values())
        notify(f"{cell.name}, {method.name}, dataset {datasets}: last iterate {earnings} ({taken:.0f} s)")


def _played(study: Study, cell: Cell, seeds: list[int], histories: list[History]) -> Earned:
    """What the policies of all histories earn, in order; an accelerator plays them together where it can."""
    if not plays_apart(cell):
        policies = [policy for history in histories for policy in history.policies]
        return play(cell, policies, study.score_episodes, seeds[0])
    each = [
        play(cell, history.policies, study.score_episodes, seed) for seed, history in zip(seeds, histories, strict=True)
    ]
    return Earned(*(np.concatenate(values) for values in zip(*each, strict=True)))


class Learner:
    """An algorithm on all logs of a cell, one log to a run."""

    def __init__(self, config: Settings, prepared: Mapping[int, tuple[Any, Any]]):
        self.config, self.order = config, list(prepared)
        self.compiled = algorithm_of(config).compiled
        self.together = self.compiled and jax.default_backend() != "cpu"  # runs are faster side by side
        self.views = [view for _, view in prepared.values()]
        self.data = [data for data, _ in prepared.values()]
        if self.compiled:
            self.data = stacked(self.data)

    def __call__(self, seeds: Sequence[int], stride: int) -> list[History]:
        """One history per seed."""
        places = [self.order.index(seed) for seed in seeds]
        views = [self.views[place] for place in places]
        data = part_of(self.data, places) if self.compiled else [self.data[place] for place in places]
        running = program(self.config, data, keys_of(seeds), apart=True)
        states = running.begin()
        policies, updates = [running.policies(states, views)], [0]
        diagnostics = [{name: np.full(len(seeds), np.nan) for name in records.DIAGNOSTICS}]
        finite: list[np.ndarray] = [np.ones(len(seeds), bool)]
        for stretch in stretches(running, states, 0, self.config.updates, stride):
            policies.append(running.policies(stretch.states, views))
            updates.append(stretch.done)
            diagnostics.append({name: getattr(stretch.metrics, name)[:, -1] for name in records.DIAGNOSTICS})
            finite.append(np.all(np.asarray(stretch.metrics.finite), axis=(1, 2)))
        return [
            History(
                [at_checkpoint[i] for at_checkpoint in policies],
                np.array(updates),
                np.logical_and.accumulate([at_checkpoint[i] for at_checkpoint in finite]),
                {
                    name: np.array([at_checkpoint[name][i] for at_checkpoint in diagnostics])
                    for name in records.DIAGNOSTICS
                },
            )
            for i in range(len(seeds))
        ]
