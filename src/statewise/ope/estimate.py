"""`Estimate`: what a policy is worth, how sure that is, and whether the log can tell at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from statewise.ope.diagnostics import Support, Verdict

Objective = Literal["return", "average"]
Interval = Literal["bootstrap", "bernstein"]


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """The value of a policy by one estimator, with its interval and a verdict on whether the log supports it.

    `influence` says what each episode moves the estimate by: value ≈ truth + mean(influence) with mean 0 on the log, so
    that `standard_error` = std(influence)/√episodes (over whole units where the log has them). Two estimates on the
    same log are compared through the difference of their influences, which is paired by episode.
    """

    estimator: str
    value: float
    low: float
    high: float
    standard_error: float
    level: float
    effective_sample_size: float  # in episodes
    verdict: Verdict
    reason: str
    diagnostics: Support
    influence: Float[np.ndarray, " episodes"]
    shares: Float[np.ndarray, " episodes"]  # of all weight, what each episode carries; 0 where none carries any
    objective: Objective = "return"
    discount: float = 1.0

    @property
    def identified(self) -> bool:
        return self.verdict != "not identified"

    def __str__(self) -> str:
        """One line; a value that the log cannot tell is not printed."""
        if not self.identified:
            return f"{self.estimator}: not identified: {self.reason}"
        return (
            f"{self.estimator}: {self.value:.4g} ({100 * self.level:g} % interval {self.low:.4g} to {self.high:.4g}), "
            f"{self.verdict}: {self.reason}"
        )

    __repr__ = __str__
