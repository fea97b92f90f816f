"""Runs a study's jobs, each a method on one dataset, and keeps every finished one as a small file: it can go on.

    out/
      manifest.json                 the study, settings, seeds, versions, commit, machine, fingerprints, seconds
      logs/CELL/SEED.npz            what the log itself says: returns of its episodes, its fingerprint
      jobs/CELL/METHOD/SEED.npz     scores [checkpoints, episodes], diagnostics, policies
      evaluations/…                 what further logs say of checkpoints (`selection`)

Nothing here needs more than the learning libraries. On an accelerator all datasets of a method learn side by side; on a
CPU one after the other, in the same compiled program.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import jax
import numpy as np

from statewise.algorithms import Settings, algorithm_of
from statewise.data.dataset import Dataset
from statewise.domains.source import Earned
from statewise.experiments import records
from statewise.experiments.logs import log_of, played
from statewise.experiments.records import Way
from statewise.experiments.stack import part_of, stacked
from statewise.experiments.study import Cell, Method, Study
from statewise.learning.fit import keys_of, prepare
from statewise.learning.program import program, stretches

Tell = Callable[[str], None]


def run(study: Study, out: str | Path, tell: Tell = print) -> None:
    """Does what is not yet done of the study."""
    out = Path(out)
    records.begin(out, study)
    for cell in study.cells:
        cell_jobs = [(method, pending(out, study, cell, method)) for method in study.methods]
        cell_jobs = [(method, seeds) for method, seeds in cell_jobs if seeds]
        if not cell_jobs:
            continue
        logs = _logs(out, study, cell, tell)
        for method, seeds in cell_jobs:
            if method.algorithm == "fitted-q" and find_spec("sklearn") is None:
                tell(f"{cell.name}, {method.name}: left out, it needs scikit-learn (run it elsewhere, same folder)")
                continue
            _run_method(out, study, cell, method, seeds, logs, tell)
    records.finish(out, study)


def pending(out: Path, study: Study, cell: Cell, method: Method) -> list[int]:
    """The datasets whose jobs are not done."""
    wanted = identity(study, cell, method)
    return [seed for seed in study.datasets if not records.is_done(out, cell, method, seed, wanted)]


def identity(study: Study, cell: Cell, method: Method) -> str:
    """All that decides what a job's file holds, but its seed."""
    config = study.config(cell, method)
    told = {
        "algorithm": type(config).__name__,
        "config": asdict(config),
        "log": [cell.domain, cell.episodes, cell.lean],
        "every": study.stride(method),
        "score_episodes": study.score_episodes,
    }
    return json.dumps(told, sort_keys=True)


def _logs(out: Path, study: Study, cell: Cell, tell: Tell) -> dict[int, Dataset]:
    """Every dataset of the cell, also of jobs that are done: their lengths decide the size of a stack."""
    tell(f"{cell.name}: collecting {len(study.datasets)} logs of {cell.episodes:,} episodes")
    logs = {seed: log_of(cell, seed) for seed in study.datasets}
    for seed, data in logs.items():
        records.write_log(out, cell, seed, data)
    return logs


def _run_method(
    out: Path, study: Study, cell: Cell, method: Method, seeds: list[int], logs: Mapping[int, Dataset], tell: Tell
) -> None:
    """Runs the seeds that are not done: in one program, and on an accelerator all at once."""
    config, stride = study.config(cell, method), study.stride(method)
    learn = _Learner(config, logs)
    alone = not learn.compiled or jax.default_backend() == "cpu"
    made_by = identity(study, cell, method)
    for group in [[seed] for seed in seeds] if alone else [seeds]:
        begun = time.perf_counter()
        ways = learn(group, stride)
        learned = time.perf_counter()
        earned = played(cell, [policy for way in ways for policy in way.policies], study.score_episodes)
        seconds = {"learning": (learned - begun) / len(group)}
        seconds["scoring"] = (time.perf_counter() - learned) / len(group)
        count, ends = len(ways[0].policies), []
        for i, (seed, way) in enumerate(zip(group, ways, strict=True)):
            scores = Earned(*(values[i * count : (i + 1) * count] for values in earned))
            kept = way if study.kind == "selection" else way._replace(policies=way.policies[-1:])
            records.write_job(out, cell, method, seed, made_by, logs[seed].fingerprint, kept, scores, seconds)
            ends.append(getattr(scores, study.measure)[-1].mean())
        numbers, words = ", ".join(map(str, group)), ", ".join(f"{value:.4g}" for value in ends)
        taken = time.perf_counter() - begun
        tell(f"{cell.name}, {method.name}, dataset {numbers}: last iterate {words} ({taken:.0f} s)")


class _Learner:
    """An algorithm on all logs of a cell; each run has its own."""

    def __init__(self, config: Settings, logs: Mapping[int, Dataset]):
        self.config, self.order = config, list(logs)
        self.compiled = algorithm_of(config).compiled
        prepared = [prepare(config, data) for data in logs.values()]
        self.views = [view for _, view in prepared]
        self.data = [data for data, _ in prepared]
        if self.compiled:
            self.data = stacked(self.data)

    def __call__(self, seeds: Sequence[int], stride: int) -> list[Way]:
        """One way a seed."""
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
            Way(
                [at_checkpoint[i] for at_checkpoint in policies],
                np.array(updates),
                np.logical_and.accumulate([at_checkpoint[i] for at_checkpoint in finite]),
                {name: np.array([one[name][i] for one in diagnostics]) for name in records.DIAGNOSTICS},
            )
            for i in range(len(seeds))
        ]
