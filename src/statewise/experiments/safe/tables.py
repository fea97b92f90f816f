"""Tables of a study of safe policy improvement: every log, and what each method makes of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from statewise.experiments import records
from statewise.experiments.safe.run import blocks, share
from statewise.experiments.study import Study

TAIL = 0.01  # the share of logs, the worst, over which CVaR is the mean


def run_table(study: Study, out: Path) -> pl.DataFrame:
    """One row per cell, method and log."""
    frames = []
    for block in blocks(study):
        path = block.path(out)
        if not path.is_file():
            continue
        arrays = records.read(path)
        columns: dict[str, Any] = {
            "cell": [block.cell.name] * len(block.seeds),
            "method": [block.method.name] * len(block.seeds),
            "dataset": arrays["seeds"].astype(np.int64),
            "score": share(arrays),
            "gain": arrays["value_within"] - arrays["behaviour_within"],
            "kept": arrays["kept"],
            "seconds": arrays["seconds"],
        }
        frames.append(pl.DataFrame(columns))
    return pl.concat(frames) if frames else pl.DataFrame()


def summary_table(study: Study, runs: pl.DataFrame) -> pl.DataFrame:
    """One row per cell and method; `new_policies` is the share of logs from which there is one, instead of today's.

    A new policy is counted as worse than today if it is over the steps of an episode, which is what a log can tell.
    """
    rows = []
    for cell in study.cells:
        for method in study.methods:
            own = runs.filter(pl.col("cell") == cell.name, pl.col("method") == method.name)
            if len(own) == 0:
                continue
            scores = own["score"].to_numpy()
            rows.append(
                {
                    "cell": cell.name,
                    "method": method.name,
                    "logs": len(scores),
                    "mean": float(scores.mean()),
                    "standard_error": float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None,
                    "cvar_1_percent": cvar(scores),
                    "least": float(scores.min()),
                    "new_policies": float((~own["kept"]).mean()),  # pyright: ignore[reportArgumentType]
                    "worse_than_today": float(((own["gain"] < 0) & ~own["kept"]).mean()),  # pyright: ignore
                    "seconds": float(own["seconds"].mean()),  # pyright: ignore[reportArgumentType]
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def cvar(scores: np.ndarray, tail: float = TAIL) -> float:
    """The mean of the worst share of scores, and of one at least.

    >>> cvar(np.arange(1000.0))
    4.5
    """
    return float(np.sort(scores)[: max(1, round(tail * len(scores)))].mean())
