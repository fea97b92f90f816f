"""IPS, SNIPS and DR of one-step logs as a statistician would write them, in NumPy alone: the measure of a judge."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

FOLDS = 3
PENALTY = 1.0  # of the regressions: a row's worth


class Plain(NamedTuple):
    """A mean over rows, and its standard error."""

    value: float
    error: float

    def width(self, level: float = 0.95) -> float:
        return 2 * NormalDist().inv_cdf((1 + level) / 2) * self.error


def mean_of(rows: np.ndarray) -> Plain:
    return Plain(float(rows.mean()), float(rows.std(ddof=1) / np.sqrt(len(rows))))


def ips(weights: np.ndarray, rewards: np.ndarray) -> Plain:
    return mean_of(weights * rewards)


def snips(weights: np.ndarray, rewards: np.ndarray) -> Plain:
    """Σwr/Σw, with the error of its linearisation."""
    value = float(np.sum(weights * rewards) / np.sum(weights))
    return Plain(value, mean_of(weights * (rewards - value) / weights.mean()).error)


def dr(seen: np.ndarray, actions: np.ndarray, rewards: np.ndarray, chances: np.ndarray, weights: np.ndarray) -> Plain:
    """Σₐ π(a|x) r̂(x, a) + w (r − r̂): r̂ by a linear regression for each action, on the other folds' rows."""
    columns = np.column_stack([np.ones(len(seen)), (seen - seen.mean(axis=0)) / seen.std(axis=0)])
    fold = np.random.default_rng(0).permutation(len(seen)) % FOLDS
    expected = np.zeros(chances.shape)
    for part in range(FOLDS):
        overall = rewards[fold != part].mean()
        for action in range(chances.shape[1]):
            rows = (fold != part) & (actions == action)
            square = columns[rows].T @ columns[rows] + PENALTY * np.eye(columns.shape[1])
            coefficients = np.linalg.solve(square, columns[rows].T @ (rewards[rows] - overall))
            expected[fold == part, action] = overall + columns[fold == part] @ coefficients
    taken = expected[np.arange(len(seen)), actions]
    return mean_of((chances * expected).sum(axis=1) + weights * (rewards - taken))


def plain_estimates(
    seen: np.ndarray, actions: np.ndarray, rewards: np.ndarray, propensities: np.ndarray, chances: np.ndarray
) -> dict[str, Plain]:
    """All three. `chances` has the policy's probabilities [rows, actions]; `propensities` those of what was done."""
    weights = chances[np.arange(len(actions)), actions] / propensities
    return {
        "IPS": ips(weights, rewards),
        "SNIPS": snips(weights, rewards),
        "DR": dr(seen, actions, rewards, chances, weights),
    }
