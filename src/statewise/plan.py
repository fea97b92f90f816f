"""What an owner may say of how a log becomes a decision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, get_args

from statewise.propensities.crossfit import Model


@dataclass(frozen=True)
class Plan:
    """How to go from a log to a decision; what is None follows from the log."""

    discount: float | None = None  # None: taken from the log, which gives 1 where episodes terminate
    beside: tuple[Any, ...] = ("offpac", "cql")  # other algorithms to learn with, as settings or names
    seeds: int = 1  # runs of each algorithm
    updates: int | None = None  # updates of the policy; None: as in the algorithm's settings
    time_budget: float | None = None  # seconds; learning stops at the first checkpoint after its share of them
    level: float = 0.95  # confidence of bounds and intervals
    propensities: str = "boosting"  # the model that estimates propensities, if the log has none
    seed: int = 0  # seed of the split, and of the first run
    subgroups: tuple[str, ...] | None = None  # columns by which the report shows the gain; None: chosen from the log

    def __post_init__(self) -> None:
        models = get_args(Model)
        for name, expected, holds in (
            ("seeds", "1 or more", self.seeds >= 1),
            ("updates", "1 or more", self.updates is None or self.updates >= 1),
            ("time_budget", "seconds, above 0", self.time_budget is None or 0 < self.time_budget < math.inf),
            ("propensities", f"one of {', '.join(models)}", self.propensities in models),
            ("level", "a number between 0.5 and 1", 0.5 < self.level < 1),
            ("seed", "0 or more", self.seed >= 0),
            ("discount", "a number above 0 and at most 1", self.discount is None or 0 < self.discount <= 1),
        ):
            if not holds:
                raise ValueError(f"{name}: expected {expected}, got {getattr(self, name)!r}")
