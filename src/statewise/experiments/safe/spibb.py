"""SPIBB: does what the behaviour does with whatever was tried too seldom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from statewise.domains.tabular import Policy
from statewise.experiments.safe.finite_log import FiniteLog
from statewise.experiments.safe.planning import greedy, iterate


@dataclass(frozen=True)
class SPIBB:
    """Π_b-SPIBB: π(a|s) = π_b(a|s) where n(s,a) < N∧; the rest goes to the best action that was tried often enough.

    Laroche, Trichelair, Tachet des Combes (2019), algorithm 1.
    """

    discount: float = 0.95
    least_count: float = 8.0  # N∧; the authors' code, with N∧ = 7, asks for more than 7

    def __call__(self, log: FiniteLog) -> Policy:
        known = log.counts >= self.least_count
        kept = np.where(known, 0.0, log.behaviour)
        free = np.where(known.any(axis=1), 1 - kept.sum(axis=1), 0.0)

        def improve(values: Float[np.ndarray, "states actions"], _: Policy) -> Policy:
            return kept + free[:, None] * greedy(np.where(known, values, -np.inf))

        return iterate(log.model, log.rewards, log.behaviour, self.discount, improve)
