"""Differences between two methods on the same datasets: their mean, and Student's interval for it.

d̄ ± t_{n−1} · s/√n,  d the differences of the n pairs
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """The mean difference, its interval (infinite with a single pair), and in how many pairs the first had more."""

    pairs: int
    mean: float
    low: float
    high: float
    more: int


def difference(
    first: Float[np.ndarray, " pairs"], second: Float[np.ndarray, " pairs"], level: float = LEVEL
) -> Difference:
    """Of first − second, without the pairs in which either is not finite."""
    gaps = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    gaps = gaps[np.isfinite(gaps)]
    count = len(gaps)
    if count == 0:
        return Difference(0, float("nan"), float("nan"), float("nan"), 0)
    mean, more = float(gaps.mean()), int((gaps > 0).sum())
    if count == 1:
        return Difference(1, mean, float("-inf"), float("inf"), more)
    half = float(stdtrit(count - 1, (1 + level) / 2) * gaps.std(ddof=1) / np.sqrt(count))
    return Difference(count, mean, mean - half, mean + half, more)
