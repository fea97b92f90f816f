"""Policies for other programs: the formats by name, and the check that what is written is the policy itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from statewise.base.registry import Registry
from statewise.data.encoding import Code
from statewise.policies.act import arrange, codes_of
from statewise.policies.files import StoredPolicy
from statewise.policies.network import Policy
from statewise.policies.path import PathPolicy

TOLERANCE = 1e-6  # between a file's probabilities and the policy's own
TRIED = 1000  # observations that both are asked about


@dataclass(frozen=True)
class Export:
    """A format of files that other programs act by."""

    ending: str
    write: Callable[[Any, str], bytes]  # the file's contents, from the policy and the file's name without its ending
    # [n, actions], by those contents, of observations [n, features], or of raw rows where the policy takes such
    probabilities: Callable[[bytes, Any], np.ndarray]


EXPORTS: Registry[Export] = Registry(
    "export format", {"onnx": "statewise.policies.onnx:EXPORT", "numpy": "statewise.policies.python:EXPORT"}
)


def export_policy(policy: StoredPolicy, format: str, name: str = "policy") -> bytes:
    """The contents of a file in one of the formats `EXPORTS`; raises where it would act otherwise than the policy.

    >>> Path("policy.onnx").write_bytes(export_policy(policy, "onnx"))  # doctest: +SKIP
    """
    export = EXPORTS[format]
    contents = export.write(policy, name)
    rows = raw_rows(policy)
    observations = _observations(policy) if rows is None else arrange(policy, rows)
    asked = observations if rows is None else rows
    difference = np.abs(export.probabilities(contents, asked) - policy.probabilities(observations)).max()
    if not difference <= TOLERANCE:
        raise ValueError(f"the {format} file differs from the policy by {difference:.2g}; it was not written")
    return contents


def raw_codes(policy: StoredPolicy) -> tuple[Code, ...] | None:
    """What becomes of the policy's columns; None where they are numbers, and stay as they are."""
    codes = codes_of(policy)
    return None if all(code.plain for code in codes) else codes


def raw_rows(policy: StoredPolicy, count: int = TRIED, seed: int = 0) -> list[list[Any]] | None:
    """Random rows as the policy's log held them, words unknown to it and gaps included; None where it takes numbers."""
    codes = raw_codes(policy)
    if codes is None:
        return None
    rng = np.random.default_rng(seed)
    spread, network = {name: (0.0, 1.0) for name in policy.observation_names}, spread_of(policy)
    if network is not None:
        spread = dict(zip(network.observation_names, zip(network.mean, network.std, strict=True), strict=True))
    return [[_raw(code, spread.get(code.name, (0.0, 1.0)), rng) for code in codes] for _ in range(count)]


def _raw(code: Code, spread: tuple[float, float], rng: np.random.Generator) -> Any:
    if rng.random() < 0.1 and (code.gaps or code.kind == "words"):
        return None
    number = spread[0] + 2 * rng.normal() * spread[1]
    if code.kind in ("words", "order"):
        unknown = ["a word that the log does not hold"] if code.kind == "words" or code.gaps else []
        return str(rng.choice([*code.words, *unknown]))
    if code.kind == "date":
        assert code.origin is not None
        day = datetime.fromisoformat(code.origin) + timedelta(days=round(min(abs(number), 50_000)))
        return day.isoformat() if code.format is None else day.strftime(code.format)
    return bool(rng.random() < 0.5) if code.kind == "flag" else float(number)


# A network by its place, or a step between two of these: its way, its step, and its ends
Shape = int | tuple[str, float, Any, Any]


def networks_of(policy: Any) -> tuple[list[Policy], Shape]:
    """The networks that a policy is made of, and how: for formats that hold nothing else."""
    if isinstance(policy, PathPolicy):
        (first, today), (second, goal) = networks_of(policy.today), networks_of(policy.goal)
        return [*first, *second], (policy.way, policy.step, today, _shifted(goal, len(first)))
    if not isinstance(policy, Policy):
        raise ValueError(
            f"expected a network, or a step between networks, got a {type(policy).__name__}: only those can be "
            "exported; the policy's own file needs nothing but NumPy (statewise.load_policy)"
        )
    return [policy], 0


def _shifted(shape: Shape, by: int) -> Shape:
    if isinstance(shape, int):
        return shape + by
    way, step, today, goal = shape
    return way, step, _shifted(today, by), _shifted(goal, by)


def _observations(policy: StoredPolicy) -> np.ndarray:
    """Random ones, [n, features]; for a network, twice as far from the log's mean as the log's own."""
    noise = np.random.default_rng(0).normal(size=(TRIED, len(policy.observation_names)))
    network = spread_of(policy)
    return noise if network is None else network.mean + 2 * noise * network.std


def spread_of(policy: Any) -> Policy | None:
    """A network that knows the mean and deviation of the log's observations; None where there is none."""
    if isinstance(policy, PathPolicy):
        return spread_of(policy.today)
    return policy if isinstance(policy, Policy) else None
