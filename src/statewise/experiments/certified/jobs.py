"""Runs a study of what logs certify, one log or one run of rounds to a job; in one process or in many.

    out/jobs/CELL/SEED.json                 rows, one a round; settings, fingerprints of the logs, machine and commit
    out/learned/CELL/SEED/ALGORITHM.safetensors    what was learned from a log, to certify it elsewhere or again
    out/policies/CELL/SEED/1.safetensors    what round 1 deployed, to resume the run after it

A log that is done is not run again, and a run of rounds is resumed after its last finished round. On an accelerator
several processes certify, while one learns from all logs together. Nothing here needs more than the learning libraries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from statewise.base.files import make_folder, write_text
from statewise.base.jsonfile import read_json
from statewise.base.lock import locked
from statewise.base.tasks import mapped
from statewise.data.dataset import Dataset
from statewise.domains import DOMAINS
from statewise.domains.rounds import Decided, Turn, turns
from statewise.domains.source import Earned, Exact, Family
from statewise.experiments import manifest, provenance, records
from statewise.experiments.certified.answer import answer
from statewise.experiments.processes import side_by_side
from statewise.experiments.study import Cell, Study
from statewise.experiments.together import Notify, accelerated, apart, each_apart, together
from statewise.learning.runs import RunError
from statewise.policies.files import load_policy

TRUTH = 10_000  # added to a log's seed: by which episodes the truth is known

Row = dict[str, Any]


class Job(NamedTuple):
    """A log of a cell, or a run of rounds."""

    cell: Cell
    seed: int

    def path(self, out: Path) -> Path:
        return out / "jobs" / records.slug(self.cell.name) / f"{self.seed}.json"

    def learned_path(self, out: Path) -> Path:
        return out / "learned" / records.slug(self.cell.name) / str(self.seed)

    def policy_path(self, out: Path, number: int) -> Path:
        return out / "policies" / records.slug(self.cell.name) / str(self.seed) / f"{number}.safetensors"


def jobs(study: Study) -> Iterator[Job]:
    """The first seed of every cell comes first, so that a study that is stopped early has something of each."""
    for number in range(max(len(study.seeds_of(cell)) for cell in study.cells)):
        for cell in study.cells:
            for seed in study.seeds_of(cell)[number : number + 1]:
                yield Job(cell, seed)


def run(study: Study, out: Path, notify: Notify, processes: int = 1) -> None:
    """Runs the jobs that are not done yet."""
    make_folder(out)
    with locked(out):
        manifest.begin(out, study)
        left = [job for job in jobs(study) if len(rows_of(study, job, out)) < study.rounds]
        notify(f"{study.name}: {len(left)} {'runs' if study.kind == 'rounds' else 'logs'} left to run")
        solve = partial(solve_job, study, out)
        if processes == 1:
            solved = mapped(solve, left)
        elif accelerated():
            solved = together(solve, left, processes, notify)
        else:
            solved = side_by_side(solve, left, processes)
        for number, (job, record) in enumerate(solved, start=1):
            if isinstance(record, str):
                notify(f"{number} of {len(left)}: {job.cell.name}, {job.seed}: skipped; {record}")
                continue
            write_record(job.path(out), record)  # again, if rounds were written where they were run
            notify(f"{number} of {len(left)}: {_line(job, record['rows'])}")
        manifest.write(out, study)


def rows_of(study: Study, job: Job, out: Path) -> list[Row]:
    """The rows that are done; a file made with other settings is refused, never mixed in."""
    path = job.path(out)
    if not path.is_file():
        return []
    record = read_record(path)
    if record["identity"] != identity(study, job.cell):
        raise RunError(f"{path}: made with other settings; choose another folder")
    return record["rows"]


def read_record(path: Path) -> dict[str, Any]:
    try:
        record = read_json(path)
    except ValueError as error:
        raise RunError(f"{path}: it is damaged ({error})") from error
    if not isinstance(record, dict) or not isinstance(record.get("rows"), list):
        raise RunError(f"{path}: expected rows, and what they were made with")
    return record


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    make_folder(path.parent)
    write_text(path, json.dumps(record, indent=1))


def identity(study: Study, cell: Cell) -> str:
    """Everything but the seed and the number of rounds that decides what a job's file holds."""
    decisive = {
        "kind": study.kind,
        "settings": {name: asdict(config) for name, config in _settings(study, cell).items()},
        "log": [cell.domain, cell.episodes],
        "score_episodes": study.score_episodes,
    }
    return json.dumps(decisive, sort_keys=True)


def solve_job(study: Study, out: Path, job: Job) -> tuple[Job, dict[str, Any] | str]:
    """The job's record; or what it needs, where that is not installed."""
    try:
        return job, (_rounds if study.kind == "rounds" else _certified)(study, out, job)
    except ImportError as error:
        return job, str(error)


def _certified(study: Study, out: Path, job: Job) -> dict[str, Any]:
    cell, seed = job
    source = _source(job)
    log = apart(_logged, job)
    found = answer((log,), _settings(study, cell), discount=source.discount, kept=job.learned_path(out))
    certificate = found.certificate
    today, value, goal = _worth(job, (None, certificate.policy, certificate.goal_policy), study.score_episodes)
    row = {
        "cell": cell.name,
        "seed": seed,
        "answer": certificate.answer,
        "candidate": certificate.candidate,
        "step": certificate.step,
        "low": None if certificate.policy is None else certificate.low,
        "today": today,
        "value": value,
        "goal": goal,
        "best": source.best if isinstance(source, Exact) else None,
        "tried": [[step.step, step.decision.verdict, step.passed] for step in certificate.tried],
        "learning_s": found.learning_s,
        "certifying_s": found.certifying_s,
    }
    return _record(study, cell, [row], [log.fingerprint])


def _source(job: Job) -> Any:
    source = DOMAINS[job.cell.domain]
    return source.problem(job.seed) if isinstance(source, Family) else source


def _logged(job: Job) -> Dataset:
    return _source(job).collect(job.cell.episodes, job.seed)


def _worth(job: Job, policies: Sequence[Any], episodes: int) -> list[float]:
    """What each policy earns, all with the same random numbers; None: the world's own behaviour."""
    different = {id(policy): policy for policy in policies}  # today's may be the one deployed
    earned = each_apart(_worth_of, [(job, policy, episodes) for policy in different.values()])
    return [dict(zip(different, earned, strict=True))[id(policy)] for policy in policies]


def _worth_of(job: Job, policy: Any, episodes: int) -> float:
    return float(_source(job).play([policy], episodes, TRUTH + job.seed).discounted.mean())


def _rounds(study: Study, out: Path, job: Job) -> dict[str, Any]:
    cell, seed = job
    settings, source = _settings(study, cell), DOMAINS[cell.domain]
    world = source if isinstance(source, Exact | Family) else Elsewhere(cell.domain)
    rows, done = _resumed(study, out, job)
    fingerprints = list(read_record(job.path(out))["fingerprints"]) if rows else []

    def decide(number: int, logs: tuple[Dataset, ...], today: Any) -> Decided:
        return answer(logs, settings, discount=source.discount, today=today).certificate

    began = time.perf_counter()
    simulated = turns(
        world,
        decide,
        rounds=study.rounds,
        episodes=cell.episodes,
        seed=seed,
        played=study.score_episodes,
        done=done,
    )
    for turn in simulated:
        now = time.perf_counter()
        rows.append({"domain": cell.domain, "seed": seed, **_row(turn), "seconds": now - began})
        fingerprints.append(turn.log.fingerprint)
        began = now
        if turn.decided.policy is not None:
            path = job.policy_path(out, turn.number)
            make_folder(path.parent)
            turn.decided.policy.save(path)
        write_record(job.path(out), _record(study, cell, rows, fingerprints))
    return _record(study, cell, rows, fingerprints)


class Elsewhere(NamedTuple):
    """A simulated world whose episodes are played by other processes, where jobs learn together."""

    domain: str

    def collect(self, episodes: int, seed: int, *, act: Any) -> Dataset:
        return apart(_collected, self.domain, episodes, seed, act)

    def play(self, policies: Sequence[Any], episodes: int, seed: int) -> Earned:
        earned = each_apart(_played, [(self.domain, policy, episodes, seed) for policy in policies])
        return Earned(*map(np.concatenate, zip(*earned, strict=True)))


def _collected(domain: str, episodes: int, seed: int, act: Any) -> Dataset:
    return DOMAINS[domain].collect(episodes, seed, act=act)


def _played(domain: str, policy: Any, episodes: int, seed: int) -> Earned:
    return DOMAINS[domain].play([policy], episodes, seed)


def _row(turn: Turn) -> Row:
    found = turn.decided
    deployed = found.policy is not None
    return {
        "round": turn.number,
        "today": turn.today,
        "deployed": deployed,
        "candidate": found.candidate,
        "way": found.way,
        "step": found.step,
        "low": found.low if deployed else None,
        "value": turn.value,
        "goal": turn.goal,
    }


def _resumed(study: Study, out: Path, job: Job) -> tuple[list[Row], list[Any]]:
    """The rows of the rounds that are done, and what they deployed; none where such a policy was not kept."""
    rows = rows_of(study, job, out)
    paths = [job.policy_path(out, row["round"]) if row["deployed"] else None for row in rows]
    if not all(path is None or path.is_file() for path in paths):
        return [], []
    return rows, [None if path is None else load_policy(path) for path in paths]


def _settings(study: Study, cell: Cell) -> dict[str, Any]:
    return {method.algorithm: study.config(cell, method) for method in study.methods}


def _record(study: Study, cell: Cell, rows: list[Row], fingerprints: list[str]) -> dict[str, Any]:
    made_with = {"commit": provenance.commit(), **provenance.machine()}
    return {"rows": rows, "identity": identity(study, cell), "fingerprints": fingerprints, **made_with}


def _line(job: Job, rows: list[Row]) -> str:
    last = rows[-1]
    if "round" in last:
        return f"{job.cell.name}, run {job.seed}: {rows[0]['today']:.4g} → {last['value']:.4g} in {len(rows)} rounds"
    gain = "nothing certified" if last["low"] is None else f"{last['value']:.4g}, {last['low']:.4g} more certified"
    return f"{job.cell.name}, log {job.seed}: {last['today']:.4g} → {gain}"
