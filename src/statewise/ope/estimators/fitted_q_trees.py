"""Fitted Q evaluation with extremely randomised trees, by scikit-learn.

Within a round the trees' structure is fixed: Q̂ is then a mean of the targets in a row's leaves, and repeating the
regression is a contraction that needs no new trees. The first round's structure is grown on the logged returns to come,
each later one on the targets that the round before ended with. Ernst, Geurts, Wehenkel (2005).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from statewise.ope.estimators.fitted_q import from_values
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient


@dataclass(frozen=True)
class Trees:
    """Settings of the trees."""

    trees: int = 30
    leaf: int = 5  # rows in a leaf, at least
    rounds: int = 2
    repeats: int = 500
    tolerance: float = 1e-4  # of the targets' deviation: repeating stops when nothing changes by more


def fitted_q_trees(case: Case, rewards: Float[np.ndarray, " steps"], settings: Trees | None = None) -> Quotient:
    settings = Trees() if settings is None else settings
    forest = _forest()
    log, data = case.prepared, case.prepared.dataset
    states = log.scaler(data.observations)
    one_hot = np.eye(data.action_count)
    inputs = np.column_stack([states, one_hot[data.actions]]).astype(np.float32)
    targets = log.to_come(rewards)
    everything = np.zeros((len(data), data.action_count))
    for number in range(settings.rounds):
        grown = forest(settings.trees, min_samples_leaf=settings.leaf, random_state=log.seed + number)
        grown.fit(inputs, _settled(settings, targets), sample_weight=log.growth)
        leaves = np.stack(
            [
                grown.apply(np.column_stack([states, np.tile(one_hot[a], (len(data), 1))]).astype(np.float32))
                for a in range(data.action_count)
            ],
            axis=1,
        )
        targets, everything = _repeat(settings, case, rewards, leaves, targets)
    return from_values(case, rewards, everything)


def _settled(settings: Trees, targets: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """Rounded to what repeating leaves open, so that structure does not hang on digits that mean nothing.

    Splits that part the same rows are equally good, and which of them is taken would depend on the last bit.
    """
    grain = 2.0 ** round(np.log2(settings.tolerance * max(float(targets.std()), 1e-12)))
    return np.round(targets / grain) * grain


def _repeat(
    settings: Trees,
    case: Case,
    rewards: Float[np.ndarray, " steps"],
    leaves: Int[np.ndarray, "steps actions trees"],
    targets: Float[np.ndarray, " steps"],
) -> tuple[Float[np.ndarray, " steps"], Float[np.ndarray, "steps actions"]]:
    """Q̂ of a fixed structure, by repeated regression."""
    log, data = case.prepared, case.prepared.dataset
    trees = leaves.shape[2]
    size = int(leaves.max()) + 1
    leaves = leaves + size * np.arange(trees)  # one number for each leaf of each tree
    taken = np.take_along_axis(leaves, data.actions[:, None, None].astype(np.int64), axis=1)[:, 0]
    below = np.bincount(taken.ravel(), np.repeat(log.growth, trees), minlength=size * trees)
    below = np.where(below > 0, below, 1.0)
    everything = np.zeros(leaves.shape[:2])
    for _ in range(settings.repeats):
        sums = np.bincount(taken.ravel(), np.repeat(log.growth * targets, trees), minlength=size * trees)
        everything = (sums / below)[leaves].mean(axis=2)
        values = (everything * case.probabilities).sum(axis=1)
        renewed = log.targets(rewards, values)
        change = np.abs(renewed - targets).max()
        targets = renewed
        if change <= settings.tolerance * max(float(targets.std()), 1e-12):
            break
    return targets, everything


def _forest():
    try:
        from sklearn.ensemble import ExtraTreesRegressor
    except ImportError as error:
        raise ImportError("fitted-q-trees needs scikit-learn: pip install scikit-learn") from error
    return ExtraTreesRegressor
