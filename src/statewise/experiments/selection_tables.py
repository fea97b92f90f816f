"""Tables of a selection study: every checkpoint's estimate beside the truth, and how well each log chooses by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from statewise.experiments import records
from statewise.experiments.checkpoints import evaluation_path
from statewise.experiments.study import Cell, Method, Study


def checkpoint_table(study: Study, out: Path, runs: pl.DataFrame) -> pl.DataFrame:
    """One row per checkpoint and evaluation log."""
    frames = []
    for cell, method, seed in _evaluations(study):
        path = evaluation_path(out, cell, method, seed)
        if not path.is_file():
            continue
        evaluation = records.read(path)
        chosen_dataset, chosen_update = map(int, evaluation["chosen"])
        decisive = evaluation["told_apart" if "told_apart" in evaluation else "decisive"]  # older files' name first
        frame = pl.DataFrame(
            {
                "dataset": evaluation["place"][:, 0].astype(np.int64),
                "update": evaluation["place"][:, 1].astype(np.int64),
                "estimate": evaluation["value"],
                "by_ratio": evaluation["by_ratio"],
                "low": evaluation["low"],
                "high": evaluation["high"],
                "verdict": evaluation["verdict"].astype(str).tolist(),
            }
        ).with_columns(
            cell=pl.lit(cell.name),
            method=pl.lit(method.name),
            evaluation=pl.lit(seed),
            chosen=(pl.col("dataset") == chosen_dataset) & (pl.col("update") == chosen_update),
            decisive=pl.lit(bool(decisive)),
        )
        frames.append(frame)
    if not frames:
        return pl.DataFrame()
    truth = runs.select("cell", "method", "dataset", "update", pl.col("score").alias("truth"))
    table = pl.concat(frames).join(truth, on=["cell", "method", "dataset", "update"], maintain_order="left")
    return table.with_columns(last=pl.col("update") == pl.col("update").max().over("cell", "method", "dataset"))


def selection_table(study: Study, checkpoints: pl.DataFrame, behaviour: Mapping[str, float]) -> pl.DataFrame:
    """One row per evaluation log: how well it ranks checkpoints, and the true value of the one it would choose."""
    rows = []
    if len(checkpoints) == 0:
        return checkpoints
    for cell, method, seed in _evaluations(study):
        scored = checkpoints.filter(
            pl.col("cell") == cell.name, pl.col("method") == method.name, pl.col("evaluation") == seed
        ).filter(pl.col("estimate").is_finite() & pl.col("truth").is_finite())
        if len(scored) == 0:
            continue
        identified = scored.filter(pl.col("verdict") != "not identified")
        greatest = scored.sort("estimate", descending=True).row(0, named=True)
        chosen = scored.filter(pl.col("chosen"))
        rows.append(
            {
                "cell": cell.name,
                "method": method.name,
                "evaluation_log": seed,
                "checkpoints": len(scored),
                "identified": len(identified),
                "correlation": _correlation(scored, "pearson"),
                "rank_correlation": _correlation(scored, "spearman"),
                "correlation_by_ratio": _correlation(scored, "pearson", "by_ratio"),
                "last_iterates_mean": scored.filter(pl.col("last"))["truth"].mean(),
                "last_iterates_least": scored.filter(pl.col("last"))["truth"].min(),
                "greatest_estimate_truth": greatest["truth"],
                "greatest_estimate": greatest["estimate"],
                "select_truth": chosen["truth"][0] if len(chosen) else None,
                "select_decisive": chosen["decisive"][0] if len(chosen) else None,
                "best_truth": scored["truth"].max(),
                "behaviour": behaviour[cell.name],
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _correlation(table: pl.DataFrame, method: Any, estimate: str = "estimate") -> float | None:
    """None for fewer than three checkpoints."""
    return None if len(table) < 3 else table.select(pl.corr(estimate, "truth", method=method)).item()


def _evaluations(study: Study) -> Iterator[tuple[Cell, Method, int]]:
    return ((cell, method, seed) for cell in study.cells for method in study.methods for seed in study.evaluation)
