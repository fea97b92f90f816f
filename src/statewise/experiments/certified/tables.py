"""Tables of what logs certify: every log or round, and what comes of all of them.

A bound has held where what was deployed earns, in truth, at least as much more than today as was certified.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from statewise.experiments.certified.jobs import jobs, rows_of
from statewise.experiments.study import Study

LOGS = {
    "cell": pl.String,
    "dataset": pl.Int64,
    "answer": pl.String,
    "candidate": pl.String,
    "step": pl.Float64,
    "low": pl.Float64,
    "today": pl.Float64,
    "value": pl.Float64,
    "goal": pl.Float64,
    "best": pl.Float64,
    "steps_tried": pl.Int64,
    "learning_s": pl.Float64,
    "certifying_s": pl.Float64,
}
ROUNDS = {
    "cell": pl.String,
    "dataset": pl.Int64,
    "round": pl.Int64,
    "today": pl.Float64,
    "deployed": pl.Boolean,
    "candidate": pl.String,
    "way": pl.String,
    "step": pl.Float64,
    "low": pl.Float64,
    "value": pl.Float64,
    "goal": pl.Float64,
    "seconds": pl.Float64,
}


def run_table(study: Study, out: Path) -> tuple[pl.DataFrame, int]:
    """One row per log, or per round of a run; and how many jobs are not done."""
    schema = ROUNDS if study.kind == "rounds" else LOGS
    order, rows, missing = {cell.name: place for place, cell in enumerate(study.cells)}, [], 0
    for job in jobs(study):
        own = rows_of(study, job, out)[: study.rounds]
        missing += len(own) < study.rounds
        for row in own:
            tried = {"steps_tried": len(row["tried"])} if "tried" in row else {}
            rows.append({**row, **tried, "cell": job.cell.name, "dataset": job.seed})
    table = pl.DataFrame([{name: row[name] for name in schema} for row in rows], schema=schema, orient="row")
    by = ["place", "dataset", *(["round"] if study.kind == "rounds" else [])]
    return table.with_columns(place=pl.col("cell").replace_strict(order, default=-1)).sort(by).drop("place"), missing


def held(deployed: pl.DataFrame) -> int:
    """How many bounds held, of what was deployed."""
    return int((deployed["value"] - deployed["today"] >= deployed["low"]).sum())


def log_summary(study: Study, runs: pl.DataFrame) -> pl.DataFrame:
    """One row per cell; where nothing was certified, today's policy is the one deployed."""
    rows = []
    for cell in study.cells:
        own = runs.filter(cell=cell.name)
        if len(own) == 0:
            continue
        deployed = own.filter(pl.col("low").is_not_null())
        today, value, goal = (_mean(own[name]) for name in ("today", "value", "goal"))
        rows.append(
            {
                "cell": cell.name,
                "logs": len(own),
                "certified": len(deployed),
                "bound_held": held(deployed),
                "today": today,
                "deployed": value,
                "times_today": value / today,
                "goal": goal,
                "share_of_the_possible_gain": share(own),
                "learning_s": _mean(own["learning_s"]),
                "certifying_s": _mean(own["certifying_s"]),
                "certifying_per_learning": _mean(own["certifying_s"]) / _mean(own["learning_s"]),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def share(own: pl.DataFrame) -> float:
    """The mean of (V − V_today)/(V_best − V_today); NaN where the best value is not known."""
    if own["best"].null_count() > 0:
        return float("nan")
    return _mean((own["value"] - own["today"]) / (own["best"] - own["today"]))


def round_summary(study: Study, runs: pl.DataFrame) -> pl.DataFrame:
    """One row per cell and round."""
    rows = []
    for cell in study.cells:
        own = runs.filter(cell=cell.name)
        first = own.filter(round=1).select("dataset", pl.col("today").alias("first"))
        for number in own["round"].unique().sort():
            these = own.filter(round=number).join(first, on="dataset")
            deployed = these.filter("deployed")
            rows.append(
                {
                    "cell": cell.name,
                    "round": number,
                    "runs": len(these),
                    "mean": _mean(these["value"]),
                    "least": float(np.min(these["value"].to_numpy())),
                    "greatest": float(np.max(these["value"].to_numpy())),
                    "times_the_first_behaviour": _mean(these["value"] / these["first"]),
                    "deployed": len(deployed),
                    "bound_held": held(deployed),
                    "worse_than_before": int((deployed["value"] < deployed["today"]).sum()),
                    "goal": _mean(these["goal"]),
                    "seconds": _mean(these["seconds"]),
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def every_log(runs: pl.DataFrame) -> pl.DataFrame:
    """What the page shows of each log."""
    certified = pl.col("low").is_not_null()
    return runs.select(
        "cell",
        "dataset",
        towards=pl.when(certified).then("candidate").otherwise(pl.lit("–")),
        step=pl.when(certified).then("step").otherwise(float("nan")),
        certified_gain=pl.col("low").fill_null(float("nan")),
        gain_in_truth=pl.when(certified).then(pl.col("value") - pl.col("today")).otherwise(float("nan")),
        today="today",
        goal="goal",
    )


def every_run(runs: pl.DataFrame) -> pl.DataFrame:
    """What the page shows of each run of rounds: what is done before the first round, and after each."""
    both = runs.group_by("cell", "dataset", maintain_order=True).agg(pl.col("today").first(), "value")
    values: list[Any] = [[today, *value] for today, value in both.select("today", "value").iter_rows()]
    return both.select("cell", "dataset", pl.Series("worth at first, and after each round", values))


def _mean(values: pl.Series) -> float:
    return float(np.mean(values.to_numpy()))
