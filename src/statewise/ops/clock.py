"""Piecewise-linear functions of time: how what depends on state and time together is written where a limit H is set.

Every function of the step t = 0 … H − 1 that is linear between knots k₁ < k₂ < … is Σⱼ f(kⱼ) hatⱼ(t). With a knot at
every step, that is every function of time.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def knots(times: Int[np.ndarray, " rows"], horizon: int, count: int) -> Int[np.ndarray, " knots"]:
    """Steps from 0 to `horizon` − 1, the last decision: all of them, or `count`, as many rows between any two.

    Their number depends on `horizon` and `count` alone.

    >>> knots(np.repeat(np.arange(6), 10), horizon=6, count=8).tolist()
    [0, 1, 2, 3, 4, 5]
    >>> knots(np.array([0, 0, 0, 0, 1, 2, 3, 40, 99]), horizon=100, count=5).tolist()
    [0, 1, 2, 3, 99]
    """
    if horizon <= count:
        return np.arange(horizon)
    within = times[times < horizon]
    order = np.arange(count)
    at = np.quantile(within, np.linspace(0, 1, count), method="nearest") if len(within) else 0 * order
    at = np.asarray(at, dtype=np.int64)
    at[0], at[-1] = 0, horizon - 1
    # where many rows share a step, knots move apart, each by as little as it takes
    at = order + np.maximum.accumulate(at - order)
    return np.minimum(at, horizon - count + order)


def hats(
    times: Float[np.ndarray, " n"] | Int[np.ndarray, " n"], knots: Int[np.ndarray, " k"]
) -> Float[np.ndarray, "n k"]:
    """hatⱼ(t): 1 at knot j, 0 at all others, linear between, constant beyond the last; they sum to 1.

    >>> hats(np.array([0, 1, 2, 5]), np.array([0, 4])).tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.5, 0.5], [0.0, 1.0]]
    """
    return np.stack([np.interp(times, knots, unit) for unit in np.eye(len(knots))], axis=1)


def smoothness(knots: Int[np.ndarray, " k"]) -> Float[np.ndarray, "k k"]:
    """L with LLᵀ = exp(−|kᵢ − kⱼ|/H): hats · L are features whose products are a kernel of time.

    Slow changes have the largest variance. That of fast ones falls only as the square of their frequency, so that none
    is lost where every step has a knot.
    """
    return np.linalg.cholesky(np.exp(-np.abs(knots[:, None] - knots[None, :]) / (knots[-1] + 1)))


def joint_moment(
    values: Float[np.ndarray, "n features"], hats: Float[np.ndarray, "n k"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "k features k features"]:
    """Σᵢ weightᵢ xᵢxᵢᵀ of x = hats ⊗ values. At most two neighbouring hats are not 0, so most of it is."""
    count, features = hats.shape[1], values.shape[1]
    moment = np.zeros((count, features, count, features))
    for j in range(count):
        rows = np.flatnonzero(hats[:, j])
        left = (weight[rows] * hats[rows, j])[:, None] * values[rows]
        for k in range(j, min(j + 2, count)):
            block = left.T @ (hats[rows, k, None] * values[rows])
            moment[j, :, k], moment[k, :, j] = block, block.T
    return moment
