"""`statewise fit`: learn policies from a log."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from statewise.algorithms import ALGORITHMS
from statewise.base.files import make_folder
from statewise.cli.options import json_option, log_options, needs, propensity_model_option
from statewise.cli.progress import Watch
from statewise.cli.propensities import estimated, propensities_as_json, read_log
from statewise.cli.scanned import scan_options
from statewise.cli.terminal import answers, echo_json, messages, note, table
from statewise.cli.types import FilePath, RegisteredName
from statewise.data.augment import smooth
from statewise.data.dataset import Dataset
from statewise.data.discount import discount_of
from statewise.learning.fit import Progress, Result, fit
from statewise.learning.presets import PRESETS, preset
from statewise.learning.runs import RunFolder
from statewise.learning.trackers.parquet import ParquetTracker


@click.command(epilog="Example: statewise fit cartpole.parquet --seeds 2 --out runs/cartpole")
@click.argument("log", type=FilePath())
@click.option("--algorithm", type=RegisteredName(ALGORITHMS, "algorithm"), default="opposd", show_default=True)
@click.option("--preset", "preset_name", type=RegisteredName(PRESETS, "preset"), default="default", show_default=True)
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Independent runs.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Learn that many seeds side by side on a CPU, each on one core; 1: in turn [default: as many as pay].",
)
@click.option("--updates", type=click.IntRange(min=1), help="Updates of the policy [default: the preset's].")
@click.option(
    "--discount",
    type=click.FloatRange(0, 1, min_open=True),
    help="γ [default: 1 or 0.98, depending on the log; inspect says which and why].",
)
@click.option(
    "--smooth",
    "smoothing",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="EPS",
    help="Pretend that actions which the behaviour never takes in a state are taken there with this probability and "
    "lead to an absorbing state that pays nothing, so that policies avoid them; needs whole distributions "
    "(propensity_0, propensity_1, …).",
)
@click.option(
    "--checkpoint-every", type=click.IntRange(min=1), help="Updates between checkpoints [default: a tenth of all]."
)
@click.option("--out", type=FilePath(), required=True, help="Run folder.")
@click.option("--tensorboard", metavar="DIR", type=FilePath(), help="Also write TensorBoard event files.")
@click.option("--mlflow", metavar="URI", help="Also log to MLflow: http://…, sqlite:///FILE, …")
@log_options
@scan_options
@propensity_model_option
@json_option
def command(
    log: Path,
    algorithm: str,
    preset_name: str,
    seeds: int,
    processes: int | None,
    updates: int | None,
    discount: float | None,
    smoothing: float | None,
    checkpoint_every: int | None,
    out: Path,
    tensorboard: Path | None,
    mlflow: str | None,
    as_json: bool,
    **options,
) -> None:
    """Learn better policies from LOG and save them, with checkpoints and metrics, in a run folder.

    A LOG that is a folder of Parquet files, or an s3:// address, may be larger than memory. If interrupted, run the
    same command again to resume.
    """
    console = messages(quiet=as_json)
    dataset, estimate = read_log(log, options, console)
    dataset = estimated(dataset, console, options["propensity_model"]) if estimate else dataset
    config = preset(preset_name, algorithm, discount)
    if smoothing is not None:
        if not hasattr(config, "smoothing"):
            raise click.UsageError(f"--smooth: {algorithm} has no such setting; opposd and offpac do.")
        config = replace(config, smoothing=smoothing)
        shift = smooth(dataset, smoothing, horizon=config.horizon).reward_shift
        if shift > 0:
            raised = f"rewards are raised by {shift:.4g}, so that none is below the absorbing state's 0"
            note(console, f"{raised}; the critic's values include this shift")
    started = time.perf_counter()
    with (
        _trackers(out, tensorboard, mlflow) as trackers,
        Watch(console, "learning", updates or config.updates, "warm start and compilation …") as watch,
    ):
        reached = []

        def progress(learning: Progress) -> None:
            reached.append(learning.update)
            watch.show("learning", learning.update, learning.updates, _summary(learning))
            watch.line(f"update {learning.update:>6,} of {learning.updates:,}   {_summary(learning)}")
            for tracker in trackers:
                tracker(learning.update)

        result = fit(
            dataset,
            config,
            seeds=seeds,
            updates=updates,
            checkpoint_every=checkpoint_every,
            out=out,
            progress=progress,
            processes=processes,
        )
        if not reached:  # all was learned before, perhaps without time to track the end
            for tracker in trackers:
                tracker(result.config.updates)
    _report(result, dataset, out, time.perf_counter() - started, as_json)


@contextmanager
def _trackers(out: Path, tensorboard: Path | None, mlflow: str | None) -> Iterator[list[Any]]:
    """Parquet always, others on request; what is missing is reported before anything is learned."""
    folder = RunFolder(out)
    trackers: list[Any] = [ParquetTracker(folder)]
    if tensorboard is not None:
        needs("tensorboard", "tensorboardX")
        from statewise.learning.trackers.tensorboard import TensorBoardTracker

        make_folder(tensorboard)
        trackers.append(TensorBoardTracker(folder, tensorboard))
    if mlflow is not None:
        needs("mlflow", "mlflow")
        # its default of 7 takes minutes to report that no server answers
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        from statewise.learning.trackers.mlflow import MlflowTracker

        trackers.append(MlflowTracker(folder, mlflow))
    finished = False
    try:
        yield trackers
        finished = True
    finally:
        for tracker in trackers:
            tracker.close(finished)


def _summary(learning: Progress) -> str:
    """The critic's value, the ratio's effective share and the entropy, as far as the algorithm has them."""
    parts = (
        (learning.value, f"V̂(s₀) {learning.value:.4g}"),
        (learning.ratio_ess, f"w: {learning.ratio_ess:.0%} effective"),
        (learning.entropy, f"entropy {learning.entropy:.2f}"),
    )
    return "   ".join(text for number, text in parts if not math.isnan(number))  # NaN: it has no such thing


def _report(result: Result, dataset: Dataset, out: Path, seconds: float, as_json: bool) -> None:
    last = {name: result.metrics[name][:, -1] for name in ("value", "ratio_ess", "entropy")}
    if as_json:
        rows = [
            {"seed": seed} | {name: _or_none(values[i]) for name, values in last.items()}
            for i, seed in enumerate(result.seeds)
        ]
        shown = propensities_as_json(dataset)
        echo_json({"run": str(out), "seconds": seconds, "seeds": rows, "propensities": shown})
        return
    discount = discount_of(dataset, result.config.discount)
    shown = table(("seed", "critic's value of the last policy", "ratio's effective share", "entropy"))
    for i, seed in enumerate(result.seeds):
        formats = {"value": ".4g", "ratio_ess": ".0%", "entropy": ".2f"}
        cells = (_or_none(last[name][i]) for name in formats)
        texts = ("–" if cell is None else format(cell, how) for cell, how in zip(cells, formats.values(), strict=True))
        shown.add_row(str(seed), *texts)
    console = answers()
    console.print(shown)
    console.print(
        f"The log's own return: {dataset.returns(discount).mean():.4g} (γ = {discount:g}). A critic's value is a "
        "training signal, not evidence: evaluate the policies on held-out episodes before believing it."
    )
    console.print(Text(f"Wrote {out}: {len(result.checkpoints)} checkpoints, {seconds:.0f} s"))


def _or_none(number: Any) -> float | None:
    """NaN stands for what an algorithm does not have."""
    return None if math.isnan(number) else float(number)
