"""A run's files as tables: every checkpoint of every run, a line a method, and the paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from statewise.base.files import written_whole
from statewise.experiments import records
from statewise.experiments.paired import difference
from statewise.experiments.selection import evaluation_path
from statewise.experiments.study import Cell, Method, Study


@dataclass(frozen=True, eq=False)
class Tables:
    """What a study found, by the name of the table; `missing` are the jobs that were not run."""

    frames: Mapping[str, pl.DataFrame]
    missing: int


def tables_of(study: Study, out: Path) -> Tables:
    """Reads what the runner wrote."""
    if study.kind == "exact":
        return Tables(_exact(out), 0)
    jobs = {}
    for cell, method, seed in study.jobs():
        path = records.job_path(out, cell, method, seed)
        if path.is_file():
            jobs[cell.name, method.name, seed] = records.read(path)
    if not jobs:
        raise records.RunError(f"{out}: no job of '{study.name}' is done there")
    runs = _runs(study, jobs)
    behaviour = {cell.name: _behaviour(study, out, cell) for cell in study.cells}
    frames = {"runs": runs, "summary": _summary(study, runs, behaviour), "pairs": _pairs(study, runs)}
    if study.kind == "selection":
        frames["checkpoints"] = _checkpoints(study, out, runs)
        frames["selection"] = _selection(study, out, frames["checkpoints"], behaviour)
    missing = len(list(study.jobs())) - len(jobs)
    return Tables({name: frame for name, frame in frames.items() if len(frame)}, missing)


def write_tables(tables: Tables, out: Path) -> None:
    for name, frame in tables.frames.items():
        with written_whole(out / f"{name}.parquet") as part:
            frame.write_parquet(part)


def _runs(study: Study, jobs: Mapping[tuple[str, str, int], Mapping[str, np.ndarray]]) -> pl.DataFrame:
    """One line a checkpoint; `score` is the study's measure."""
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
    paths = [records.log_path(out, cell, seed) for seed in study.datasets]
    returns = [records.read(path)[study.measure] for path in paths if path.is_file()]
    return float(np.concatenate(returns).mean()) if returns else float("nan")


def last_of(runs: pl.DataFrame) -> pl.DataFrame:
    """The last iterate of every run."""
    return runs.filter(pl.col("update") == pl.col("update").max().over("cell", "method", "dataset"))


def reached(runs: pl.DataFrame, score: float) -> pl.DataFrame:
    """The first checkpoint of each run whose score is that high; null where none is."""
    first = pl.col("update").filter(pl.col("score") >= score).min().alias("reached")
    return runs.group_by("cell", "method", "dataset", maintain_order=True).agg(first)


def _summary(study: Study, runs: pl.DataFrame, behaviour: Mapping[str, float]) -> pl.DataFrame:
    last = last_of(runs)
    curves = runs.group_by("cell", "method", "update", maintain_order=True).agg(pl.col("score").mean())
    lines = []
    for cell in study.cells:
        for method in study.methods:
            mine = last.filter(pl.col("cell") == cell.name, pl.col("method") == method.name)
            if len(mine) == 0:
                continue
            score = mine["score"].to_numpy()
            curve = curves.filter(pl.col("cell") == cell.name, pl.col("method") == method.name)
            line: dict[str, Any] = {
                "cell": cell.name,
                "method": method.name,
                "preset": method.group,
                "runs": len(score),
                "updates": int(mine["update"].max()),  # pyright: ignore[reportArgumentType]
                "last_mean": float(np.mean(score)),
                "last_deviation": float(np.std(score, ddof=1)) if len(score) > 1 else None,
                "last_least": float(np.min(score)),
                "last_most": float(np.max(score)),
                "best_mean_of_the_curve": curve["score"].max(),
                "behaviour": behaviour[cell.name],
                "runs_below_behaviour": int((~(score >= behaviour[cell.name])).sum()),
            }
            if study.reach is not None:
                firsts = reached(
                    runs.filter(pl.col("cell") == cell.name, pl.col("method") == method.name), study.reach
                )["reached"]
                line["runs_that_reach"] = len(firsts) - firsts.null_count()
                line["updates_to_reach"] = firsts.median()
            lines.append(line)
    return pl.DataFrame(lines, infer_schema_length=None)


def _pairs(study: Study, runs: pl.DataFrame) -> pl.DataFrame:
    """Differences of two methods on the same datasets: last iterate, mean of the curve, updates to reach a score."""
    scores = {"last iterate": last_of(runs), "mean of the curve": _means(runs)}
    if study.reach is not None:
        firsts = reached(runs, study.reach).with_columns(pl.col("reached").cast(pl.Float64).alias("score"))
        scores[f"updates to {study.reach:g}"] = firsts
    lines = []
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
                found = difference(columns["score"].to_numpy(), columns["score_second"].to_numpy())
                lines.append(
                    {
                        "cell": cell.name,
                        "first": first,
                        "second": second,
                        "of": name,
                        "pairs": found.pairs,
                        "difference": found.mean,
                        "low": found.low,
                        "high": found.high,
                        "first_has_more": found.more,
                    }
                )
    return pl.DataFrame(lines, infer_schema_length=None)


def _means(runs: pl.DataFrame) -> pl.DataFrame:
    return runs.group_by("cell", "method", "dataset", maintain_order=True).agg(pl.col("score").mean())


def _checkpoints(study: Study, out: Path, runs: pl.DataFrame) -> pl.DataFrame:
    """One line a checkpoint and evaluation log: the estimate beside the truth."""
    frames = []
    for cell, method, seed in _evaluations(study):
        path = evaluation_path(out, cell, method, seed)
        if not path.is_file():
            continue
        found = records.read(path)
        frame = pl.DataFrame(
            {
                "dataset": found["place"][:, 0].astype(np.int64),
                "update": found["place"][:, 1].astype(np.int64),
                "estimate": found["value"],
                "by_ratio": found["by_ratio"],
                "low": found["low"],
                "high": found["high"],
                "verdict": found["verdict"].astype(str).tolist(),
            }
        ).with_columns(
            cell=pl.lit(cell.name),
            method=pl.lit(method.name),
            evaluation=pl.lit(seed),
            chosen=(pl.col("dataset") == int(found["chosen"][0])) & (pl.col("update") == int(found["chosen"][1])),
            told_apart=pl.lit(bool(found["told_apart"])),
        )
        frames.append(frame)
    if not frames:
        return pl.DataFrame()
    truth = runs.select("cell", "method", "dataset", "update", pl.col("score").alias("truth"))
    table = pl.concat(frames).join(truth, on=["cell", "method", "dataset", "update"], maintain_order="left")
    return table.with_columns(last=pl.col("update") == pl.col("update").max().over("cell", "method", "dataset"))


def _selection(study: Study, out: Path, checkpoints: pl.DataFrame, behaviour: Mapping[str, float]) -> pl.DataFrame:
    """One line an evaluation log: how well it ranks, and what the policy is worth that it would choose."""
    lines = []
    if len(checkpoints) == 0:
        return checkpoints
    for cell, method, seed in _evaluations(study):
        mine = checkpoints.filter(
            pl.col("cell") == cell.name, pl.col("method") == method.name, pl.col("evaluation") == seed
        ).filter(pl.col("estimate").is_finite() & pl.col("truth").is_finite())
        if len(mine) == 0:
            continue
        known = mine.filter(pl.col("verdict") != "not identified")
        greatest = mine.sort("estimate", descending=True).row(0, named=True)
        ours = mine.filter(pl.col("chosen"))
        lines.append(
            {
                "cell": cell.name,
                "method": method.name,
                "evaluation_log": seed,
                "checkpoints": len(mine),
                "identified": len(known),
                "correlation": _correlation(mine, "pearson"),
                "rank_correlation": _correlation(mine, "spearman"),
                "correlation_by_ratio": _correlation(mine, "pearson", "by_ratio"),
                "last_iterates_mean": mine.filter(pl.col("last"))["truth"].mean(),
                "last_iterates_least": mine.filter(pl.col("last"))["truth"].min(),
                "greatest_estimate_truth": greatest["truth"],
                "greatest_estimate": greatest["estimate"],
                "select_truth": ours["truth"][0] if len(ours) else None,
                "select_told_apart": ours["told_apart"][0] if len(ours) else None,
                "best_truth": mine["truth"].max(),
                "behaviour": behaviour[cell.name],
            }
        )
    return pl.DataFrame(lines, infer_schema_length=None)


def _correlation(table: pl.DataFrame, method: Any, estimate: str = "estimate") -> float | None:
    if len(table) < 3:
        return None
    return table.select(pl.corr(estimate, "truth", method=method)).item()


def _evaluations(study: Study) -> list[tuple[Cell, Method, int]]:
    return [(cell, method, seed) for cell in study.cells for method in study.methods for seed in study.evaluation]


def _exact(out: Path) -> dict[str, pl.DataFrame]:
    found = records.read(out / "exact.npz")
    gradients = {name: values for name, values in found.items() if not name.startswith("path ")}
    paths = {name: values for name, values in found.items() if name.startswith("path ")}
    steps = {"step": np.arange(len(next(iter(paths.values()))))}
    return {"gradients": pl.DataFrame(gradients), "paths": pl.DataFrame({**steps, **paths})}
