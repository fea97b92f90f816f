"""`statewise improve`: from a log to a decision, in one command."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from statewise.algorithms import ALGORITHMS
from statewise.base.decode import changed, decode
from statewise.cli.announce import announce
from statewise.cli.backend import backend_options
from statewise.cli.certificate import certificate_as_json, show_answer, show_summary
from statewise.cli.config import config_option
from statewise.cli.options import json_option, log_options, propensity_model_option
from statewise.cli.progress import Watch
from statewise.cli.propensities import ReadLike, read_log
from statewise.cli.scanned import scan_options
from statewise.cli.terminal import answers, echo_json, messages
from statewise.cli.types import Duration, FilePath, RegisteredName, listed
from statewise.data.dataset import Dataset
from statewise.data.loggers import by_logger
from statewise.improvement import Improvement, Plan, Stage, improve
from statewise.learning.presets import OWN, preset
from statewise.policies.external import as_target

LINES = 10  # at most, of each stage of learning


@click.command(epilog="Example: statewise improve visits.csv --out runs/visits")
@click.argument("logs", type=FilePath(), nargs=-1, required=True)
@click.option(
    "--out",
    type=FilePath(),
    help="Run folder [default: runs/ plus the newest log's name].",
)
@click.option(
    "--today",
    type=FilePath(),
    help="Policy that wrote the newest log [default: modelled from the log].",
)
@click.option(
    "--logger",
    "loggers",
    type=FilePath(),
    multiple=True,
    help="Policy that wrote a log; once for each log but the first, oldest first. The last is what is done today.",
)
@click.option("--algorithm", type=RegisteredName(ALGORITHMS, "algorithm"), help="[default: opposd]")
@click.option(
    "--discount",
    type=click.FloatRange(0, 1, min_open=True),
    help="γ [default: 1 or 0.98, depending on the log; inspect says which and why].",
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
@click.option(
    "--subgroups",
    metavar="A,B,…",
    callback=lambda ctx, param, value: None if value is None else listed(value),
    help="Columns by which the report shows who gains and who loses [default: a few that the goal looks at].",
)
@click.option("--brief", is_flag=True, help="Print the answer in a few lines; the report has the rest.")
@log_options
@scan_options
@config_option(also=("settings", "beside", "level", "seed", "propensities"))
@propensity_model_option
@json_option
@backend_options
def command(
    logs: tuple[Path, ...],
    out: Path | None,
    today: Path | None,
    loggers: tuple[Path, ...],
    config: dict[str, Any],
    brief: bool,
    as_json: bool,
    **options,
) -> None:
    """Learn from LOGS, and say what may be deployed, what the goal is, and what to log next.

    Half of the log is for training. On the other half, steps from what is done today towards what was learned are
    tested, and the best that passes may be deployed. With several logs, oldest first, the newest is what is done today,
    and all are learned from.

    The folder then holds report.html, with the answer and all that supports it, policy.safetensors, which may be
    deployed, and goal.safetensors, what was learned. If interrupted, run the same command again to resume.
    """
    console = messages(quiet=as_json)
    datasets = [part for one in _read(logs, options, console) for part in by_logger(one)]
    settings, plan = _asked(config, options)
    out = Path("runs") / logs[-1].stem if out is None else out
    known = None if today is None else as_target(today)
    wrote = [as_target(logger) for logger in loggers]
    if not brief:
        announce(console, datasets, settings, plan)
    started = time.perf_counter()
    with Watch(console, "preparing") as watch:
        improvement = improve(
            datasets, settings, out=out, today=known, loggers=wrote, plan=plan, progress=_watched(watch, brief)
        )
    _show(improvement, time.perf_counter() - started, brief, as_json)


def _read(logs: Sequence[Path], options: dict[str, Any], console: Console) -> list[Dataset]:
    """All logs, the later ones read as the first was."""
    datasets: list[Dataset] = []
    for log in logs:
        like = ReadLike(datasets[0]) if datasets else None
        # where the first has no propensities, the later ones may: a deployed policy logs them
        own = {"propensity": "logged"} if datasets else {}
        datasets.append(read_log(log, {**options, **own}, console, policy=like)[0])
    return datasets


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


def _watched(watch: Watch, brief: bool = False) -> Callable[[Stage], None]:
    """Shows every stage; without a terminal, a line for each tenth of learning and one for each other, unless brief."""
    lines: dict[str, int] = {}

    def show(stage: Stage) -> None:
        watch.show(stage.name, stage.done, stage.total, stage.note)
        line = (LINES if stage.name.startswith("learning") else 1) * stage.done // stage.total
        if not brief and line > lines.get(stage.name, 0):
            lines[stage.name] = line
            left = watch.left(stage.done, stage.total)
            watch.line(f"{stage.name}: {stage.done:,} of {stage.total:,}{left}  {stage.note}".rstrip())

    return show


def _show(improvement: Improvement, seconds: float, brief: bool, as_json: bool) -> None:
    certificate = improvement.certificate
    if as_json:
        deploy = improvement.policy_file
        echo_json(
            {
                **certificate_as_json(certificate),
                "policy": None if deploy is None else str(deploy),
                "goal": {"file": str(improvement.goal_file), **certificate.goal.estimate.as_dict()},
                "algorithm": improvement.algorithm,
                "stopped_by_time": improvement.stopped,
                "report": str(improvement.report),
                "seconds": seconds,
            }
        )
        return
    console = answers()
    if brief:
        show_answer(console, certificate)
    else:
        show_summary(console, certificate)
        console.print()
    if improvement.policy_file is not None:
        console.print(Text(f"  deploy  {improvement.policy_file}"))
    console.print(Text(f"  goal    {improvement.goal_file}"))
    console.print(Text(f"  open    {improvement.report}"))
    if improvement.stopped:
        names = ", ".join(improvement.stopped)
        console.print(
            Text(f"  The time budget stopped learning with {names}; run the same command without it to resume.")
        )
    console.print(Text(f"  {seconds:.0f} s"))
