"""Episodes in which a policy would decide otherwise, for an expert to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset
from statewise.data.readable import Column

SHOWN = 3  # episodes
MOMENTS = 6  # decisions of each


@dataclass(frozen=True)
class Moment:
    """One decision: what was known, what was done, and what the policy would most likely do."""

    step: int  # from 1
    state: tuple[str, ...]  # the raw values of the example's columns
    logged: str
    proposed: str
    policy: float  # the probability of what is proposed, by the policy …
    today: float  # … and by today's
    reward: float


@dataclass(frozen=True)
class Example:
    """Some decisions of one episode, those where the policy differs most among them."""

    episode: str
    unit: str  # "" where the log has none
    steps: int  # that it has in all
    columns: tuple[str, ...]
    moments: tuple[Moment, ...]


def examples_of(
    log: Dataset,
    policy: Float[np.ndarray, "steps actions"],
    today: Float[np.ndarray, "steps actions"],
    columns: Sequence[Column],
) -> tuple[Example, ...]:
    """The episodes in which ½ Σ_a |π(a|s) − μ(a|s)| is greatest on average, no two of one unit."""
    apart = np.abs(policy - today).sum(axis=1) / 2
    means = np.add.reduceat(apart, log.starts[:-1]) / log.lengths
    chosen: list[int] = []
    for episode in np.argsort(-means, kind="stable"):
        if len(chosen) == SHOWN or means[episode] == 0:
            break
        if log.groups[episode] not in log.groups[chosen]:
            chosen.append(int(episode))
    return tuple(_example(log, episode, apart, policy, today, columns) for episode in chosen)


def _example(
    log: Dataset, episode: int, apart: np.ndarray, policy: np.ndarray, today: np.ndarray, columns: Sequence[Column]
) -> Example:
    start, end = int(log.starts[episode]), int(log.starts[episode + 1])
    # the stretch of decisions in which it differs most
    firsts = np.arange(start, max(end - MOMENTS, start) + 1)
    totals = [apart[first : first + MOMENTS].sum() for first in firsts]
    rows = np.arange(firsts[int(np.argmax(totals))], end)[:MOMENTS]
    values = [column.values(log.observations[rows]) for column in columns]
    moments = []
    for place, row in enumerate(rows):
        likeliest = int(policy[row].argmax())
        moments.append(
            Moment(
                step=int(log.time[row]) + 1,
                state=tuple(column[place] for column in values),
                logged=log.action_names[log.actions[row]],
                proposed=log.action_names[likeliest],
                policy=float(policy[row, likeliest]),
                today=float(today[row, likeliest]),
                reward=float(log.rewards[row]),
            )
        )
    return Example(
        episode=str(log.episode_ids[episode]),
        unit="" if log.units is None else str(log.units[episode]),
        steps=end - start,
        columns=tuple(column.name for column in columns),
        moments=tuple(moments),
    )
