"""A log for a command: its notes told, and its propensities estimated where that is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from statewise.cli.flags import with_flags
from statewise.cli.options import log_arguments
from statewise.cli.progress import bar
from statewise.cli.scanned import read_any
from statewise.cli.terminal import note
from statewise.data.dataset import Dataset
from statewise.data.schema import Schema
from statewise.propensities.estimate import Model, estimate_propensities

FOLDS = 5


class ReadLike:
    """Stands for a policy where one log is to be read as another was."""

    def __init__(self, log: Dataset):
        self.card = Schema.stated(log.schema)
        self.action_names = log.action_names if log.has_action_words else None


def read_log(
    log: Path,
    options: dict[str, Any],
    console: Console,
    target_prefix: str | None = None,
    policy: Any = None,
) -> tuple[Dataset, bool]:
    """The checked log, and whether its propensities are to be estimated; what is suspicious goes to the console.

    The log is read as that of the `policy` was, where its file says how; where it calls its actions by words, the log's
    are understood as those.
    """
    arguments = log_arguments(options)
    schema = Schema.of(getattr(policy, "card", {}))
    if options.get("propensity_model") and arguments["propensity"] != "estimate" and schema is None:
        raise click.UsageError("--propensity-model is for --propensity estimate.")
    arguments["schema"] = schema
    arguments["columns"] = replace(arguments["columns"], target_prefix=target_prefix)
    scanning = {name: options.pop(name, None) for name in ("memory", "scratch")}
    dataset, findings = read_any(log, arguments, dict(scanning), console)
    words = getattr(policy, "action_names", None)
    if arguments["actions"] is None and words and dataset is not None and dataset.has_action_words:
        dataset, findings = read_any(log, arguments | {"actions": words}, scanning, console)
    findings.raise_faults()
    assert dataset is not None
    for warning in findings.warnings:
        note(console, with_flags(str(warning)))
    return dataset, dataset.propensities is None


def estimated(dataset: Dataset, console: Console, model: Model | None = None) -> Dataset:
    """With a bar, and a word on how far the estimates can be trusted."""
    with bar("estimating propensities", FOLDS, quiet=console.quiet) as progress:
        dataset = estimate_propensities(dataset, model or "boosting", folds=FOLDS, progress=progress)
    assert dataset.estimated is not None
    note(console, dataset.estimated.summary)
    return dataset


def propensities_as_json(dataset: Dataset) -> dict[str, Any] | None:
    """How they were estimated, and how good they are; None where they were logged."""
    if dataset.estimated is None:
        return None
    calibration = dataset.estimated.calibration
    return {
        "model": str(dataset.estimated.model),
        "calibration_error": calibration.error,
        "standard_error": calibration.standard_error,
        "by_chance": calibration.chance,
        "brier": calibration.brier,
        "brier_of_frequencies": calibration.brier_of_frequencies,
        "summary": dataset.estimated.summary,
        "reliability": [vars(one) for one in calibration.reliability],
    }
