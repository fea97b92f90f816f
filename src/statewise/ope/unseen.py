"""Situations that only one episode of a log shows, and how much of a policy's time lies in such.

Good and Turing: the chance that something comes which was never seen is about the share of what was seen once. For
situations that are told apart by features instead of by name, *once* is: the rest of the log knows less of a row's
direction than that row itself does. With H = F(FᵀF)⁻¹Fᵀ over a whole episode's rows, what the others lack is

    (H(I − H)⁻¹)ᵢᵢ = fᵀ(Σ_others ffᵀ)⁻¹f > 1;

of states told apart one by one it is the number of an episode's visits over that of all others'. Under another policy
each row counts for what it carries (`carried_by_ratio`): a state that the log shows once and the policy visits fifty
times as often stands for fifty times as much that the log does not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.base.column import by_parts
from statewise.ope.equations import Equations
from statewise.ope.estimators.state_ratio import carried_by_ratio
from statewise.ope.linear_critic import of_actions
from statewise.ope.order import Block
from statewise.ope.prepared import Case, Prepared
from statewise.ope.rows import Weights

SMALLEST = 1e-6  # of the greatest: a direction with less is rounding
AT_HAND = 2**24  # numbers that are rather kept than computed again
ALMOST = 1 - 1e-6  # H of a row whose direction no other episode shows at all


def seen_once(log: Prepared) -> Bool[np.ndarray, " steps"]:
    """Rows in situations that only their own episode (or unit) shows; the same for every policy."""
    return log.remembered("seen once", lambda: _seen_once(log))


def unseen_steps(case: Case) -> float:
    """How many (discounted) steps of an episode the policy would spend where the log has never been, about."""
    return float(carried_by_ratio(case)[seen_once(case.prepared)].sum())


def unseen_imbalance(case: Case) -> float:
    """|E_π[f; seen once]|: how far the ratio's equations may be off for what the log does not show.

    Their norm counts a mass m in a state that makes up a share p of the log as m/√p: of rare states a little is much.
    """
    log = case.prepared
    equations, carried = log.horizon_equations, carried_by_ratio(case)
    once = np.where(seen_once(log), carried / carried.sum(), 0.0)[equations.order]
    return float(np.linalg.norm(equations.rows.sums(lambda block: once[block.part, None]).sum(axis=0)))


def _seen_once(log: Prepared) -> Bool[np.ndarray, " steps"]:
    equations, data = log.horizon_equations, log.dataset
    rows, order = equations.rows, equations.order
    group = by_parts(lambda part: data.groups[data.episode_of_step[order[part]]], len(order), order)
    variance, directions = np.linalg.eigh(_gram(log))
    kept = variance > SMALLEST * variance[-1]
    whitening = rows.lifted(directions[:, kept] / np.sqrt(variance[kept]))
    trace, at_hand = np.zeros(int(group.max()) + 1), len(order) * whitening.shape[1] <= AT_HAND

    def whitened(block: Block) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n rank"] | None]:
        values = rows.times_in(block, whitening)
        return np.einsum("nr,nr->n", values, values, dtype=np.float64), values if at_hand else None

    known = []
    for block, (size, values) in equations.blocks.map(whitened):
        trace += np.bincount(group[block.part], size, minlength=len(trace))
        known.append(values)
    # H(I − H)⁻¹ exceeds 1 only where H has an eigenvalue above ½, and so a trace
    suspects = np.flatnonzero(trace > 0.5)
    places, features = _rows_of(suspects, group, equations, whitening, known)
    once = np.zeros(len(data), bool)
    edges = np.searchsorted(group[places], np.append(suspects, len(trace)))
    for first, last in pairwise(edges):
        once[equations.order[places[first:last]]] = _by_itself(features[first:last]) > 1
    return once


def _gram(log: Prepared) -> Float[np.ndarray, "rank rank"]:
    """Σ ffᵀ over all rows; where all weigh the same, from the sums that Q̂'s regressions need as well."""
    equations = log.horizon_equations
    weights = equations.weights
    if weights.min() == weights.max():
        return of_actions(log).gram / float(weights[0] / equations.total)
    return equations.rows.moments(lambda block: Weights(np.ones((len(block), 1)))).sum(axis=(0, 1, 2))


def _rows_of(
    groups: Int[np.ndarray, " some"],
    group: Int[np.ndarray, " steps"],
    equations: Equations,
    whitening: Float[np.ndarray, "products rank"],
    known: Sequence[Float[np.ndarray, "_ rank"] | None],
) -> tuple[Int[np.ndarray, " rows"], Float[np.ndarray, "rows rank"]]:
    """The places of some groups' rows, group by group, and their whitened features: of few groups in a large log."""
    wanted = np.isin(group, groups)
    places, features = [], []
    for block, values in zip(equations.blocks, known, strict=True):
        own = wanted[block.part]
        if own.any():
            values = equations.rows.times_in(block, whitening) if values is None else values
            places.append(np.arange(block.part.start, block.part.stop)[own])
            features.append(values[own].astype(np.float32, copy=False))
    if not places:
        return np.zeros(0, np.int64), np.zeros((0, whitening.shape[1]), np.float32)
    joined = np.concatenate(places)
    order = np.argsort(group[joined], kind="stable")
    return joined[order], np.concatenate(features)[order]


def _by_itself(rows: Float[np.ndarray, "rows rank"]) -> Float[np.ndarray, " rows"]:
    """The diagonal of H(I − H)⁻¹ with H = rows rowsᵀ: from whichever of H and rowsᵀ rows is smaller."""
    wide = len(rows) < rows.shape[1]
    square = rows @ rows.T if wide else rows.T @ rows
    if np.linalg.norm(square) <= 0.5:  # which no eigenvalue exceeds
        return np.zeros(len(rows))
    try:
        np.linalg.cholesky(0.5 * np.eye(len(square), dtype=np.float32) - square)
        return np.zeros(len(rows))  # all are below ½
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(square.astype(np.float64))
    values = np.clip(values, 0.0, ALMOST)
    if wide:
        return vectors**2 @ (values / (1 - values))
    return (rows @ vectors) ** 2 @ (1 / (1 - values))
