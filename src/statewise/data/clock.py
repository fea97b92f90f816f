"""The clock: where a limit cuts episodes off, what is to come depends on the time left.

The state ratio, and a critic if asked to, see it as one more observation, the last. No policy does.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from statewise.base.column import like
from statewise.data.dataset import ROW_COLUMNS, Dataset
from statewise.data.horizon import Horizon, beyond

CLOCK = "(clock)"  # the column of the time; no log has one of that name
MATTERS = 1e-3  # a limit beyond which less than this share of the future lies is none


def limit_of(dataset: Dataset, discount: float) -> int | None:
    """The step H at which the world cuts episodes off, if that makes a difference."""
    cut_off, steps = dataset.horizon
    return steps if cut_off == "limit" and beyond(dataset, discount) > MATTERS else None


def has_clock(dataset: Dataset) -> bool:
    return dataset.observation_names[-1] == CLOCK


def clock(time: Int[np.ndarray, " n"], limit: int) -> Float[np.ndarray, " n"]:
    """√12 (t/H − ½): steps drawn uniformly then have mean 0 and deviation 1, like any scaled observation."""
    return math.sqrt(12) * (time / limit - 0.5)


def with_clock(dataset: Dataset, limit: int, ends: bool = True) -> Dataset:
    """The log up to the limit, with the time in a last column; the limit is an end like any other if it `ends`."""
    dataset = up_to(dataset, limit)

    def widened(values: np.ndarray, time: np.ndarray) -> np.ndarray:
        wider = like(values, (len(values), values.shape[1] + 1), values.dtype)
        wider[:, :-1], wider[:, -1] = values, clock(time, limit)
        return wider

    if not has_clock(dataset):
        dataset = replace(
            dataset,
            observations=widened(dataset.observations, dataset.time),
            final_observations=widened(dataset.final_observations, dataset.lengths),
            observation_names=(*dataset.observation_names, CLOCK),
            ends=Horizon("limit", limit),
        )
    return replace(dataset, terminated=dataset.terminated | (ends & (dataset.lengths == limit)))


def up_to(dataset: Dataset, limit: int) -> Dataset:
    """Only the decisions before the limit; an episode that went on is cut off there, in the state that it led to."""
    longer = dataset.lengths > limit
    if not longer.any():
        return dataset
    kept = dataset.time < limit
    next_rows = np.minimum(dataset.starts[:-1] + limit, len(dataset) - 1)
    final = np.where(longer[:, None], dataset.observations[next_rows], dataset.final_observations)
    parts = {name: None if (column := getattr(dataset, name)) is None else column[kept] for name in ROW_COLUMNS}
    return replace(
        dataset,
        starts=np.concatenate([[0], np.cumsum(np.minimum(dataset.lengths, limit))]),
        terminated=dataset.terminated & ~longer,
        final_observations=final,
        estimated=None if dataset.estimated is None else dataset.estimated.take(np.flatnonzero(kept)),
        **parts,
    )
