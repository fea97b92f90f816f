"""Our own: learns from half of the episodes, and returns only what the other half vouches for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statewise.algorithms.cql import CQL
from statewise.data.dataset import Dataset
from statewise.domains.tabular import Policy
from statewise.experiments.safe.finite_log import FiniteLog
from statewise.learning.fit import fit
from statewise.ope.gate import gate


@dataclass(frozen=True)
class Certified:
    """`certified`, which sees the log alone, as a method of this benchmark."""

    discount: float = 0.95
    training: float = 0.5

    def __call__(self, log: FiniteLog) -> Policy | None:
        policy = certified(log.dataset, log.seed, self.discount, self.training)
        return None if policy is None else policy.probabilities(log.seen)


def certified(log: Dataset, seed: int, discount: float, training: float) -> Any | None:
    """A policy that may be deployed, or None: keep what is done today."""
    train, held_out = log.split(training, seed=seed)
    policy = fit(train, CQL(discount=discount), seeds=[seed]).policies[0]
    return policy if gate(policy, held_out, discount=discount).answer == "deploy" else None
