"""The state ratio's linear equations over all rows of a log, in double precision: the sums that no policy changes.

`parts.ratio_closed_form` has the equations. They are summed once for each policy from matrices that do not depend on
it, so that a hundred policies share the features of one log:

    M = Σᵢ ωᵢ ρᵢ (x'ᵢ − φᵢ) φᵢᵀ,     a = Σᵢ ωᵢ φᵢ,

with x' = γc φ(s') + (1 − γc) φ̄₀ and ω ∝ γᵗ. On a continuing chain x' = φ(s'), and x'x'ᵀ stands for ρφφᵀ.

ρ has mean 1 in every state, so that it may stand before φ as it does before x'. What is noise in the equations is then
that of changes from one step to the next, and not of ρ − 1 times all of φ, which for what changes slowly is far more.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from statewise.data.dataset import Dataset
from statewise.ope.features import BLOCK, Features
from statewise.parts.chain import Chain, Kind
from statewise.parts.ratio_closed_form import FOLDS, ClosedForm


@dataclass(frozen=True, eq=False)
class Equations:
    """What the equations need of the log. Rows stand in order of their fold, so that a fold is one block."""

    settings: ClosedForm
    chain: Kind
    order: Int[np.ndarray, " steps"]
    edges: tuple[int, ...]  # fold f owns rows edges[f] to edges[f + 1]
    here: Float[np.ndarray, "steps rank"]  # φ, single precision
    arrived: Float[np.ndarray, "steps rank"]  # x'
    weight: Float[np.ndarray, " steps"]  # ω
    restart: Float[np.ndarray, " steps"]  # 1 − γc: with this chance the chain begins anew
    first: tuple[Int[np.ndarray, " _"], ...]  # of each fold's episodes, the first row within the fold
    begins: Int[np.ndarray, " episodes"]  # each episode's first row, in the log's order
    initial: Float[np.ndarray, "episodes rank"]  # φ of the first states
    fixed: Float[np.ndarray, "folds rank rank"]  # Σ ω x'x'ᵀ on a continuing chain, 0 elsewhere
    mean: Float[np.ndarray, "folds rank"]  # Σ ω φ

    def in_log_order(self, values: Float[np.ndarray, "steps *columns"]) -> Float[np.ndarray, "steps *columns"]:
        out = np.empty(values.shape)
        out[self.order] = values
        return out

    def balance(self, rho: Float[np.ndarray, " steps"]) -> Float[np.ndarray, "folds rank rank"]:
        """M of the tests of states alone: what each fold adds to it."""
        carried = self.weight * rho
        left = [self.changes(a, b) for a, b in self.folds]
        sums = [_moment(x, carried[a:b], self.here[a:b]) for x, (a, b) in zip(left, self.folds, strict=True)]
        return np.stack(sums) - self.fixed

    def changes(self, first: int, last: int) -> Float[np.ndarray, "rows rank"]:
        """x' − φ, or x' on a continuing chain."""
        arrived = self.arrived[first:last]
        return arrived if self.chain == "continuing" else arrived - self.here[first:last]

    @property
    def nothing_follows(self) -> bool:
        """Whether every decision is the last of its episode."""
        return self.chain != "continuing" and bool((self.restart == 1).all())

    @property
    def fold_of_episode(self) -> Int[np.ndarray, " episodes"]:
        rows = np.empty(len(self.order), np.int64)
        rows[self.order] = np.repeat(np.arange(FOLDS), np.diff(self.edges))
        return rows[self.begins]

    @property
    def folds(self) -> list[tuple[int, int]]:
        return list(pairwise(self.edges))


def make_equations(dataset: Dataset, features: Features, chain: Chain, seed: int, settings: ClosedForm) -> Equations:
    """Rows in order of their fold, and the sums that no policy changes."""
    if dataset.episodes < FOLDS:
        raise ValueError(f"a state ratio needs {FOLDS} episodes at least, the log has {dataset.episodes}")
    here, arrived = features
    initial = here[dataset.starts[:-1]]
    if chain.kind != "continuing":
        arrived = arrived * chain.onward[:, None].astype(np.float32)
        arrived += (1 - chain.onward)[:, None].astype(np.float32) * initial.mean(axis=0)
    fold = (np.random.default_rng(seed).permutation(dataset.episodes) % FOLDS)[dataset.episode_of_step]
    order = np.argsort(fold, kind="stable")
    edges = tuple(np.searchsorted(fold[order], np.arange(FOLDS + 1)).tolist())
    # of the whole log, not of each fold: a fold of long episodes would count for less, and so would their return
    weight = chain.weight[order] / chain.weight.sum()
    here, arrived = here[order], arrived[order]
    parts = list(pairwise(edges))
    fixed = np.zeros((FOLDS, here.shape[1], here.shape[1]))
    if chain.kind == "continuing":
        fixed = np.stack([_moment(arrived[a:b], weight[a:b], arrived[a:b]) for a, b in parts])
    return Equations(
        settings=settings,
        chain=chain.kind,
        order=order,
        edges=edges,
        here=here,
        arrived=arrived,
        weight=weight,
        restart=(1 - chain.onward)[order],
        first=tuple(np.flatnonzero(np.diff(dataset.episode_of_step[order[a:b]], prepend=-1)) for a, b in parts),
        begins=dataset.starts[:-1],
        initial=np.asarray(initial, np.float64),
        fixed=fixed,
        mean=np.stack([weight[a:b] @ here[a:b] for a, b in parts]),
    )


def _moment(left: np.ndarray, weight: np.ndarray, right: np.ndarray) -> Float[np.ndarray, "rank rank"]:
    """Σᵢ weightᵢ leftᵢ rightᵢᵀ, in single precision block by block and summed in double."""
    total = np.zeros((left.shape[1], right.shape[1]))
    for first in range(0, len(left), BLOCK):
        part = slice(first, first + BLOCK)
        scaled = left[part] * (weight[part] * len(left)).astype(np.float32)[:, None]
        total += scaled.T @ right[part]
    return total / len(left)
