"""`statewise improve`: from a log to a decision, in one command."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from statewise.algorithms import ALGORITHMS
from statewise.base.decode import changed, decode
from statewise.cli.config import config_option
from statewise.cli.decision import checks_table, decision_as_json, hidden_reason
from statewise.cli.options import json_option, log_options, propensity_model_option
from statewise.cli.progress import Watch
from statewise.cli.propensities import read_log
from statewise.cli.terminal import answers, coloured, echo_json, messages
from statewise.cli.types import Duration, RegisteredName
from statewise.improvement import Improvement, Plan, Stage, improve
from statewise.learning.presets import OWN, preset
from statewise.ope.estimate import Estimate
from statewise.ope.gate import Decision

LINES = 10  # at most, of each stage of learning


@click.command(epilog="Example: statewise improve visits.csv --out runs/visits")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Run folder [default: runs/ plus the log's name].",
)
@click.option("--algorithm", type=RegisteredName(ALGORITHMS, "algorithm"), help="[default: opposd]")
@click.option(
    "--discount",
    type=click.FloatRange(0, 1, min_open=True),
    help="γ [default: the log's own, 1 or 0.98; inspect says which and why].",
)
@click.option("--seeds", type=click.IntRange(min=1), help=f"Runs to choose from [default: {Plan.seeds}].")
@click.option(
    "--preset",
    type=RegisteredName(OWN, "preset"),
    help="quick: a first look in half the time [default: default].",
)
@click.option("--updates", type=click.IntRange(min=1), help="Updates of the policy [default: the preset's].")
@click.option(
    "--time-budget", type=Duration(), help="Time limit, such as 5m; learning stops when its share is used up."
)
@log_options
@config_option(also=("settings", "beside", "level", "seed", "propensities"))
@propensity_model_option
@json_option
def command(log: Path, out: Path | None, config: dict[str, Any], as_json: bool, **options) -> None:
    """Learn a better policy from LOG, say what it is worth, and whether to use it.

    One part of the log is for training, one for selection among what was learned, and one that neither has seen for
    evaluation. The folder then holds report.html, with the answer and all that supports it, and policy.safetensors, the
    policy to use. If interrupted, run the same command again to resume.
    """
    console = messages(quiet=as_json)
    dataset, _ = read_log(log, options, console)
    settings, plan = _asked(config, options)
    out = Path("runs") / log.stem if out is None else out
    started = time.perf_counter()
    with Watch(console, "preparing") as watch:
        improvement = improve(dataset, settings, out=out, plan=plan, progress=_watched(watch))
    _show(improvement, time.perf_counter() - started, as_json)


def _asked(given: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Plan]:
    """The algorithm's settings and the plan, from a settings file and the flags, which count more."""
    flags = {name: options.get(name) for name in ("algorithm", "preset", *(each.name for each in fields(Plan)))}
    flags["propensities"] = options["propensity_model"]
    given = given | {name: value for name, value in flags.items() if value is not None}
    if isinstance(given.get("time_budget"), str):
        given["time_budget"] = Duration().convert(given["time_budget"], None, None)
    algorithm = decode(str, given.pop("algorithm", "opposd"), "algorithm")
    name = decode(str, given.pop("preset", "default"), "preset")
    changes = decode(dict, given.pop("settings", {}), "settings")
    beside = decode(tuple[str, ...], given.pop("beside", list(Plan.beside)), "beside")
    if name not in OWN:
        raise click.UsageError(f"preset: expected one of {', '.join(OWN)}, got '{name}'")
    plan = changed(Plan(beside=tuple(preset(name, other) for other in beside)), given)
    return changed(preset(name, algorithm), changes, "settings"), plan


def _watched(watch: Watch) -> Callable[[Stage], None]:
    """Shows every stage; where there is no terminal, a line for each tenth of learning and one for each other stage."""
    lines: dict[str, int] = {}

    def show(stage: Stage) -> None:
        watch.show(stage.name, stage.done, stage.total, stage.note)
        line = (LINES if stage.name.startswith("learning") else 1) * stage.done // stage.total
        if line > lines.get(stage.name, 0):
            lines[stage.name] = line
            watch.line(f"{stage.name}: {stage.done:,} of {stage.total:,}  {stage.note}".rstrip())

    return show


def _show(improvement: Improvement, seconds: float, as_json: bool) -> None:
    decision = improvement.decision
    estimate = decision.estimate
    if as_json:
        decided = decision_as_json(decision)
        gain = {name: decided[name] for name in ("difference", "low", "high")}
        echo_json(
            {
                "answer": decision.answer,
                "because": decision.reason,
                "verdict": decision.verdict,
                "hidden_reason": decision.hidden_reason,
                "policy": {"file": str(improvement.policy_file), **estimate.as_dict()},
                "current": decision.baseline.value,
                "gain": None if decision.verdict == "not identified" else gain,
                "episodes_needed": decision.episodes_needed,
                "measures": decided["measures"],
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
    reason = f"{decision.reason[:1].upper()}{decision.reason[1:]}. {hidden_reason(decision)}".rstrip()
    console.print(Panel(Text.assemble(coloured(decision.answer.capitalize()), "\n", reason), width=100))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("  today", f"{decision.baseline.value:.4g}  (mean return of the evaluation episodes)")
    table.add_row("  new policy", _interval(estimate))
    table.add_row("  gain", _interval(decision))
    console.print(table)
    console.print(Text(f"  {improvement.content.counted}"))
    console.print()
    console.print(checks_table(decision))
    console.print()
    console.print(Text(f"  report      {improvement.report}"))
    console.print(Text(f"  policy      {improvement.policy_file}"))
    if improvement.stopped:
        names = ", ".join(improvement.stopped)
        console.print(
            Text(f"  The time budget stopped learning by {names}; run the same command without it to resume.")
        )
    console.print(Text(f"  {seconds:.0f} s"))


def _interval(of: Estimate | Decision) -> str:
    """Value, interval and verdict; no numbers that the log does not identify."""
    if of.verdict == "not identified":
        return of.verdict
    value = of.difference if isinstance(of, Decision) else of.value
    return f"{value:.4g}  ({of.low:.4g} to {of.high:.4g}), {of.verdict}"
