"""`--reward-parts`: the columns and weights that the reward was made of."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from statewise.cli.scanned import is_scanned
from statewise.data.dataset import Dataset
from statewise.data.findings import LogWarning
from statewise.data.table import load
from statewise.ope.reward_sensitivity import RewardPart

Parts = dict[str, tuple[float, np.ndarray]]


class Weights(click.ParamType):
    """COLUMN=WEIGHT,…"""

    name = "COLUMN=WEIGHT,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, float]:
        if isinstance(value, dict):
            return value
        weights = {}
        for each in value.split(","):
            column, _, weight = each.rpartition("=")
            try:
                weights[column.strip()] = float(weight)
            except ValueError:
                self.fail(f"expected COLUMN=WEIGHT, such as cost=-1, got {each.strip()!r}", param, ctx)
            if not column.strip() or not math.isfinite(weights[column.strip()]) or weights[column.strip()] == 0:
                self.fail(f"expected a column and a weight other than 0, got {each.strip()!r}", param, ctx)
        return weights


reward_parts_option = click.option(
    "--reward-parts",
    type=Weights(),
    help="The reward is the sum of these columns, each times its weight: say how far each weight could change before "
    "deploy would be overturned.",
)


def read_parts(log: Path, dataset: Dataset, weights: dict[str, float]) -> dict[str, tuple[float, Dataset]]:
    """The log with each part in the place of its reward, and the part's weight."""
    if is_scanned(log):
        raise click.UsageError("--reward-parts needs a LOG that is a single file.")
    schema = dataset.schema
    assert schema is not None  # it was read from a file
    found = {}
    for column, weight in weights.items():
        columns = replace(schema.columns, reward=column)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LogWarning)  # of the log itself, and told already
            found[column] = weight, load(log, columns=columns, schema=replace(schema, columns=columns))
    return found


def of_half(parts: dict[str, tuple[float, Dataset]], seed: int) -> dict[str, tuple[float, Dataset]]:
    """Those of the second half of the episodes."""
    return {column: (weight, part.split(0.5, seed=seed)[1]) for column, (weight, part) in parts.items()}


def values(parts: dict[str, tuple[float, Dataset]]) -> Parts:
    """The weight and the rows of each."""
    return {column: (weight, part.rewards) for column, (weight, part) in parts.items()}


def parts_as_json(found: tuple[RewardPart, ...] | None) -> list[dict[str, Any]] | None:
    """None where it was not asked for."""
    if found is None:
        return None
    return [
        {
            "column": one.name,
            "weight": one.weight,
            "lower": one.lower,
            "upper": one.upper,
            "least_change": one.least_change,
        }
        for one in found
    ]
