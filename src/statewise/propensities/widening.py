"""What estimated propensities add to the uncertainty of an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np


def with_refits(estimate: Any, values: Sequence[float]) -> Any:
    """Widens an estimate that rests on estimated propensities by how far it moves when they are refitted.

    `values` are the same estimate on each of `Dataset.refits`. With s the standard error if the propensities were known
    and b² the variance between refits, the standard error becomes √(s² + b²), and the interval grows in proportion.
    This is conservative: the two errors often cancel in part.
    """
    factor = widening(estimate.standard_error, values)
    return replace(
        estimate,
        low=estimate.value - factor * (estimate.value - estimate.low),
        high=estimate.value + factor * (estimate.high - estimate.value),
        standard_error=factor * estimate.standard_error,
    )


def widening(standard_error: float, values: Sequence[float]) -> float:
    """√(s² + b²)/s; 1 without refits."""
    if len(values) < 2 or not standard_error > 0:
        return 1.0
    return float(np.hypot(standard_error, np.std(values, ddof=1)) / standard_error)
