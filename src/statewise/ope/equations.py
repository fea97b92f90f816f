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

import numpy as np
from jaxtyping import Float, Int

from statewise.base.column import like, parts_of
from statewise.ope.order import Block, Blocks
from statewise.ope.rows import Rows, Weights
from statewise.parts.chain import Chain, Kind
from statewise.parts.ratio_closed_form import FOLDS, ClosedForm


@dataclass(frozen=True, eq=False)
class Equations:
    """What the equations need of the log. Rows stand in order of their fold."""

    settings: ClosedForm
    chain: Kind
    onward_in_log: Float[np.ndarray, " steps"]  # γc, in the log's order
    rows: Rows  # φ
    weights: Float[np.ndarray, " steps"]  # ω, in the log's order; of all rows they sum to `total`
    total: float
    fresh: Float[np.ndarray, " rank"]  # φ̄₀
    mean: Float[np.ndarray, "folds rank"]  # Σ ω φ
    fixed: Float[np.ndarray, "folds rank rank"]  # Σ ω x'x'ᵀ on a continuing chain, 0 elsewhere

    def in_log_order(self, values: Float[np.ndarray, "steps *columns"]) -> Float[np.ndarray, "steps *columns"]:
        out = like(values, values.shape)
        for part in parts_of(len(values)):
            out[self.order[part]] = values[part]
        return out

    @property
    def order(self) -> Int[np.ndarray, " steps"]:
        """Which row of the log each is."""
        return self.rows.order.rows

    @property
    def episodes(self) -> Int[np.ndarray, " episodes"]:
        """Which of the log's episodes each is."""
        return self.rows.order.episodes

    @property
    def blocks(self) -> Blocks:
        return self.rows.order.blocks

    @property
    def nothing_follows(self) -> bool:
        """Whether every decision is the last of its episode."""
        return self.chain != "continuing" and not self.onward_in_log.any()

    @property
    def fold_of_episode(self) -> Int[np.ndarray, " episodes"]:
        return self.rows.order.fold_of_episode

    def weight(self, block: Block) -> Float[np.ndarray, " n"]:
        """ω of a block's rows, as shares of the whole log's."""
        return self.weights[self.order[block.part]] / self.total

    def onward(self, block: Block) -> Float[np.ndarray, " n"]:
        """γc of a block's rows; otherwise the chain begins anew."""
        return self.onward_in_log[self.order[block.part]]

    def changes(self, block: Block, visited: Float[np.ndarray, " n"]) -> Float[np.ndarray, "episodes rank"]:
        """Σ visited (x' − φ) over each episode of a block; on a continuing chain Σ visited x'."""
        if self.chain == "continuing":
            assert self.rows.beyond is not None
            within = self.rows.by_episode(block, block.handed_on(visited))
            return within + visited[block.last, None] * self.rows.beyond[block.episodes]
        onward = visited * self.onward(block)
        moved = self.rows.by_episode(block, block.handed_on(onward) - visited)
        begun = block.by_episode(visited - onward)
        return moved + begun[:, None] * self.fresh


def make_equations(chain: Chain, rows: Rows, settings: ClosedForm) -> Equations:
    """The sums that no policy changes."""
    order, count = rows.order.rows, len(rows.order.episodes)
    # of the whole log, not of each fold: a fold of long episodes would count for less, and so would their return
    total = float(chain.weight.sum())

    def weight(block: Block) -> Float[np.ndarray, " n"]:
        return chain.weight[order[block.part]] / total

    def weigh(block: Block) -> Float[np.ndarray, "n 2"]:
        begins = np.zeros(len(block))
        begins[block.first] = 1 / count
        return np.stack([weight(block), begins], axis=1)

    sums = rows.sums(weigh)
    fixed = np.zeros((FOLDS, rows.rank, rows.rank))
    if rows.beyond is not None:
        fixed = rows.moments(lambda block: Weights(block.handed_on(weight(block))[:, None]))[:, 0, 0]
        for block in rows.order.blocks:
            last = rows.beyond[block.episodes].astype(np.float64)
            fixed[block.fold] += (weight(block)[block.last, None] * last).T @ last
    return Equations(
        settings=settings,
        chain=chain.kind,
        rows=rows,
        weights=chain.weight,
        total=total,
        onward_in_log=chain.onward,
        fresh=sums[:, :, 1].sum(axis=0),
        mean=sums[:, :, 0],
        fixed=fixed,
    )
