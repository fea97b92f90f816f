"""What the behaviour itself earned: the yardstick, whatever the policy."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from statewise.data.horizon import moved_by_records
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient


def behaviour_return(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V(μ) = mean over episodes of Σₜ γᵗ rₜ, rows standing for those of their time that are no longer recorded."""
    log = case.prepared
    ones, earned = np.ones(log.dataset.episodes), log.growth * rewards
    each = log.by_episode(earned) + moved_by_records(log.dataset, earned)
    return Quotient(each, ones, weight=ones, base=ones, reweighted=False)
