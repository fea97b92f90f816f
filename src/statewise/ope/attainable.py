"""What can be earned at all: no estimate is believed, or printed, beyond it."""

from __future__ import annotations

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
