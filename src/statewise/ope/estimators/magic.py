"""MAGIC: what a critic says and what importance sampling corrects, blended for the least mean squared error.

    g⁽ʲ⁾ = mean V̂(s₀) + Σ_{t≤j} γᵗ Σ_e ωₜ (rₜ + γcV̂(sₜ₊₁) − Q̂(sₜ,aₜ)),     ωₜ = ρ₀…ρₜ / Σ_e ρ₀…ρₜ
    V = Σⱼ xⱼ g⁽ʲ⁾,     x = argmin xᵀ(Ω + bbᵀ)x over x ≥ 0, Σx = 1

corrects the critic for j + 1 steps: g⁽⁻¹⁾ is the critic alone, g⁽∞⁾ the weighted doubly robust estimate. Ω is the
covariance of their sums over episodes, and bⱼ how far g⁽ʲ⁾ lies outside the 50 % interval of g⁽∞⁾: the bias that
importance sampling can show. What the blend may still be biased by, bᵀx, widens the interval. The verdict is as strict
as that of the importance weights, since without them nothing tells how good the critic is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from statewise.ope.estimators.doubly_robust import weighted_doubly_robust
from statewise.ope.estimators.per_decision import carried_by_weighted_decisions, weighted_per_decision
from statewise.ope.intervals import bootstrap
from statewise.ope.linear_critic import cross_fitted, moved_by
from statewise.ope.prepared import Case
from statewise.ope.quotient import Allowance, Quotient

LEVEL, DRAWS = 0.5, 200  # of the interval that a bias is measured from


def magic(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """Thomas and Brunskill (2016)."""
    log, critic, carried = case.prepared, cross_fitted(case, rewards), carried_by_weighted_decisions(case)
    first, errors = critic.first, critic.errors
    steps = corrected_steps(len(log.discounts))
    each = np.stack(
        [
            first / len(first) + log.by_episode(np.where(log.dataset.time < count, carried * errors, 0.0))
            for count in steps
        ]
    )
    whole = weighted_doubly_robust(case, rewards)
    bias = outside(each.sum(axis=1), bootstrap([whole], log.dataset.groups, LEVEL, DRAWS, log.seed)[0], whole.value)
    share = blend(covariance(each, log.dataset.groups), bias)
    # the share of the blend that corrects a row's step
    going_on = (share * (log.dataset.time[:, None] < steps)).sum(axis=1)
    left = weighted_per_decision(case, going_on * errors)
    moved = moved_by(case, rewards, critic, going_on * carried)
    off = float(bias @ share)
    return replace(left, numerator=first + left.numerator + moved, allowance=Allowance(off, off))


def corrected_steps(horizon: int) -> Int[np.ndarray, " blended"]:
    """j + 1 for each g⁽ʲ⁾: 0, 1, 2, 4, 8, … and all."""
    return np.unique([0, *(2**k for k in range(horizon.bit_length())), horizon])


def covariance(
    each: Float[np.ndarray, "blended episodes"], groups: Int[np.ndarray, " episodes"]
) -> Float[np.ndarray, "blended blended"]:
    """n/(n − 1) Σ_e (g_e − ḡ)(g_e − ḡ)ᵀ of sums over episodes, or over units where the log has them."""
    sums = np.stack([np.bincount(groups, one) for one in each])
    count = sums.shape[1]
    centred = sums - sums.mean(axis=1, keepdims=True)
    return centred @ centred.T * count / max(count - 1, 1)


def outside(
    values: Float[np.ndarray, " blended"], interval: tuple[float, float], centre: float
) -> Float[np.ndarray, " blended"]:
    """How far each value lies outside the interval, which contains its centre."""
    low, high = min(interval[0], centre), max(interval[1], centre)
    return np.maximum(values - high, 0.0) + np.maximum(low - values, 0.0)


def blend(
    noise: Float[np.ndarray, "blended blended"], bias: Float[np.ndarray, " blended"]
) -> Float[np.ndarray, " blended"]:
    """argmin xᵀ(Ω + bbᵀ)x over x ≥ 0, Σx = 1.

    As a problem of non-negative least squares, ‖Ly‖² + (Σy − 1)² with LᵀL = Ω + bbᵀ, whose solution is x up to scale.
    """
    from scipy.optimize import nnls

    error = noise + np.outer(bias, bias)
    size = np.trace(error)
    if not np.isfinite(size) or size <= 0:  # nothing varies, or nothing is known: correct all the way
        return np.eye(len(bias))[-1]
    variance, directions = np.linalg.eigh(error / size)
    root = np.sqrt(np.maximum(variance, 0.0))[:, None] * directions.T
    target = np.append(np.zeros(len(bias)), 1.0)
    found = nnls(np.vstack([root, np.ones(len(bias))]), target)[0]
    return found / found.sum()
