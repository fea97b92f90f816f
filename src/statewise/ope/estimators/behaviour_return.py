"""What the behaviour itself earned: the yardstick, whatever the policy."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient


def behaviour_return(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """V(μ) = mean over episodes of Σₜ γᵗ rₜ."""
    log = case.prepared
    ones = np.ones(log.dataset.episodes)
    return Quotient(log.by_episode(log.growth * rewards), ones, weight=ones, base=ones, reweighted=False)
