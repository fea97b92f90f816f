"""Where a new policy differs from the logged behaviour."""

from __future__ import annotations

from typing import Any

import numpy as np

from statewise.data.dataset import Dataset
from statewise.data.readable import columns_of
from statewise.policies.importance import importance_of
from statewise.report.content import ActionMap, Agreement

FEWEST = 5  # decisions that a cell needs to be shown


def agreement(policy: Any, dataset: Dataset) -> Agreement:
    """The mean of π(j|s) over the decisions in which the log took i; `same` is the mean of π(a|s)."""
    probabilities = policy.probabilities(dataset.observations, dataset.legal)
    counts = np.bincount(dataset.actions, minlength=dataset.action_count)
    sums = np.zeros((dataset.action_count, dataset.action_count))
    np.add.at(sums, dataset.actions, probabilities)
    means = sums / np.maximum(counts, 1)[:, None]
    taken = probabilities[np.arange(len(dataset)), dataset.actions]
    rows = tuple(tuple(row) for row in means.tolist())
    return Agreement(policy.action_names, tuple(counts.tolist()), rows, float(taken.mean()))


def influential_columns(policy: Any, dataset: Dataset, count: int = 2) -> list[int]:
    """The features whose shuffling changes the policy most, numbers where there are any; none if nothing does."""
    changes = importance_of(policy, dataset, [[j] for j in range(dataset.observations.shape[1])])
    numbers = [column.first for column in columns_of(dataset) if not column.has_words and changes[column.first] > 0]
    order = numbers or np.flatnonzero(changes > 0).tolist()
    return sorted(order, key=lambda j: -changes[j])[:count]


def action_map(policy: Any, dataset: Dataset, cells: tuple[int, int] = (14, 10)) -> ActionMap | None:
    """The logged and the proposed actions over the two most influential columns; None where it looks at none."""
    columns = influential_columns(policy, dataset)
    if not columns:
        return None
    edges = [_edges(dataset.observations[:, j], n) for j, n in zip(columns, cells, strict=False)]
    edges = edges if len(edges) == 2 else [*edges, np.array([0.0, 1.0])]
    places = [_cell(dataset.observations[:, j], these) for j, these in zip(columns, edges, strict=False)] + [
        np.zeros(len(dataset), dtype=int)
    ] * (2 - len(columns))
    shape = (len(edges[1]) - 1, len(edges[0]) - 1, dataset.action_count)
    inside = (places[0] >= 0) & (places[1] >= 0)
    x, y = places[0][inside], places[1][inside]
    taken, proposed = np.zeros(shape), np.zeros(shape)
    np.add.at(taken, (y, x, dataset.actions[inside]), 1)
    legal = None if dataset.legal is None else dataset.legal[inside]
    np.add.at(proposed, (y, x), policy.probabilities(dataset.observations[inside], legal))
    enough = taken.sum(axis=2) >= FEWEST
    names = [dataset.observation_names[j] for j in columns]
    return ActionMap(
        actions=policy.action_names,
        x=names[0],
        y=names[1] if len(names) == 2 else "",
        x_edges=tuple(edges[0].tolist()),
        y_edges=tuple(edges[1].tolist()),
        logged=_greatest(taken, enough),
        proposed=_greatest(proposed, enough),
    )


def _edges(column: np.ndarray, count: int) -> np.ndarray:
    """Equal steps over the middle 98 %, so that outliers do not leave the map empty."""
    low, high = np.quantile(column, (0.01, 0.99)).astype(float)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, count + 1)


def _cell(column: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The cell of each value; −1 outside of all."""
    place = np.searchsorted(edges, column, side="right") - 1
    place[column == edges[-1]] = len(edges) - 2
    return np.where((place >= 0) & (place < len(edges) - 1), place, -1)


def _greatest(amounts: np.ndarray, enough: np.ndarray) -> tuple[tuple[int | None, ...], ...]:
    best = amounts.argmax(axis=2)
    rows = zip(best.tolist(), enough.tolist(), strict=True)
    return tuple(tuple(a if known else None for a, known in zip(*row, strict=True)) for row in rows)
