"""`Estimated`: what a Dataset carries if its propensities were estimated, not logged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from statewise.data.dataset import Dataset
from statewise.propensities.calibration import Calibration, taken

ASSUMPTION = "This assumes that decisions were based on nothing but the logged observations."


@dataclass(frozen=True, eq=False, repr=False)
class Estimated:
    """How a log's propensities were estimated, and how far they can be trusted.

    Parts of a log (`take`, `split`) share the calibration and the refits of the whole, which are computed once.
    """

    calibration: Calibration  # of the whole log
    temperature: float  # above 1, the classifier was overconfident
    model: Any
    folds: int
    seed: int
    log: Dataset  # the whole log, with its estimated propensities
    refit: Callable[[], tuple[Float[np.ndarray, "steps actions"], ...]]  # new distributions for the whole log
    rows: Int[np.ndarray, " rows"] | None = None  # of the whole log that this part has; None: all

    @property
    def summary(self) -> str:
        return f"{self.calibration.summary} {ASSUMPTION}"

    def take(self, rows: Int[np.ndarray, " rows"]) -> Estimated:
        """The same for some of the rows."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def describes(self, dataset: Dataset) -> bool:
        """Whether the actions and propensities of a log are those of the estimate."""
        return all(
            np.array_equal(self._of(getattr(self.log, name)), getattr(dataset, name))
            for name in ("actions", "propensities", "distributions")
        )

    def refits(self, dataset: Dataset) -> tuple[Dataset, ...]:
        """The log with the propensities of each refit, as if they had been logged."""
        return tuple(filled(dataset, self._of(distributions)) for distributions in self.refit())

    def _of(self, column: np.ndarray) -> np.ndarray:
        return column if self.rows is None else column[self.rows]

    def __repr__(self) -> str:
        return f"Estimated: {self.summary}"


def filled(dataset: Dataset, distributions: Float[np.ndarray, "steps actions"]) -> Dataset:
    """The log with these distributions, as if they had been logged."""
    propensities = taken(distributions, dataset.actions)
    return replace(dataset, propensities=propensities, distributions=distributions, estimated=None)
