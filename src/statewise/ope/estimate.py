"""`Estimate`: what a policy is worth, how sure that is, and whether the log can tell at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from statewise.base.drawn import drawn
from statewise.ope.measures import Measurement
from statewise.ope.prepared import Objective
from statewise.ope.support import Support
from statewise.ope.verdict import Verdict


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
    effective_sample_size: float  # in episodes, or units where the log has them
    verdict: Verdict
    reason: str
    measures: tuple[Measurement, ...]  # every check, the one that decided the verdict first
    diagnostics: Support
    influence: Float[np.ndarray, " episodes"]
    shares: Float[np.ndarray, " episodes"]  # of all weight, what each episode carries; 0 where none carries any
    objective: Objective = "return"
    discount: float = 1.0

    @property
    def identified(self) -> bool:
        return self.verdict != "not identified"

    def widened(self, below: float, above: float) -> Estimate:
        """The same with its error multiplied on either side, as where propensities were estimated."""
        return replace(
            self,
            low=self.value - below * (self.value - self.low),
            high=self.value + above * (self.high - self.value),
            standard_error=max(below, above) * self.standard_error,
        )

    def within(self, least: float, greatest: float) -> Estimate:
        """The same, never beyond what can be earned."""
        value, low, high = (float(np.clip(number, least, greatest)) for number in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, cards and reports; a value that the log does not identify is None."""
        names = ("value", "low", "high", "standard_error")
        return {
            "estimator": self.estimator,
            "verdict": self.verdict,
            "reason": self.reason,
            **{name: getattr(self, name) if self.identified else None for name in names},
            "level": self.level,
            "effective_sample_size": self.effective_sample_size,
            "discount": self.discount,
            "measures": [measure.as_dict() for measure in self.measures],
        }

    def __str__(self) -> str:
        """One line; a value that the log does not identify is not printed."""
        if not self.identified:
            return f"{self.estimator}: not identified: {self.reason}"
        return (
            f"{self.estimator}: {self.value:.4g} ({100 * self.level:g} % interval {self.low:.4g} to {self.high:.4g}), "
            f"{self.verdict}: {self.reason}"
        )

    __repr__ = __str__
    _repr_html_ = drawn("statewise.report.notebook:estimate")
