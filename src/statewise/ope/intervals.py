"""From what each episode adds to an estimate to its interval.

Three kinds: a studentised bootstrap that on neither side is narrower than Student's; the same moved outwards, for where
the support is weak; and Bernstein's inequality, which takes nothing for granted but the range.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from statewise.ope.quotient import Quotient, standard_error

Interval = Literal["bootstrap", "cautious", "bernstein"]

MOST_GROUPS = 10_000  # more episodes than this are pooled at random before they are drawn: time no longer grows
SELDOMER = 5  # times less often than its level says may a cautious interval miss
SERIES = 30  # degrees of freedom from which on the series for Student's quantile is exact to 1e-6
ANGLES = 4001  # at which Student's distribution is summed below that
CHUNK = 250  # draws at a time, which bounds memory


def bootstrap(
    estimates: list[Quotient], groups: Int[np.ndarray, " episodes"], level: float, draws: int, seed: int
) -> list[tuple[float, float]]:
    """Studentised intervals [θ − q₊ s, θ − q₋ s], q the quantiles of (θ* − θ)/s* over redrawn groups.

    Neither |q| is less than Student's quantile with `freedom` degrees: redrawn groups cannot show how far their own
    spread may be off, and a skewness that comes of a few of them must not shorten a side.

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
        if (low, high) != (0.0, 0.0):
            least = student(level, freedom(one.influence(), groups))
            low, high = min(low, -least), max(high, least)
        intervals.append((one.value - high * error, one.value - low * error))
    return intervals


def freedom(influence: Float[np.ndarray, " episodes"], groups: Int[np.ndarray, " episodes"]) -> float:
    """2G/(κ − 1), G − 1 at most: how many degrees of freedom the standard error has, κ the groups' kurtosis.

    The variance of G values has a relative variance of (κ − 1)/G, and that of normal ones with ν degrees 2/ν
    (Satterthwaite 1946). Where two of four hundred episodes make up the variance, they are what it is known from.
    """
    squares = np.bincount(groups, influence) ** 2
    count, total = len(squares), float(squares.sum())
    if count < 2 or not total > 0:
        return 1.0 if count < 2 else float(count - 1)
    excess = max(count * float(np.sum((squares / total) ** 2)) - 1, 1e-12)  # κ − 1
    return float(min(count - 1, 2 * count / excess))


def seldomer(level: float) -> float:
    """The level of a cautious interval."""
    return 1 - (1 - level) / SELDOMER


def cautious(
    bound: tuple[float, float], estimate: Quotient, groups: Int[np.ndarray, " episodes"], level: float
) -> tuple[float, float]:
    """A bootstrap interval moved outwards, as Student's would be that misses `SELDOMER` times less often.

    Where few episodes make up the error it moves far: by a third with many degrees of freedom, by a half with eight.
    """
    if not np.isfinite(bound).all():
        return bound
    known = freedom(estimate.influence(), groups)
    factor = student(seldomer(level), known) / student(level, known)
    low, high = (estimate.value + factor * (end - estimate.value) for end in bound)
    return low, high


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


def student(level: float, freedom: float) -> float:
    """Student's two-sided quantile: by its expansion around the normal one, or with few degrees by summing it up.

    With t = √ν tan α, the density is that of cos^(ν−1) α.
    """
    if freedom < SERIES:
        angles = np.linspace(0.0, np.pi / 2, ANGLES)
        density = np.maximum(np.cos(angles), 0.0) ** (freedom - 1)
        below = np.append(0.0, np.cumsum(density[1:] + density[:-1]))
        return float(np.sqrt(freedom) * np.tan(np.interp(level * below[-1], below, angles)))
    z = NormalDist().inv_cdf((1 + level) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))
