"""How much of what a policy would do was never tried, even where only the taken action's propensity is logged.

Where whole distributions are logged, the answer is exact: what has probability 0. Otherwise the log tells, by row:

- propensity 1: nothing else could be taken there;
- propensity p of one of two actions: the other has 1 − p. It was tried, but for groups of similar states in which fewer
  than one trial of anything else is to be expected, Σ (1 − p) < 1;
- of several actions, those never taken in a group of similar states were not tried there, unless the log leaves a
  chance for them: what the propensities of the others leave of 1 or, where those vary too much to tell, what Good and
  Turing expect of actions not yet seen, the number of those seen once.

Beside it stands an exact fact: with ρ = π(a|s)/μ(a|s) of the action taken, E[ρ | s] = Σ π(a|s) over the actions that μ
tries in s, so that the mean of 1 − ρ is the share that was not tried, with an error that is known. Where the two differ
by more than chance, that counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.base.column import by_parts
from statewise.data.dataset import Dataset
from statewise.propensities.similar import Groups, similar_states

CERTAIN = 1 - 1e-9  # a propensity from which on nothing else was possible
ONCE = 1.0  # expected trials in a group of similar states below which something was not tried there
SURPRISE = 4.0  # standard errors by which the mean of ρ must differ to be believed: ρ has a long tail


@dataclass(frozen=True)
class Untried:
    """The share of a policy's decisions on actions that the behaviour does not take there, and what it is made of."""

    share: float
    error: float  # its standard error; 0 where the log says it exactly
    certain: float = 0.0  # the part in rows where nothing else was possible, or whose distribution gives them 0
    hardly: float = 0.0  # the part in groups where anything else is to be expected less than once
    absent: float = 0.0  # the part on single actions that are missing from groups of similar states


def untried(
    dataset: Dataset,
    probabilities: Float[np.ndarray, "steps actions"],
    weight: Float[np.ndarray, " steps"],
    similar: Callable[[], Groups] | None = None,
) -> Untried:
    """The share of the policy's decisions, weighted by row, on what the log's behaviour does not do there.

    `probabilities` are the policy's, π(·|sᵢ). `weight` says how much each row counts; it must not depend on the row's
    own action, or the mean of ρ would no longer tell. `similar` gives the groups of similar states, where somebody has
    them.
    """
    if dataset.propensities is None:
        raise ValueError("the log has no propensities; estimate them first")
    total = float(weight.sum())
    if not (total > 0 and np.isfinite(total)):
        return Untried(0.0, 0.0)
    weight = weight / total
    if dataset.distributions is not None:
        rows = np.flatnonzero(dataset.distributions.min(axis=1) <= 0)
        impossible = np.where(dataset.distributions[rows] <= 0, probabilities[rows], 0.0).sum(axis=1)
        share = _share(float(weight[rows] @ impossible))
        return Untried(share, 0.0, certain=share)
    propensities = dataset.propensities
    others = np.clip(1 - _taken(probabilities, dataset.actions), 0.0, 1.0)  # the policy's mass on what was not taken
    fixed = propensities >= CERTAIN
    group = (similar_states(dataset.observations) if similar is None else similar()).of_row
    hardly = ~fixed & (np.bincount(group, 1 - propensities)[group] < ONCE)
    certain_part, hardly_part = float(weight[fixed] @ others[fixed]), float(weight[hardly] @ others[hardly])
    soft = ~fixed & ~hardly
    absent_part, error = 0.0, 0.0
    choices = np.full(len(dataset), dataset.action_count) if dataset.legal is None else dataset.legal.sum(axis=1)
    if (soft & (choices > 2)).any():
        rows = np.flatnonzero(soft)
        cells = _Cells(dataset, rows, group[rows])
        chances = probabilities[rows]
        missing = by_parts(lambda part: _sums(chances, cells.untried, cells.of_row, part), len(rows), chances)
        missing = np.where(choices[rows] > 2, missing, 0.0)  # of two, the other one is as likely as 1 − p says
        absent_part, error = _confirmed(cells, missing, chances, weight[rows])
    share = certain_part + hardly_part + absent_part
    return Untried(_share(share), error, _share(certain_part), _share(hardly_part), _share(absent_part))


class _Cells:
    """Groups of similar states by action, and which actions were not tried in which groups."""

    def __init__(self, dataset: Dataset, rows: Int[np.ndarray, " rows"], group: Int[np.ndarray, " rows"]):
        assert dataset.propensities is not None
        there = np.bincount(group) > 0
        number = np.cumsum(there) - 1
        self.of_row = by_parts(lambda part: number[group[part]], len(group), group)
        groups, actions = int(there.sum()), dataset.action_count
        self.propensities, self.actions = dataset.propensities[rows], dataset.actions[rows].astype(np.int64)
        cell = self.of_row * actions + self.actions

        def sums(values: np.ndarray | None = None) -> Float[np.ndarray, "groups actions"]:
            return np.bincount(cell, values, minlength=groups * actions).reshape(groups, actions).astype(float)

        self.size = np.bincount(self.of_row, minlength=groups).astype(float)
        self.counts = sums()
        # the mean of μ(a|s) over a group is its propensities' harmonic mean where a was taken: E[1{a}/μ(a)] = 1
        inverse, square = sums(1 / self.propensities), sums(1 / self.propensities**2)
        taken = self.counts > 0
        mean = np.divide(inverse, self.counts, out=np.ones_like(inverse), where=taken)
        spread = np.divide(square, self.counts, out=np.ones_like(inverse), where=taken) / mean**2 - 1
        likely = np.where(taken, 1 / mean, 0.0)
        left = np.clip(1 - likely.sum(axis=1), 0.0, 1.0)
        # what was taken once shows no spread of its own; it has that of the others
        many = self.counts > 1
        usual = float(np.average(np.maximum(spread[many], 0), weights=self.counts[many])) if many.any() else 1.0
        variance = np.where(many, np.maximum(spread, 0), usual) / np.maximum(self.counts, 1) * likely**2
        told = np.sqrt(variance.sum(axis=1)) * self.size < ONCE  # the propensities alone say what is left
        unseen = np.where(told, self.size * left, (self.counts == 1).sum(axis=1))  # trials to be expected of it
        self.untried: Bool[np.ndarray, "groups actions"] = ~taken & (unseen < ONCE)[:, None]

    def likely(self) -> Float[np.ndarray, "groups actions"]:
        """How often each action is taken in each group, never 0: the whole log counts as one more of each action."""
        overall = self.counts.sum(axis=0) + 1
        actions = len(overall)
        return (self.counts + actions * overall / overall.sum()) / (self.size[:, None] + actions)


def _confirmed(
    cells: _Cells,
    missing: Float[np.ndarray, " rows"],
    probabilities: Float[np.ndarray, "rows actions"],
    weight: Float[np.ndarray, " rows"],
) -> tuple[float, float]:
    """The missing share and its standard error; by the mean of 1 − ρ, if that says otherwise by more than chance."""
    structure, total = float(weight @ missing), float(weight.sum())
    if not total > 0:
        return 0.0, 0.0
    ratio = _taken(probabilities, cells.actions) / cells.propensities
    by_ratio = float(weight @ (1 - ratio))
    # a rare and heavy ρ may not have come yet: no less than what would be seen if all that is likely were tried
    likely = cells.likely()

    def spread(part: slice) -> Float[np.ndarray, " n"]:
        group = cells.of_row[part]
        tried = np.where(cells.untried[group], 0.0, probabilities[part])
        return np.maximum((tried**2 / likely[group]).sum(axis=1) - (1 - missing[part]) ** 2, 0.0)

    expected = by_parts(spread, len(probabilities), probabilities)
    seen = (ratio - (weight @ ratio) / total) ** 2
    error = float(np.sqrt(max(weight**2 @ expected, weight**2 @ seen)))
    # groups that lie across an edge hide a part of what is missing: once some is known to be, less must be proved
    bound = SURPRISE if structure <= error else SURPRISE / 2
    differs = abs(by_ratio - structure) > bound * error
    return (float(np.clip(by_ratio, 0.0, total)) if differs else structure), min(error, total)


def _taken(probabilities: Float[np.ndarray, "rows actions"], actions: Int[np.ndarray, " rows"]) -> np.ndarray:
    return np.take_along_axis(probabilities, actions[:, None].astype(np.int64), axis=1)[:, 0]


def _sums(
    chances: Float[np.ndarray, "rows actions"], of: np.ndarray, group: Int[np.ndarray, " rows"], part: slice
) -> Float[np.ndarray, " n"]:
    """Σ_a of the chances of the actions that are marked in each row's group, of some rows."""
    return np.where(of[group[part]], chances[part], 0.0).sum(axis=1)


def _share(value: float) -> float:
    return float(np.clip(value, 0.0, 1.0))
