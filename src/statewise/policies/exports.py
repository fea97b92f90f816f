"""Policies for other programs: the formats by name, and the check that what is written is the policy itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from statewise.base.registry import Registry
from statewise.policies.files import StoredPolicy
from statewise.policies.network import Policy

TOLERANCE = 1e-6  # between a file's probabilities and the policy's own
TRIED = 1000  # observations that both are asked about


@dataclass(frozen=True)
class Export:
    """A format of files that other programs act by."""

    ending: str
    write: Callable[[Any, str], bytes]  # the file's contents, from the policy and the file's name without its ending
    probabilities: Callable[[bytes, np.ndarray], np.ndarray]  # [n, actions], by those contents, of [n, features]


EXPORTS: Registry[Export] = Registry(
    "export format", {"onnx": "statewise.policies.onnx:EXPORT", "numpy": "statewise.policies.python:EXPORT"}
)


def export_policy(policy: StoredPolicy, format: str, name: str = "policy") -> bytes:
    """The contents of a file in one of the formats `EXPORTS`; raises where it would act otherwise than the policy.

    >>> Path("policy.onnx").write_bytes(export_policy(policy, "onnx"))  # doctest: +SKIP
    """
    export = EXPORTS[format]
    contents = export.write(policy, name)
    observations = _observations(policy)
    difference = np.abs(export.probabilities(contents, observations) - policy.probabilities(observations)).max()
    if not difference <= TOLERANCE:
        raise ValueError(f"the {format} file differs from the policy by {difference:.2g}; it was not written")
    return contents


def only_network(policy: StoredPolicy) -> Policy:
    """The policy, for formats that hold nothing but networks."""
    if not isinstance(policy, Policy):
        raise ValueError(
            f"expected a network, got a {type(policy).__name__}: only networks can be exported; the policy's own "
            "file can be used without anything but NumPy (statewise.load_policy)"
        )
    return policy


def _observations(policy: StoredPolicy) -> np.ndarray:
    """Random ones, [n, features]; for a network, twice as far from the log's mean as the log's own."""
    noise = np.random.default_rng(0).normal(size=(TRIED, len(policy.observation_names)))
    return policy.mean + 2 * noise * policy.std if isinstance(policy, Policy) else noise
