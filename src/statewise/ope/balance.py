"""How far a state ratio misses its equations on episodes it was not fitted to, and what of that is noise."""

from __future__ import annotations

from typing import NamedTuple

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

    def missed(block: Block) -> tuple[Float[np.ndarray, " rank"], float]:
        at = equations.order[block.part]
        visited = equations.weight(block) * w[at]
        return equations.changes(block, visited * _moving(equations, ratio[at])).sum(axis=0), visited.sum()

    flow, visits = np.zeros((FOLDS, equations.rows.rank)), np.zeros(FOLDS)
    for block, (changes, visited) in equations.blocks.map(missed):
        flow[block.fold] += changes
        visits[block.fold] += visited
    left = flow / visits[:, None]
    products = [left[f] @ left[(f + 1) % FOLDS] for f in range(FOLDS)]
    return float(np.sqrt(max(np.mean(products), 0.0)))


class Noise(NamedTuple):
    """Of a fold's equations, tr N + `SPREAD` √tr N² with N = Σ_e uuᵀ, u = Σᵢ∈e ω w ρ(x' − φ), weights summing to 1.

    The noise ε has covariance N, and an exact w, fitted to fold f, leaves about (ε_g − ε_f)·(ε_h − ε_f): over the three
    folds tr N in the mean, with variance tr N².
    """

    sums: Float[np.ndarray, " rank"]
    squares: Float[np.ndarray, "rank rank"]
    episodes: int
    weight: float

    @classmethod
    def none(cls, rank: int) -> Noise:
        return cls(np.zeros(rank), np.zeros((rank, rank)), 0, 0.0)

    @classmethod
    def of(cls, equations: Equations, block: Block, rho: Float[np.ndarray, " n"], w: Float[np.ndarray, " n"]) -> Noise:
        weight = equations.weight(block)
        sums = equations.changes(block, weight * w * _moving(equations, rho))
        return cls(sums.sum(axis=0), sums.T @ sums, len(sums), float(weight.sum()))

    def plus(self, other: Noise) -> Noise:
        return Noise(
            self.sums + other.sums,
            self.squares + other.squares,
            self.episodes + other.episodes,
            self.weight + other.weight,
        )

    @property
    def size(self) -> float:
        noise = (self.squares - np.outer(self.sums, self.sums) / self.episodes) / self.weight**2
        return float(np.trace(noise) + SPREAD * np.sqrt(np.sum(noise**2)))


def _moving(equations: Equations, rho: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """ρ, or ρ − 1 on a continuing chain: there x' is compared with x' itself."""
    return rho - 1 if equations.chain == "continuing" else rho
