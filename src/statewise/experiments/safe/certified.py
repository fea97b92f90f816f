"""Our own: learns from half of the episodes, and returns the best step that the other half vouches for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statewise.algorithms.cql import CQL
from statewise.algorithms.opposd import OPPOSD
from statewise.data.dataset import Dataset
from statewise.domains.tabular import Policy
from statewise.experiments.safe.finite_log import FiniteLog
from statewise.learning.fit import fit
from statewise.ope.certify import certify, learning_part
from statewise.policies.simple import constants


@dataclass(frozen=True)
class Certified:
    """`certified`, which sees the log alone, as a method of this benchmark."""

    discount: float = 0.95
    training: float | None = None  # share of the episodes to learn from; None: as `improve` does

    def __call__(self, log: FiniteLog) -> Policy | None:
        policy = certified(log.dataset, log.seed, self.discount, self.training)
        return None if policy is None else policy.probabilities(log.seen)


def certified(log: Dataset, seed: int, discount: float, training: float | None = None) -> Any | None:
    """A policy that may be deployed, or None: keep what is done today."""
    part = learning_part(log) if training is None else training
    learning, held_out = log.split(part, seed=seed)
    rules = constants(learning)
    return certify(
        {**learned(learning, seed, discount), **rules},
        held_out,
        learning=learning,
        simple=rules,
        discount=discount,
        seed=seed,
        part=1 - part,
    ).policy


def learned(learning: Dataset, seed: int, discount: float) -> dict[str, Any]:
    """What each algorithm learns from these episodes, by name."""
    settings = {"opposd": OPPOSD(discount=discount), "cql": CQL(discount=discount)}
    return {name: fit(learning, config, seeds=[seed]).policies[0] for name, config in settings.items()}
