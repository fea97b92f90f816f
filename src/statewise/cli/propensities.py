"""A log for a command: its notes told, and its propensities estimated where that is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from statewise.cli.options import log_arguments
from statewise.cli.progress import bar
from statewise.cli.terminal import note
from statewise.data.dataset import Dataset
from statewise.data.table import read
from statewise.propensities.estimate import Model, Propensities, estimate_propensities

FOLDS = 5


def read_log(
    log: Path,
    options: dict[str, Any],
    console: Console,
    target_prefix: str | None = None,
    policy: Any = None,
) -> tuple[Dataset, bool]:
    """The checked log, and whether its propensities are to be estimated; what is suspicious goes to the console.

    Where the `policy` that is to be evaluated calls its actions by words, the log's are understood as those.
    """
    arguments = log_arguments(options)
    if options.get("propensity_model") and arguments["propensity"] != "estimate":
        raise click.UsageError("--propensity-model is for --propensity estimate.")
    arguments["columns"] = replace(arguments["columns"], target_prefix=target_prefix)
    dataset, findings = read(log, **arguments)
    words = getattr(policy, "action_names", None)
    if arguments["actions"] is None and words and dataset is not None and dataset.has_action_words:
        dataset, findings = read(log, **arguments | {"actions": words})
    findings.raise_faults()
    assert dataset is not None
    for warning in findings.warnings:
        note(console, str(warning))
    return dataset, arguments["propensity"] == "estimate"


def estimated(dataset: Dataset, console: Console, model: Model | None = None) -> Propensities:
    """With a bar, and a word on how far the estimates can be trusted."""
    with bar("estimating propensities", FOLDS, quiet=console.quiet) as progress:
        found = estimate_propensities(dataset, model or "boosting", folds=FOLDS, progress=progress)
    note(console, found.words)
    return found


def propensities_as_json(found: Propensities | None) -> dict[str, Any] | None:
    if found is None:
        return None
    told = found.calibration
    return {
        "model": str(found.model),
        "calibration_error": told.error,
        "standard_error": told.standard_error,
        "by_chance": told.chance,
        "brier": told.brier,
        "brier_of_frequencies": told.brier_of_frequencies,
        "words": found.words,
        "reliability": [vars(one) for one in told.reliability],
    }
