"""Checkpoints evaluated on further logs, and which of them would be chosen (figure 3).

The paper evaluates by the state ratio alone; the default estimator, by which `select` chooses, is recorded beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from statewise.base.tasks import mapped
from statewise.domains import DOMAINS
from statewise.experiments import records
from statewise.experiments.logs import log_of
from statewise.experiments.runner import Notify
from statewise.experiments.study import Cell, Method, Study
from statewise.ope.estimate import Estimate
from statewise.ope.estimators import USUAL
from statewise.ope.evaluate import evaluate_all, prepare
from statewise.ope.prepared import Prepared
from statewise.ope.select import DRAWS, best_of

LEVEL = 0.95
RATIO = "state-ratio"


def evaluation_path(out: Path, cell: Cell, method: Method, seed: int) -> Path:
    return out / "evaluations" / records.slug(cell.name) / records.slug(method.name) / f"{seed}.npz"


def evaluate(study: Study, out: Path, notify: Notify) -> None:
    """Evaluates every checkpoint on each evaluation log; what is already done is not repeated."""
    for cell in study.cells:
        for seed in study.evaluation:
            left = [m for m in study.methods if not evaluation_path(out, cell, m, seed).is_file()]
            if not left:
                continue
            data = log_of(cell, seed)
            records.write_log(out, cell, seed, data)
            ready = prepare(data, discount=DOMAINS[cell.domain].discount)
            for method in left:
                scores, by_ratio = {}, []
                jobs = (records.read(records.job_path(out, cell, method, run_seed)) for run_seed in study.datasets)
                for run_seed, judged in zip(study.datasets, mapped(partial(_judged, ready), jobs), strict=True):
                    for update, estimates in judged.items():
                        scores[run_seed, update] = estimates[USUAL]
                        by_ratio.append(estimates[RATIO].value)
                place, decisive, reason = best_of(scores, data, LEVEL)
                arrays = {
                    "place": np.array(list(scores)),
                    "value": [one.value for one in scores.values()],
                    "by_ratio": by_ratio,
                    "low": [one.low for one in scores.values()],
                    "high": [one.high for one in scores.values()],
                    "effective": [one.effective_sample_size for one in scores.values()],
                    "verdict": [one.verdict for one in scores.values()],
                    "chosen": place,
                    "decisive": decisive,
                    "reason": reason,
                    "fingerprint": data.fingerprint,
                }
                records.write(evaluation_path(out, cell, method, seed), arrays)
                notify(f"{cell.name}, {method.name}, evaluation log {seed}: {len(scores)} checkpoints evaluated")


def _judged(log: Prepared, job: Mapping[str, np.ndarray]) -> dict[int, dict[str, Estimate]]:
    """Every checkpoint of a job but the first, which is the behaviour's clone; by its update."""
    policies = records.policies_of(job, log.dataset.observation_names)
    pairs = list(zip(job["updates"], policies, strict=True))[1:]
    return {int(at): evaluate_all(one, log, (USUAL, RATIO), level=LEVEL, draws=DRAWS) for at, one in pairs}
