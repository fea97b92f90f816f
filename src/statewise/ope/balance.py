"""How far a state ratio misses its equations on episodes it was not fitted to, and what of that is noise."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from statewise.ope.equations import Equations
from statewise.ope.order import Block
from statewise.parts.ratio_closed_form import FOLDS

SPREAD = 1.28  # standard deviations: noise alone leaves more one time in ten


def held_out_imbalance(
    equations: Equations, ratio: Float[np.ndarray, " steps"], w: Float[np.ndarray, " steps"]
) -> float:
    """The same share for any w: the root of the product of what is left in two folds, averaged over pairs of folds."""
    flow, visits = np.zeros((FOLDS, equations.rows.rank)), np.zeros(FOLDS)
    for block in equations.blocks:
        at = equations.order[block.part]
        visited = equations.weight[block.part] * w[at]
        flow[block.fold] += equations.changes(block, visited * _moving(equations, ratio[at])).sum(axis=0)
        visits[block.fold] += visited.sum()
    left = flow / visits[:, None]
    products = [left[f] @ left[(f + 1) % FOLDS] for f in range(FOLDS)]
    return float(np.sqrt(max(np.mean(products), 0.0)))


class Noise:
    """tr N + `SPREAD` √tr N² with N = Σ_e uuᵀ, u = Σᵢ∈e ω w ρ(x' − φ), weights summing to 1 in a fold; the folds' mean.

    A fold's noise ε has covariance N, and an exact w, fitted to fold f, leaves about (ε_g − ε_f)·(ε_h − ε_f): over the
    three folds tr N in the mean, with variance tr N².
    """

    def __init__(self, equations: Equations):
        rank = equations.rows.rank
        self.equations = equations
        self.sums, self.squares = np.zeros((FOLDS, rank)), np.zeros((FOLDS, rank, rank))
        self.episodes, self.weight = np.zeros(FOLDS), np.zeros(FOLDS)

    def add(self, block: Block, rho: Float[np.ndarray, " n"], w: Float[np.ndarray, " n"]) -> None:
        weight = self.equations.weight[block.part]
        sums = self.equations.changes(block, weight * w * _moving(self.equations, rho))
        self.sums[block.fold] += sums.sum(axis=0)
        self.squares[block.fold] += sums.T @ sums
        self.episodes[block.fold] += len(sums)
        self.weight[block.fold] += weight.sum()

    @property
    def size(self) -> float:
        total = 0.0
        for sums, squares, count, weight in zip(self.sums, self.squares, self.episodes, self.weight, strict=True):
            noise = (squares - np.outer(sums, sums) / count) / weight**2
            total += float(np.trace(noise) + SPREAD * np.sqrt(np.sum(noise**2)))
        return total / FOLDS


def _moving(equations: Equations, rho: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """ρ, or ρ − 1 on a continuing chain: there x' is compared with x' itself."""
    return rho - 1 if equations.chain == "continuing" else rho
