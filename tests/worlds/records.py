"""Logs without propensities: they are estimated, by a model that can be right and by one that cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

import statewise as sw
from worlds.tabular import Lookup, Tabular, normal
from worlds.world import World

SIDE = 9  # points on each axis of a grid of conditions


def grid() -> Tabular:
    """Conditions on a grid in two numbers, which wander; action 1 earns more where both are high."""
    axis = np.linspace(-1.5, 1.5, SIDE)
    seen = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    near = np.exp(-2 * ((seen[:, None] - 0.8 * seen[None]) ** 2).sum(axis=-1)).T
    moves = near / near.sum(axis=1, keepdims=True)
    rewards = np.stack([seen[:, 0] * 0.2, 0.3 * seen[:, 0] * 0.2 + 0.4 * seen[:, 1]], axis=1)
    start = np.full(len(seen), 1 / len(seen))
    return Tabular(np.repeat(moves[:, None], 2, axis=1), rewards, start, 5, seen, noise=normal(0.5))


def logistic(logit: np.ndarray) -> np.ndarray:
    chance = 1 / (1 + np.exp(-logit))
    return np.stack([1 - chance, chance], axis=1)


def worlds() -> Iterator[World]:
    problem = grid()
    x, y = problem.seen.T
    linear = logistic(0.8 * x + 0.4 * y)
    bent = logistic(2.0 * np.abs(y) - 1.5 + 0.3 * x)  # a straight line cannot follow it
    yield estimated("estimated", "estimated by a model that can be right", problem, linear, 1.2)
    yield estimated("estimated-worse", "estimated by a model that can be right", problem, linear, -0.25)
    yield estimated(
        "misspecified", "estimated by a straight line, and they are bent", problem, bent, -0.25, holds=False
    )


def estimated(name: str, how: str, problem: Tabular, behaviour: np.ndarray, lean: float, holds: bool = True) -> World:
    """The policy shifts the behaviour's logits towards what earns more (lean above 0) or less."""
    y = problem.seen[:, 1]
    target = logistic(np.log(behaviour[:, 1] / behaviour[:, 0]) + lean * y)

    def log(seed: int, episodes: int) -> sw.Dataset:
        data = problem.play(behaviour, episodes, np.random.default_rng(seed)).log()
        return sw.estimate_propensities(replace(data, propensities=None, distributions=None), model="logistic")

    play: Callable = lambda new, count, rng: problem.play(target if new else behaviour, count, rng)  # noqa: E731
    return World(
        name=name,
        trap=f"Propensities were not logged but {how}.",
        make_log=log,
        policy=Lookup(problem.seen, target),
        truth=problem.value(target, 1.0),
        today=problem.value(behaviour, 1.0),
        episodes=500,
        play=play,
        holds=holds,
        needs=("sklearn",),
    )
