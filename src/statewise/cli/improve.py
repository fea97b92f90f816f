"""`statewise improve`: from a log to a decision, in one command."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import click
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from statewise.cli.options import json_option, log_options, propensity_model_option
from statewise.cli.progress import Watch
from statewise.cli.propensities import read_log
from statewise.cli.terminal import answers, coloured, echo_json, messages
from statewise.cli.types import Duration, RegisteredName
from statewise.improvement import Improvement, Plan, Stage, improve
from statewise.learning.presets import ALGORITHMS, OWN
from statewise.learning.settings import changed, read_settings

LINES = 10  # at most, of each stage of learning


@click.command(epilog="Example: statewise improve visits.csv --out runs/visits")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Run folder [default: runs/ plus the log's name].",
)
@click.option("--algorithm", type=RegisteredName(ALGORITHMS, "algorithm"), help=f"[default: {Plan.algorithm}]")
@click.option(
    "--discount",
    type=click.FloatRange(0, 1, min_open=True),
    help="γ [default: 1 if episodes end by themselves, otherwise 0.98].",
)
@click.option("--seeds", type=click.IntRange(min=1), help=f"Runs to choose from [default: {Plan.seeds}].")
@click.option(
    "--preset",
    type=RegisteredName(OWN, "preset"),
    help=f"quick: a first look in half the time [default: {Plan.preset}].",
)
@click.option("--updates", type=click.IntRange(min=1), help="Updates of the policy [default: the preset's].")
@click.option(
    "--time-budget", type=Duration(), help="Time limit, such as 5m; learning stops when its share is used up."
)
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with these options and a table [settings].")
@log_options
@propensity_model_option
@json_option
def command(log: Path, out: Path | None, config: Path | None, as_json: bool, **options) -> None:
    """Learn a better policy from LOG, say what it is worth, and whether to use it.

    One part of the log is for training, one for selection among what was learned, and one that neither has seen for
    evaluation. The folder then holds report.html, with the answer and all that supports it, and policy.safetensors, the
    policy to use. If interrupted, run the same command again to resume.
    """
    console = messages(quiet=as_json)
    dataset, _ = read_log(log, options, console)
    given = read_settings(config) if config else {}
    if isinstance(given.get("time_budget"), str):
        given["time_budget"] = Duration().convert(given["time_budget"], None, None)
    given |= {each.name: options[each.name] for each in fields(Plan) if options.get(each.name) is not None}
    if options["propensity_model"] is not None:
        given["propensities"] = options["propensity_model"]
    plan = changed(Plan(), given)
    out = Path("runs") / log.stem if out is None else out
    started = time.perf_counter()
    with Watch(console, "preparing") as watch:
        improvement = improve(dataset, plan, out=out, progress=_watched(watch))
    _show(improvement, time.perf_counter() - started, as_json)


def _watched(watch: Watch) -> Callable[[Stage], None]:
    """Shows every stage; where there is no terminal, a line for each tenth of learning and one for each other stage."""
    lines: dict[str, int] = {}

    def show(stage: Stage) -> None:
        watch.show(stage.name, stage.done, stage.total, stage.words)
        line = (LINES if stage.name.startswith("learning") else 1) * stage.done // stage.total
        if line > lines.get(stage.name, 0):
            lines[stage.name] = line
            watch.line(f"{stage.name}: {stage.done:,} of {stage.total:,}  {stage.words}".rstrip())

    return show


def _show(improvement: Improvement, seconds: float, as_json: bool) -> None:
    decision = improvement.decision
    estimate = decision.policy
    if as_json:
        known = ("value", "low", "high") if estimate.identified else ()
        numbers = {"value": None} | {name: getattr(estimate, name) for name in known}
        gain = {"difference": decision.difference, "low": decision.low, "high": decision.high}
        echo_json(
            {
                "answer": decision.answer,
                "because": decision.reason,
                "policy": {"file": str(improvement.policy_file), "verdict": estimate.verdict, **numbers},
                "current": decision.behaviour.value,
                "gain": gain if estimate.identified else None,
                "episodes_needed": decision.episodes_needed,
                "checks": {check.name: check.outcome for check in improvement.content.checks},
                "algorithm": improvement.algorithm,
                "seed": improvement.selection.seed,
                "update": improvement.selection.update,
                "stopped_by_time": improvement.stopped,
                "report": str(improvement.report),
                "seconds": seconds,
            }
        )
        return
    console = answers()
    reason = f"{decision.reason[:1].upper()}{decision.reason[1:]}."
    console.print(Panel(Text.assemble(coloured(decision.answer.capitalize()), "\n", reason), width=100))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("  today", f"{decision.behaviour.value:.4g}  (mean return of the evaluation episodes)")
    value = f"{estimate.value:.4g}  ({estimate.low:.4g} to {estimate.high:.4g}), " if estimate.identified else ""
    table.add_row("  new policy", f"{value}{estimate.verdict}")
    for check in improvement.content.checks:
        if check.outcome != "good":
            table.add_row(f"  {check.outcome}", Text(f"{check.name}: {check.measured}. {check.meaning}"))
    console.print(table)
    console.print(Text(f"  report      {improvement.report}"))
    console.print(Text(f"  policy      {improvement.policy_file}"))
    if improvement.stopped:
        names = ", ".join(improvement.stopped)
        console.print(
            Text(f"  The time budget stopped learning by {names}; run the same command without it to resume.")
        )
    console.print(Text(f"  {seconds:.0f} s"))
