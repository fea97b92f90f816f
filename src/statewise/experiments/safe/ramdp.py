"""RaMDP: plans with rewards that are lowered the more, the seldomer an action was tried."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from statewise.domains.tabular import Policy
from statewise.experiments.safe.finite_log import FiniteLog
from statewise.experiments.safe.planning import greedy, iterate

NEVER_TRIED = 1e-5  # counts as so many trials


@dataclass(frozen=True)
class RaMDP:
    """r̃(s,a) = r̂(s,a) − κ/√n(s,a). Petrik, Ghavamzadeh, Chow (2016)."""

    discount: float = 0.95
    penalty: float = 0.05  # κ

    def __call__(self, log: FiniteLog) -> Policy:
        lowered = log.rewards - self.penalty / np.sqrt(np.maximum(log.counts, NEVER_TRIED))
        return iterate(log.model, lowered, log.behaviour, self.discount, lambda values, _: greedy(values))
