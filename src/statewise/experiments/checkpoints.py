"""Checkpoints evaluated on further logs, and which of them would be chosen (figure 3).

The paper evaluates by the state ratio alone; the default estimator, by which `select` chooses, is recorded beside it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from statewise.domains import DOMAINS
from statewise.experiments import records
from statewise.experiments.logs import log_of
from statewise.experiments.runner import Notify
from statewise.experiments.study import Cell, Method, Study
from statewise.ope.estimators import USUAL
from statewise.ope.evaluate import evaluate_all, prepare
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
                for run_seed in study.datasets:
                    job = records.read(records.job_path(out, cell, method, run_seed))
                    policies = records.policies_of(job, data.observation_names)
                    for update, policy in list(zip(job["updates"], policies, strict=True))[1:]:  # not the clone
                        estimates = evaluate_all(policy, ready, (USUAL, RATIO), level=LEVEL, draws=DRAWS)
                        scores[run_seed, int(update)] = estimates[USUAL]
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
