"""Our own: learns from half of the episodes, and returns the best step that the other half vouches for."""

from __future__ import annotations

from dataclasses import dataclass

from statewise.algorithms.cql import CQL
from statewise.algorithms.opposd import OPPOSD
from statewise.domains.tabular import Policy
from statewise.experiments.certified.answer import answer
from statewise.experiments.safe.finite_log import FiniteLog


@dataclass(frozen=True)
class Certified:
    """What `improve` would deploy, which sees the log alone, as a method of this benchmark."""

    discount: float = 0.95
    training: float | None = None  # share of the episodes to learn from; None: as `improve` does

    def __call__(self, log: FiniteLog) -> Policy | None:
        settings = {"opposd": OPPOSD(discount=self.discount), "cql": CQL(discount=self.discount)}
        found = answer((log.dataset,), settings, discount=self.discount, training=self.training, seed=log.seed)
        policy = found.certificate.policy
        return None if policy is None else policy.probabilities(log.seen)
