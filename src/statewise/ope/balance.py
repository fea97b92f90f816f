"""How far a state ratio misses its equations on episodes it was not fitted to, and what of that is noise."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from statewise.ope.equations import Equations
from statewise.parts.ratio_closed_form import FOLDS

SPREAD = 1.28  # standard deviations: noise alone leaves more one time in ten


def held_out_imbalance(
    equations: Equations, ratio: Float[np.ndarray, " steps"], w: Float[np.ndarray, " steps"]
) -> float:
    """The same share for any w: the root of the product of what is left in two folds, averaged over pairs of folds."""
    rho, visited = ratio[equations.order], equations.weight * w[equations.order]
    left = []
    for a, b in equations.folds:
        flow = (visited[a:b] * rho[a:b]) @ equations.changes(a, b)
        if equations.chain == "continuing":
            flow -= visited[a:b] @ equations.arrived[a:b]
        left.append(flow / visited[a:b].sum())
    products = [left[f] @ left[(f + 1) % FOLDS] for f in range(FOLDS)]
    return float(np.sqrt(max(np.mean(products), 0.0)))


def noise_of(equations: Equations, rho: Float[np.ndarray, " steps"], w: Float[np.ndarray, " steps"]) -> float:
    """tr N + `SPREAD` √tr N² with N = Σ_e uuᵀ, u = Σᵢ∈e ω w ρ(x' − φ), weights summing to 1 in a fold; the folds' mean.

    A fold's noise ε has covariance N, and an exact w, fitted to fold f, leaves about (ε_g − ε_f)·(ε_h − ε_f): over the
    three folds tr N in the mean, with variance tr N².
    """
    total = 0.0
    for (a, b), first in zip(equations.folds, equations.first, strict=True):
        kept = 1.0 if equations.chain == "continuing" else 0.0  # there x' is compared with x' itself
        visited = equations.weight[a:b] / equations.weight[a:b].sum() * w[a:b] * (rho[a:b] - kept)
        flow = equations.changes(a, b) * visited.astype(np.float32)[:, None]
        sums = np.add.reduceat(flow, first, axis=0).astype(np.float64)
        sums -= sums.mean(axis=0)
        noise = sums.T @ sums
        total += float(np.trace(noise) + SPREAD * np.sqrt(np.sum(noise**2)))
    return total / FOLDS
