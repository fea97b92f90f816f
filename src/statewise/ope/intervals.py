"""From what each episode adds to an estimate to its interval: a studentised bootstrap, or Bernstein's inequality."""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from statewise.ope.quotient import Quotient, standard_error

Interval = Literal["bootstrap", "bernstein"]

MOST_GROUPS = 10_000  # more episodes than this are pooled at random before they are drawn: time no longer grows
FEW = 100  # groups, below which intervals are no narrower than Student's
CHUNK = 250  # draws at a time, which bounds memory


def bootstrap(
    estimates: list[Quotient], groups: Int[np.ndarray, " episodes"], level: float, draws: int, seed: int
) -> list[tuple[float, float]]:
    """Studentised intervals [θ − q₊ s, θ − q₋ s], q the quantiles of (θ* − θ)/s* over redrawn groups.

    One draw of the groups serves all estimates. Each needs five sums a draw: of D, and of R = N − θD and D themselves
    squared and multiplied, since θ* − θ = ΣR*/ΣD* and s* is the deviation of R − (θ* − θ)D.
    """
    generator = np.random.default_rng(seed)
    pooled, count = pool(groups, generator)
    columns = []
    for one in estimates:
        value = one.value if np.isfinite(one.value) else 0.0
        residual = np.bincount(pooled, one.numerator - value * one.denominator, minlength=count)
        below = np.bincount(pooled, one.denominator, minlength=count)
        columns += [residual, below, residual**2, residual * below, below**2]
    sums = redrawn(np.stack(columns, axis=1), draws, generator).reshape(draws, len(estimates), 5)
    intervals = []
    for i, one in enumerate(estimates):
        error = standard_error(one.influence(), groups)
        if not np.isfinite(error):
            intervals.append((-np.inf, np.inf))
            continue
        low, high = _quantiles(sums[:, i], level)
        if 1 < count < FEW and (low, high) != (0.0, 0.0):
            # redrawing few groups cannot show how far their own spread may be off
            least = student(level, count - 1)
            low, high = min(low, -least), max(high, least)
        intervals.append((one.value - high * error, one.value - low * error))
    return intervals


def bernstein(estimate: Quotient, groups: Int[np.ndarray, " episodes"], level: float) -> tuple[float, float]:
    """θ ± (√(2 v ln(4/δ)/G) + 7 R ln(4/δ)/(3(G − 1))), δ = 1 − level: empirical Bernstein, two-sided.

    v is the variance of the groups' values, R their range. The range is the one that the log shows: an importance
    weight has no smaller bound that is known. Maurer and Pontil (2009), theorem 4.
    """
    sums = np.bincount(groups, estimate.influence())
    count = len(sums)
    if count < 2 or not np.isfinite(sums).all():
        return -np.inf, np.inf
    sums = sums * count / len(groups)
    log = np.log(4 / (1 - level))
    half = np.sqrt(2 * sums.var(ddof=1) * log / count) + 7 * np.ptp(sums) * log / (3 * (count - 1))
    return estimate.value - half, estimate.value + half


def pool(
    groups: Int[np.ndarray, " episodes"], generator: np.random.Generator
) -> tuple[Int[np.ndarray, " episodes"], int]:
    """Merges groups at random where there are too many; sums of them vary as before."""
    count = int(groups.max()) + 1
    if count <= MOST_GROUPS:
        return groups, count
    return (generator.permutation(count) % MOST_GROUPS)[groups], MOST_GROUPS


def redrawn(
    columns: Float[np.ndarray, "groups columns"], draws: int, generator: np.random.Generator
) -> Float[np.ndarray, "draws columns"]:
    """Sums over groups drawn with replacement, as counts times columns."""
    count, parts = len(columns), []
    for first in range(0, draws, CHUNK):
        size = min(CHUNK, draws - first)
        drawn = generator.integers(count, size=(size, count), dtype=np.int32)
        drawn += np.arange(size, dtype=np.int32)[:, None] * count
        counts = np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count)
        parts.append(counts.astype(np.float64) @ columns)
    return np.concatenate(parts)


def _quantiles(sums: Float[np.ndarray, "draws 5"], level: float) -> tuple[float, float]:
    residual, below, residual2, product, below2 = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = residual / below
        spread = np.sqrt(np.maximum(residual2 - 2 * shift * product + shift**2 * below2, 0)) / below
        studentised = shift / spread
    studentised = studentised[np.isfinite(studentised)]
    if len(studentised) == 0:  # nothing varies
        return 0.0, 0.0
    low, high = np.quantile(studentised, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def student(level: float, freedom: int) -> float:
    """Student's two-sided quantile, by its expansion around the normal one: to .1 % from four degrees on."""
    z, v = NormalDist().inv_cdf((1 + level) / 2), float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / v**power for power, term in enumerate(terms, start=1))
