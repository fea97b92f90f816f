"""What each action would have earned where a reward is one of two values: the odds of the greater one, by regression.

    P(high | s,a) = logistic(βₐᵀx(s)),     βₐ = β₀ + argmin_δ −Σ_{rows of a} log-likelihood(β₀ + δ) + λ‖δ‖²/2,

with x the constant and the state, and β₀ fitted to all rows. Of something rare, odds are much nearer to linear in the
state than probabilities are. λ is chosen by cross-validation; so is, in `reward_model`, whether odds are used at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from statewise.base.column import parts_of
from statewise.data.dataset import Dataset

RIDGES = (3.0, 10.0, 30.0)  # λ
SHARED_RIDGE = 1.0  # of β₀
STEPS = 6  # of Newton's method
BLOCK = 1 << 18  # rows that are held at a time
MOST_ROWS = 200_000  # by which λ is chosen


class Binary(NamedTuple):
    """Rows of a log with two rewards, in parts."""

    dataset: Dataset
    low: float
    high: float

    def parts(self, rows: Int[np.ndarray, " n"]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """x, actions, and whether the reward was the greater one."""
        for part in parts_of(len(rows), BLOCK):
            some = rows[part]
            won = np.asarray(self.dataset.rewards[some], np.float64) > (self.low + self.high) / 2
            yield inputs(np.asarray(self.dataset.observations[some], np.float64)), self.dataset.actions[some], won


class Odds(NamedTuple):
    """β of every action, and the inverse of the information on it."""

    coefficients: Float[np.ndarray, "actions x"]
    inverse: Float[np.ndarray, "actions x x"]

    def values(self, x: Float[np.ndarray, "n x"], action: int, caution: float) -> Float[np.ndarray, " n"]:
        """P(high), from odds that are `caution` standard errors lower."""
        error = np.sqrt(np.einsum("ni,ni->n", x @ self.inverse[action], x))
        return logistic(x @ self.coefficients[action] - caution * error)


def binary(dataset: Dataset) -> Binary | None:
    """The log, if it has two rewards and no others."""
    low, high = float(dataset.rewards.min()), float(dataset.rewards.max())
    between = any(
        np.any((part != low) & (part != high)) for part in map(dataset.rewards.__getitem__, parts_of(len(dataset)))
    )
    return None if low == high or between else Binary(dataset, low, high)


def inputs(states: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n x"]:
    return np.concatenate([np.ones((len(states), 1)), states], axis=1)


def logistic(odds: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    return 1 / (1 + np.exp(-np.clip(odds, -30, 30)))


def validated(log: Binary, fold: Int[np.ndarray, " rows"], folds: int) -> tuple[float, float]:
    """The mean squared error of rewards on held-out folds with the best λ, and that λ."""
    some = np.arange(len(fold))
    if len(fold) > MOST_ROWS:
        some = np.sort(np.random.default_rng(0).choice(len(fold), MOST_ROWS, replace=False))
    errors = np.zeros(len(RIDGES))
    for f in range(folds):
        rest, held_out = some[fold[some] != f], some[fold[some] == f]
        shared = _shared(log, rest)
        for j, ridge in enumerate(RIDGES):
            coefficients = fitted(log, rest, ridge, shared).coefficients
            for x, action, won in log.parts(held_out):
                errors[j] += np.sum((won - logistic(np.einsum("ni,ni->n", x, coefficients[action]))) ** 2)
    best = int(errors.argmin())
    return (log.high - log.low) ** 2 * errors[best] / len(some), RIDGES[best]


def fitted(
    log: Binary, rows: Int[np.ndarray, " n"], ridge: float, shared: Float[np.ndarray, " x"] | None = None
) -> Odds:
    """β of all actions from those rows."""
    shared = _shared(log, rows) if shared is None else shared
    actions, width = log.dataset.action_count, len(shared)
    own, penalty = np.zeros((actions, width)), ridge * np.eye(width)
    penalty[0, 0] = min(ridge, SHARED_RIDGE)  # by how much an action is better everywhere is known best
    information = np.empty((actions, width, width))
    for _ in range(STEPS):
        information[:], slope = penalty, -own @ penalty
        for x, action, won in log.parts(rows):
            for a in range(actions):
                taken = action == a
                curved, rising = _of_rows(x[taken], won[taken], shared + own[a])
                information[a] += curved
                slope[a] += rising
        own = own + np.linalg.solve(information, slope[..., None])[..., 0]
    return Odds(shared + own, np.linalg.inv(information))


def _shared(log: Binary, rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, " x"]:
    """β₀."""
    width = log.dataset.observations.shape[1] + 1
    coefficients = np.zeros(width)
    share = (sum(won.sum() for _, _, won in log.parts(rows)) + 0.5) / (len(rows) + 1)
    coefficients[0] = np.log(share / (1 - share))  # from where few steps lead to the end, however rare it is
    for _ in range(STEPS):
        information, slope = SHARED_RIDGE * np.eye(width), -SHARED_RIDGE * coefficients
        for x, _, won in log.parts(rows):
            curved, rising = _of_rows(x, won, coefficients)
            information, slope = information + curved, slope + rising
        coefficients = coefficients + np.linalg.solve(information, slope)
    return coefficients


def _of_rows(
    x: Float[np.ndarray, "n x"], won: np.ndarray, coefficients: Float[np.ndarray, " x"]
) -> tuple[Float[np.ndarray, "x x"], Float[np.ndarray, " x"]]:
    """What these rows add to the information, and to the slope of the log-likelihood."""
    chance = logistic(x @ coefficients)
    return (x * (chance * (1 - chance))[:, None]).T @ x, x.T @ (won - chance)
