"""The Markov chain whose stationary ratio is estimated; derived here alone, for learning and evaluation alike.

- *renewal*: an episode that ends starts again. The stationary ratio is that of expected visits per episode.
- *discounted*: the same, where every step also ends the episode with probability 1 − γ: the ratio of discounted visits.
- *continuing*: episodes continue after the log, and the ratio is that of stationary distributions.

Where the log has a clock, its states are those of state and time together, and the limit is an end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from statewise.base.column import like
from statewise.data.clock import has_clock
from statewise.data.dataset import Dataset
from statewise.data.horizon import nothing_follows, recorded_weight

Kind = Literal["renewal", "continuing", "discounted"]


@dataclass(frozen=True, eq=False)
class Chain:
    """Where each row of a log leads, and how much it counts."""

    kind: Kind
    onward: Float[np.ndarray, " steps"]  # γc: the chance of moving on to the next state; otherwise the episode restarts
    recorded: Float[np.ndarray, " steps"]  # what the row stands for; 0 where the next state is unknown
    weight: Float[np.ndarray, " steps"]  # γᵗ times that
    timed: bool = False  # states are those of state and time together

    @property
    def visits(self) -> Float[np.ndarray, " steps"] | None:
        """The rows' weights; None where all are equal."""
        equal = self.kind != "discounted" and not self.timed and bool((self.weight == self.weight[0]).all())
        return None if equal or self.kind == "continuing" else self.weight


def kind_of(dataset: Dataset, discount: float, stationary: bool = True) -> Kind:
    """Which equations hold. Where no episode terminates, `stationary` includes what happens after the log."""
    if discount < 1:
        return "discounted"
    endless = stationary and not dataset.terminated.any() and not has_clock(dataset)
    return "continuing" if endless else "renewal"


def chain_of(dataset: Dataset, discount: float, stationary: bool = True) -> Chain:
    """The chain of the states in a log."""
    kind, last = kind_of(dataset, discount, stationary), dataset.starts[1:] - 1
    onward = like(dataset.rewards, len(dataset))
    onward += float(discount)
    if kind == "continuing":
        usable = like(dataset.rewards, len(dataset))
        usable += 1.0
        usable[last] = dataset.has_final_observation
    else:
        usable = recorded_weight(dataset)
        onward[last] = 0.0
        onward[nothing_follows(dataset)] = 0.0
    return Chain(kind, onward, usable, discount**dataset.time * usable, timed=has_clock(dataset))
