"""Runs a study of safe policy improvement: blocks of logs, each with its files, in one process or in many.

    out/blocks/CELL/METHOD/FIRST-LAST.npz    seeds, exact values, whether the behaviour was kept, seconds
    out/blocks/CELL/METHOD/FIRST-LAST.json   machine, versions and commit

A block that is done is not run again. Nothing here needs more than the learning libraries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from statewise.base.files import write_text
from statewise.base.tasks import mapped
from statewise.domains import DOMAINS
from statewise.domains.source import Exact, Family
from statewise.domains.tabular import Policy
from statewise.experiments import manifest, provenance, records
from statewise.experiments.processes import side_by_side
from statewise.experiments.runner import identity
from statewise.experiments.safe import METHODS
from statewise.experiments.safe.finite_log import FiniteLog
from statewise.experiments.study import Cell, Method, Study
from statewise.experiments.together import Asked, Notify, accelerated, in_this_process, learned, together
from statewise.learning.runs import RunError

# Logs of a block. Those of a learner are stacked, and share a compiled program; a certificate takes long by itself
TABULAR_BLOCK, LEARNING_BLOCK, CERTIFIED_BLOCK = 50, 10, 1


class Block(NamedTuple):
    """A method on some logs of a cell."""

    cell: Cell
    method: Method
    seeds: tuple[int, ...]

    def path(self, out: Path) -> Path:
        folder = out / "blocks" / records.slug(self.cell.name) / records.slug(self.method.name)
        return folder / f"{self.seeds[0]}-{self.seeds[-1]}.npz"


class Outcome(NamedTuple):
    """A policy for one log, None where the behaviour is kept, and how long it took to find."""

    policy: Policy | None
    seconds: float


def run(study: Study, out: Path, notify: Notify, processes: int = 1) -> None:
    """Runs the blocks that are not done yet."""
    manifest.begin(out, study)
    left = [block for block in blocks(study) if not _done(study, block, out)]
    notify(f"{study.name}: {len(left)} blocks of logs left to run")
    if processes == 1:
        solved = mapped(partial(solve_block, study), left)
        for number, (block, (arrays, seconds)) in enumerate(zip(left, solved, strict=True), start=1):
            notify(f"{number} of {len(left)}: {_write(block, arrays, seconds, out)}")
    elif accelerated():
        for line in together(partial(run_block, study, out), left, processes, notify):
            notify(line)
    elif left:
        for lines in side_by_side(partial(_run_blocks, study, out), _alike(left), processes):
            for line in lines:
                notify(line)
    manifest.write(out, study)


def _run_blocks(study: Study, out: Path, group: Sequence[Block]) -> list[str]:
    return in_this_process(partial(run_block, study, out), group)


def _alike(left: Sequence[Block]) -> list[list[Block]]:
    """Blocks of the same logs, or of which each learns from one like the others', in the order of their first."""
    groups: dict[tuple[str, int, int], list[Block]] = {}
    for block in left:
        size = max(_size(block.method), LEARNING_BLOCK)
        groups.setdefault((block.cell.name, size, block.seeds[0] // size), []).append(block)
    return list(groups.values())


def blocks(study: Study) -> Iterator[Block]:
    """What takes longest comes first. The same seeds follow one another, since making a random problem takes long."""
    for size in (CERTIFIED_BLOCK, LEARNING_BLOCK, TABULAR_BLOCK):
        methods = [method for method in study.methods if _size(method) == size]
        for first in range(0, len(study.datasets), size):
            for cell in study.cells:
                for method in methods:
                    seeds = study.datasets_of(method)[first : first + size]
                    if seeds:
                        yield Block(cell, method, seeds)


def run_block(study: Study, out: Path, block: Block) -> str:
    """Writes the block's files; returns a line about it."""
    return _write(block, *solve_block(study, block), out)


def solve_block(study: Study, block: Block) -> tuple[dict[str, Any], float]:
    """What the block's file holds, and the seconds that it took."""
    began = time.perf_counter()
    sources = [problem(block.cell.domain, seed) for seed in block.seeds]
    logs = [_log(block.cell.domain, seed, block.cell.episodes) for seed in block.seeds]
    config = study.config(block.cell, block.method)
    outcomes = _each(config, logs) if block.method.algorithm in METHODS else _learned(config, logs)
    scored = [score(source, outcome.policy) for source, outcome in zip(sources, outcomes, strict=True)]
    arrays: dict[str, Any] = {name: np.array([one[name] for one in scored]) for name in scored[0]}
    arrays |= {
        "seeds": np.array(block.seeds),
        "kept": np.array([outcome.policy is None for outcome in outcomes]),
        "seconds": np.array([outcome.seconds for outcome in outcomes]),
        "fingerprints": np.array([log.dataset.fingerprint for log in logs]),
        "identity": identity(study, block.cell, block.method),
    }
    return arrays, time.perf_counter() - began


def _write(block: Block, arrays: dict[str, Any], seconds: float, out: Path) -> str:
    path = block.path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path.with_suffix(".json"), json.dumps({"commit": provenance.commit(), **provenance.machine()}))
    records.write(path, arrays)  # last, since this file marks the block as done
    mean = share(arrays).mean()
    return f"{block.cell.name}, {block.method.name}, logs {path.stem}: {mean:.3f} on average ({seconds:.0f} s)"


@lru_cache(maxsize=2 * TABULAR_BLOCK)
def problem(domain: str, seed: int) -> Exact:
    """The finite problem of a seed."""
    source = DOMAINS[domain]
    if isinstance(source, Family):
        return source.problem(seed)
    assert isinstance(source, Exact)  # the study was checked
    return source


@lru_cache(maxsize=TABULAR_BLOCK)
def _log(domain: str, seed: int, episodes: int) -> FiniteLog:
    """Kept for the methods that follow on the same logs."""
    source = problem(domain, seed)
    return FiniteLog.of(source, source.collect(episodes, seed), seed)


def score(source: Exact, policy: Policy | None) -> dict[str, float]:
    """Exact values: without end, as this literature counts, and of at most `horizon` steps, as the log does."""
    mdp, discount = source.problem, source.discount
    new = source.table(policy)
    return {
        "value": mdp.value(new, discount),
        "behaviour": mdp.value(source.behaviour, discount),
        "optimum": mdp.value(mdp.optimal(discount), discount),
        "value_within": mdp.value_within(new, discount, source.horizon),
        "behaviour_within": mdp.value_within(source.behaviour, discount, source.horizon),
    }


def share(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """(V − V_b)/(V* − V_b)."""
    return (arrays["value"] - arrays["behaviour"]) / (arrays["optimum"] - arrays["behaviour"])


def _each(method: Callable[[FiniteLog], Policy | None], logs: Sequence[FiniteLog]) -> list[Outcome]:
    return [_outcome(method, log) for log in logs]


def _outcome(method: Callable[[FiniteLog], Policy | None], log: FiniteLog) -> Outcome:
    began = time.perf_counter()
    policy = method(log)
    return Outcome(policy, time.perf_counter() - began)


def _learned(config: Any, logs: Sequence[FiniteLog]) -> list[Outcome]:
    """An algorithm of the package on whole logs, in one compiled program: one after another, or side by side."""
    found = learned([Asked(log.dataset, config, log.seed) for log in logs])
    return [
        Outcome(np.asarray(one.policy.probabilities(log.seen), np.float64), one.seconds)
        for log, one in zip(logs, found, strict=True)
    ]


def _size(method: Method) -> int:
    if method.algorithm == "certified":
        return CERTIFIED_BLOCK
    return TABULAR_BLOCK if method.algorithm in METHODS else LEARNING_BLOCK


def _done(study: Study, block: Block, out: Path) -> bool:
    path = block.path(out)
    if not path.is_file():
        return False
    if str(records.read(path)["identity"]) != identity(study, block.cell, block.method):
        raise RunError(f"{path}: made with other settings; choose another folder")
    return True
