"""Basic RL: count a model, and plan in it as if it were the world."""

from __future__ import annotations

from dataclasses import dataclass

from statewise.domains.tabular import Policy
from statewise.experiments.safe.finite_log import FiniteLog
from statewise.experiments.safe.planning import greedy, iterate


@dataclass(frozen=True)
class BasicRL:
    """π = argmax Q̂*, the optimal policy of the counted model."""

    discount: float = 0.95

    def __call__(self, log: FiniteLog) -> Policy:
        return iterate(log.model, log.rewards, log.behaviour, self.discount, lambda values, _: greedy(values))
