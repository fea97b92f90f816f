"""`statewise fit`: learn policies from a log."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from statewise.cli.options import json_option, log_arguments, log_options
from statewise.data.augment import smooth
from statewise.data.dataset import Dataset
from statewise.data.table import read
from statewise.presets import PRESETS, preset
from statewise.training import Result, Told, fit, usual_discount


@click.command(epilog="Example: statewise fit cartpole.parquet --seeds 2 --out runs/cartpole")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--algorithm", type=click.Choice(["opposd", "offpac"]), default="opposd", show_default=True)
@click.option("--preset", "preset_name", type=click.Choice(list(PRESETS)), default="default", show_default=True)
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Runs side by side.")
@click.option("--updates", type=click.IntRange(min=1), help="Updates of the policy [default: the preset's].")
@click.option(
    "--discount",
    type=click.FloatRange(0, 1, min_open=True),
    help="γ [default: 1 where episodes end by themselves, .98 where they go on].",
)
@click.option(
    "--smooth",
    "smoothing",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="EPS",
    help="Try actions that the behaviour never takes in a state with this probability there, and let them lead "
    "nowhere, so that policies keep away from them; needs whole distributions (propensity_0, propensity_1, …).",
)
@click.option("--checkpoint-every", type=click.IntRange(min=1), help="Updates [default: a tenth of all].")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder of the run; an interrupted one goes on."
)
@log_options
@json_option
def command(
    log: Path,
    algorithm: str,
    preset_name: str,
    seeds: int,
    updates: int | None,
    discount: float | None,
    smoothing: float | None,
    checkpoint_every: int | None,
    out: Path,
    as_json: bool,
    **options,
) -> None:
    """Learn better policies from LOG and keep them, with all checkpoints and metrics, in a run folder."""
    dataset, findings = read(log, **log_arguments(options))
    findings.raise_faults()
    assert dataset is not None
    console = Console(stderr=True, quiet=as_json, highlight=False)
    for warning in findings.warnings:
        console.print(Text.assemble(("note  ", "bold yellow"), str(warning)))
    if discount is None and preset_name == "default":
        discount = usual_discount(dataset)
    config = preset(preset_name, algorithm, discount)
    if smoothing is not None:
        config = replace(config, smoothing=smoothing)
        shift = smooth(dataset, smoothing, horizon=config.horizon).reward_shift
        if shift > 0:
            told = f"rewards are raised by {shift:.4g}, so that none is below the absorbing state's 0; "
            console.print(Text.assemble(("note  ", "bold yellow"), told + "the critic's values include that"))
    started = time.perf_counter()
    with _Watch(console, updates or config.updates) as watcher:
        result = fit(
            dataset,
            config,
            seeds=seeds,
            updates=updates,
            checkpoint_every=checkpoint_every,
            out=out,
            progress=watcher.told,
        )
    _report(result, dataset, out, time.perf_counter() - started, as_json)


class _Watch:
    """A bar with value, effective share and entropy; plain lines where there is no terminal."""

    def __init__(self, console: Console, updates: int):
        self.console, self.updates = console, updates
        parts = (
            TextColumn("learning"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        self.bar = Progress(*parts, console=console, transient=True, disable=not console.is_terminal)

    def __enter__(self) -> _Watch:
        self.bar.start()
        self.task = self.bar.add_task("warm start and compilation …", total=self.updates)
        return self

    def __exit__(self, *_) -> None:
        self.bar.stop()

    def told(self, told: Told) -> None:
        words = f"V̂(s₀) {told.value:.4g}   w: {told.ratio_ess:.0%} effective   entropy {told.entropy:.2f}"
        self.bar.update(self.task, completed=told.update, description=words)
        if not self.console.is_terminal:
            self.console.print(f"update {told.update:>6,} of {told.updates:,}   {words}")


def _report(result: Result, dataset: Dataset, out: Path, seconds: float, as_json: bool) -> None:
    last = {name: result.metrics[name][:, -1] for name in ("value", "ratio_ess", "entropy")}
    if as_json:
        rows = [
            {"seed": seed} | {name: float(values[i]) for name, values in last.items()}
            for i, seed in enumerate(result.seeds)
        ]
        click.echo(json.dumps({"run": str(out), "seconds": seconds, "seeds": rows}))
        return
    discount = result.config.discount
    table = Table(box=None, header_style="bold", pad_edge=True)
    for name in ("seed", "critic's value of the last policy", "ratio's effective share", "entropy"):
        table.add_column(name, justify="right")
    for i, seed in enumerate(result.seeds):
        table.add_row(str(seed), f"{last['value'][i]:.4g}", f"{last['ratio_ess'][i]:.0%}", f"{last['entropy'][i]:.2f}")
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"The log's own return: {dataset.returns(discount).mean():.4g} (γ = {discount:g}). A critic's value is a "
        "training signal, not evidence: evaluate the policies on held-out episodes before believing it."
    )
    console.print(Text(f"Wrote {out}: {len(result.checkpoints)} checkpoints, {seconds:.0f} s"))
