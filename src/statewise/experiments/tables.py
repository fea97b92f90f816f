"""A run's files as tables: every checkpoint of every run, a summary of each method, and the paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from statewise.base.files import written_whole
from statewise.experiments import records
from statewise.experiments.certified import tables as certified
from statewise.experiments.paired import difference
from statewise.experiments.safe.tables import run_table, summary_table
from statewise.experiments.selection_tables import checkpoint_table, selection_table
from statewise.experiments.study import Cell, Study
from statewise.learning.runs import RunError


@dataclass(frozen=True, eq=False)
class Tables:
    """A study's results by the name of the table; `missing` counts the jobs that were not run."""

    frames: Mapping[str, pl.DataFrame]
    missing: int


def tables_of(study: Study, out: Path) -> Tables:
    """Reads what the runner wrote."""
    if study.kind == "exact":
        return Tables(_exact(out), 0)
    if study.kind == "safe":
        return _safe(study, out)
    if study.kind in ("certified", "rounds"):
        return _certified(study, out)
    jobs = {}
    for cell, method, seed in study.jobs():
        path = records.job_path(out, cell, method, seed)
        if path.is_file():
            jobs[cell.name, method.name, seed] = records.read(path)
    if not jobs:
        raise RunError(f"{out}: it has no finished job of '{study.name}'")
    runs = _runs(study, jobs)
    behaviour = {cell.name: _behaviour(study, out, cell) for cell in study.cells}
    frames = {"runs": runs, "summary": _summary(study, runs, behaviour), "pairs": _pairs(study, runs)}
    if study.kind == "selection":
        frames["checkpoints"] = checkpoint_table(study, out, runs)
        frames["selection"] = selection_table(study, frames["checkpoints"], behaviour)
    missing = len(list(study.jobs())) - len(jobs)
    return Tables({name: frame for name, frame in frames.items() if len(frame)}, missing)


def write_tables(tables: Tables, out: Path) -> None:
    for name, frame in tables.frames.items():
        with written_whole(out / f"{name}.parquet") as part:
            frame.write_parquet(part)


def last_of(runs: pl.DataFrame) -> pl.DataFrame:
    """The last iterate of every run."""
    return runs.filter(pl.col("update") == pl.col("update").max().over("cell", "method", "dataset"))


def _runs(study: Study, jobs: Mapping[tuple[str, str, int], Mapping[str, np.ndarray]]) -> pl.DataFrame:
    """One row per checkpoint; `score` is the study's measure."""
    presets = {method.name: method.group for method in study.methods}
    frames = []
    for (cell, method, seed), job in jobs.items():
        count = len(job["updates"])
        columns: dict[str, Any] = {
            "cell": [cell] * count,
            "method": [method] * count,
            "preset": [presets[method]] * count,
            "dataset": [seed] * count,
            "update": job["updates"].astype(np.int64),
            "score": job[study.measure].mean(axis=1),
            "discounted": job["discounted"].mean(axis=1),
            "undiscounted": job["undiscounted"].mean(axis=1),
            "critic_value": job["value"].astype(np.float64),
            "ratio_ess": job["ratio_ess"].astype(np.float64),
            "entropy": job["entropy"].astype(np.float64),
            "finite": job["finite"],
        }
        frames.append(pl.DataFrame(columns))
    return pl.concat(frames)


def _behaviour(study: Study, out: Path, cell: Cell) -> float:
    """What the behaviour earned, over the logs that were learned from."""
    if cell.gain:
        return 0.0
    paths = [records.log_path(out, cell, seed) for seed in study.datasets]
    returns = [records.read(path)[study.measure] for path in paths if path.is_file()]
    return float(np.concatenate(returns).mean()) if returns else float("nan")


def _reached(runs: pl.DataFrame, score: float) -> pl.DataFrame:
    """The first checkpoint of each run with at least that score; null where there is none."""
    first = pl.col("update").filter(pl.col("score") >= score).min().alias("reached")
    return runs.group_by("cell", "method", "dataset", maintain_order=True).agg(first)


def _summary(study: Study, runs: pl.DataFrame, behaviour: Mapping[str, float]) -> pl.DataFrame:
    """One row per cell and method."""
    rows = []
    for cell in study.cells:
        for method in study.methods:
            own_runs = runs.filter(pl.col("cell") == cell.name, pl.col("method") == method.name)
            if len(own_runs) == 0:
                continue
            last = last_of(own_runs)
            score = last["score"].to_numpy()
            row: dict[str, Any] = {
                "cell": cell.name,
                "method": method.name,
                "preset": method.group,
                "runs": len(score),
                "updates": int(last["update"].max()),  # pyright: ignore[reportArgumentType]
                "last_mean": float(np.mean(score)),
                "last_deviation": float(np.std(score, ddof=1)) if len(score) > 1 else None,
                "last_least": float(np.min(score)),
                "last_most": float(np.max(score)),
                "best_mean_of_the_curve": _mean_by(own_runs, "update")["score"].max(),
                "behaviour": behaviour[cell.name],
                "runs_below_behaviour": int((~(score >= behaviour[cell.name])).sum()),
            }
            if study.reach is not None:
                firsts = _reached(own_runs, study.reach)["reached"]
                row["runs_that_reach"] = len(firsts) - firsts.null_count()
                row["updates_to_reach"] = firsts.median()
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _pairs(study: Study, runs: pl.DataFrame) -> pl.DataFrame:
    """Differences of two methods on the same datasets: last iterate, mean of the curve, updates to reach a score."""
    scores = {"last iterate": last_of(runs), "mean of the curve": _mean_by(runs, "dataset")}
    if study.reach is not None:
        firsts = _reached(runs, study.reach).with_columns(pl.col("reached").cast(pl.Float64).alias("score"))
        scores[f"updates to {study.reach:g}"] = firsts
    rows = []
    for cell in study.cells:
        for first, second in study.pairs:
            for name, frame in scores.items():
                sides = [
                    frame.filter(pl.col("cell") == cell.name, pl.col("method") == method).select("dataset", "score")
                    for method in (first, second)
                ]
                both = sides[0].join(sides[1], on="dataset", suffix="_second")
                if len(both) == 0:
                    continue
                columns = both.select(pl.col("score", "score_second").cast(pl.Float64).fill_null(float("nan")))
                paired = difference(columns["score"].to_numpy(), columns["score_second"].to_numpy())
                rows.append(
                    {
                        "cell": cell.name,
                        "first": first,
                        "second": second,
                        "of": name,
                        "pairs": paired.pairs,
                        "difference": paired.mean,
                        "low": paired.low,
                        "high": paired.high,
                        "first_has_more": paired.more,
                    }
                )
    return pl.DataFrame(rows, infer_schema_length=None)


def _mean_by(runs: pl.DataFrame, column: str) -> pl.DataFrame:
    """Mean score by update (a curve over datasets) or by dataset (over its curve)."""
    return runs.group_by("cell", "method", column, maintain_order=True).agg(pl.col("score").mean())


def _safe(study: Study, out: Path) -> Tables:
    runs = run_table(study, out)
    if len(runs) == 0:
        raise RunError(f"{out}: it has no finished block of '{study.name}'")
    return Tables({"runs": runs, "summary": summary_table(study, runs)}, len(list(study.jobs())) - len(runs))


def _certified(study: Study, out: Path) -> Tables:
    runs, missing = certified.run_table(study, out)
    if len(runs) == 0:
        raise RunError(f"{out}: it has no finished job of '{study.name}'")
    summary = certified.round_summary if study.kind == "rounds" else certified.log_summary
    return Tables({"runs": runs, "summary": summary(study, runs)}, missing)


def _exact(out: Path) -> dict[str, pl.DataFrame]:
    arrays = records.read(out / "exact.npz")
    gradients = {name: values for name, values in arrays.items() if not name.startswith("path ")}
    paths = {name: values for name, values in arrays.items() if name.startswith("path ")}
    steps = {"step": np.arange(len(next(iter(paths.values()))))}
    return {"gradients": pl.DataFrame(gradients), "paths": pl.DataFrame({**steps, **paths})}
