"""What can be earned at all: no estimate is believed, or printed, beyond it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from statewise.ope.prepared import Prepared


def attainable(log: Prepared) -> tuple[float, float]:
    """The value of the least and the greatest logged reward at every step, or at the first where it may end there."""
    rewards = log.dataset.rewards[log.growth > 0]
    least, greatest = float(rewards.min()), float(rewards.max())
    if log.objective == "average":
        return least, greatest
    # where episodes end by themselves, nobody knows how long others would go on
    longest = log.longest
    shortest = longest if log.equally_long else 1.0
    return least * (longest if least < 0 else shortest), greatest * (longest if greatest > 0 else shortest)


def reach(log: Prepared, rewards: Float[np.ndarray, " steps"]) -> float:
    """The spread of rewards that lie anywhere between the least and the greatest: range/√12.

    So much may a step differ where the log has never been. What has ended earns 0.
    """
    counted = rewards[log.growth > 0]
    ends = 0.0 if log.dataset.terminated.any() else float(counted[0])
    return float(max(counted.max(), ends) - min(counted.min(), ends)) / np.sqrt(12)
