"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from statewise.data.rawlog import NAMED, Columns


def log_options(command: Callable) -> Callable:
    """How to read a log; `log_arguments` turns what was given into arguments of `statewise.load`."""
    for name in reversed(NAMED):
        command = click.option(f"--{name}-column", metavar="NAME", help=f"Column that holds the {name}.")(command)
    command = click.option(
        "--observations", metavar="A,B,…", help="Columns that describe the state [default: all named obs_…]."
    )(command)
    command = click.option(
        "--actions",
        type=click.IntRange(min=1),
        help="Number of actions [default: the largest seen, plus one].",
    )(command)
    command = click.option(
        "--ends",
        type=click.Choice(["terminated", "truncated"]),
        help="How every episode ended, where no column tells.",
    )(command)
    return click.option(
        "--propensity",
        type=click.Choice(["logged", "estimate"]),
        default="logged",
        show_default=True,
        help="Whether the log holds the taken action's probability.",
    )(command)


def log_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of `log_options` out of `given`."""
    names = {name: given.pop(f"{name}_column") for name in NAMED}
    names = {name: column for name, column in names.items() if column is not None}
    observations = given.pop("observations")
    if observations is not None:
        names["observations"] = tuple(name.strip() for name in observations.split(","))
    return {"columns": Columns(**names)} | {key: given.pop(key) for key in ("actions", "ends", "propensity")}


def writable(path: Path) -> None:
    """Finds out that a file cannot be written before the work is done whose result it should hold."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.touch()
        part.unlink()
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be written: {error.strerror}", param_hint="--out") from error


def finite(told: Any) -> Any:
    """JSON has no word for infinity: such a number becomes null."""
    if isinstance(told, dict):
        return {key: finite(value) for key, value in told.items()}
    if isinstance(told, list | tuple):
        return [finite(value) for value in told]
    return None if isinstance(told, float) and not math.isfinite(told) else told


seed_option = click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for a machine.")
