"""Several decisions an episode, with a state that tells all: cliffs, late rewards, long episodes, masks, noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from worlds.limits import WALKS, inwards, walk
from worlds.tabular import Tabular, mixed, normal, softmax, tabular_world
from worlds.world import World


def random_problem(states: int, actions: int, horizon: int, seed: int, spread: float = 0.3) -> Tabular:
    """Dirichlet transitions to few states each, rewards uniform on [0, 1], observed as three numbers a state."""
    rng = np.random.default_rng(seed)
    return Tabular(
        rng.dirichlet(np.full(states, 0.3), size=(states, actions)),
        rng.random((states, actions)),
        rng.dirichlet(np.ones(states)),
        horizon,
        rng.normal(size=(states, 3)),
        noise=normal(spread),
    )


def towards(problem: Tabular, behaviour: np.ndarray, share: float, discount: float) -> np.ndarray:
    """The behaviour mixed with what is best after it (share above 0) or worst (below 0)."""
    values = problem.action_values(behaviour, discount) * np.sign(share)
    allowed = behaviour > 0
    best = np.eye(behaviour.shape[1])[np.where(allowed, values, -np.inf).argmax(axis=1)]
    return mixed(abs(share), best, behaviour)


def doses() -> Tabular:
    """A dose accumulates and wears off; it helps the more the higher it is, and is toxic from 7 on."""
    levels = 12
    transitions = np.zeros((levels, 2, levels))
    for s in range(levels):
        transitions[s, 1, min(s + 1, levels - 1)] = 1.0
        transitions[s, 0, max(s - 1, 0)] = 0.7
        transitions[s, 0, s] += 0.3
    rewards = np.where(np.arange(levels) < 7, 0.1 * np.arange(levels), -3.0)[:, None] * np.ones(2)
    return Tabular(transitions, rewards, np.eye(levels)[0], 20, np.arange(levels)[:, None] / levels, noise=normal(0.2))


def journey() -> Tabular:
    """Ten steps up and down a ladder of nine; whoever stands on one of the upper three at the end is paid 1."""
    rungs, steps = 9, 10
    states = rungs * steps  # the step is observed
    transitions, rewards = np.zeros((states, 2, states)), np.zeros((states, 2))
    for t in range(steps):
        for rung in range(rungs):
            for a, step in enumerate((-1, 1)):
                s = t * rungs + rung
                for chance, to in ((0.8, rung + step), (0.2, rung - step)):
                    to = min(max(to, 0), rungs - 1)
                    if t + 1 < steps:
                        transitions[s, a, (t + 1) * rungs + to] += chance
                    else:
                        rewards[s, a] += chance * (to >= 6)
    t, rung = np.divmod(np.arange(states), rungs)
    seen = np.stack([t / steps, rung / rungs], axis=1)
    return Tabular(transitions, rewards, np.eye(states)[3], steps, seen)


def worlds() -> Iterator[World]:
    dosed = doses()
    for name, now, chance in (("cliff", 0.35, 0.9), ("cliff-near", 0.35, 0.5), ("cliff-gain", 0.2, 0.3)):
        yield tabular_world(
            name,
            "A dose accumulates, and where the behaviour hardly goes it is toxic.",
            dosed,
            np.tile([1 - now, now], (12, 1)),
            np.tile([1 - chance, chance], (12, 1)),
            episodes=400,
        )
    late = journey()
    for suffix, chance in (("", 0.6), ("-worse", 0.45)):
        yield tabular_world(
            f"sparse{suffix}",
            "Nothing is paid before the last of ten steps, and seldom then.",
            late.scaled(50.0),
            np.tile([0.5, 0.5], (90, 1)),
            np.tile([1 - chance, chance], (90, 1)),
            episodes=600,
        )
    yield from long_episodes()
    yield from same_or_little_worse()
    yield from masked()
    yield from noisy()


def long_episodes() -> Iterator[World]:
    problem = random_problem(6, 2, 1000, seed=3)
    behaviour = np.random.default_rng(4).dirichlet([6.0, 6.0], size=6)
    for suffix, share in (("", 0.3), ("-worse", -0.1)):
        yield tabular_world(
            f"long{suffix}",
            "Thirty episodes of 1,000 steps; the whole sum counts.",
            problem,
            behaviour,
            towards(problem, behaviour, share, 0.95),
            episodes=30,
        )
    yield tabular_world(
        "long-discounted",
        "Thirty episodes of 1,000 steps, discounted: the first hundred count.",
        problem.scaled(1.0, 100.0),
        behaviour,
        towards(problem, behaviour, 0.6, 0.95),
        episodes=30,
        discount=0.99,
    )


def same_or_little_worse() -> Iterator[World]:
    line, now = walk(), inwards(WALKS[65][0])
    yield tabular_world(
        "same-policy",
        "The policy is the behaviour itself, under a time limit.",
        line,
        now,
        now,
        episodes=300,
    )
    copied = line.play(now, 300, np.random.default_rng(10))  # another log, from which the behaviour is copied
    counts = np.ones((len(now), 2))
    state = np.rint(copied.observations[:, :-1, 0] * 5 + 5).astype(int)
    counted = np.arange(copied.actions.shape[1]) < copied.lengths[:, None]
    np.add.at(counts, (state[counted], copied.actions[counted]), 1)
    yield tabular_world(
        "cloned-policy",
        "The policy is a copy of the behaviour, counted on another log, under a time limit.",
        line,
        now,
        counts / counts.sum(axis=1, keepdims=True),
        episodes=300,
    )
    problem = random_problem(8, 3, 20, seed=5)
    behaviour = np.random.default_rng(6).dirichlet([4.0, 4.0, 4.0], size=8)
    for suffix, share, scale, offset in (
        ("little-worse", -0.03, 1.0, 0.0),
        ("little-worse-costs", -0.03, 10.0, -500.0),
        ("random-problem", 0.25, 1e-3, 0.0),
    ):
        yield tabular_world(
            suffix,
            "A random problem of eight states, twenty steps; the policy is "
            + ("worse by about a standard error." if share < 0 else "better."),
            problem.scaled(scale, offset),
            behaviour,
            towards(problem, behaviour, share, 0.95),
            episodes=300,
        )


def masked() -> Iterator[World]:
    problem = random_problem(8, 4, 10, seed=7)
    rng = np.random.default_rng(8)
    legal = rng.random((8, 4)) < 0.6
    legal[np.arange(8), rng.integers(4, size=8)] = True
    legal[:, 0] = True
    wont = softmax(np.where(legal, rng.normal(size=(8, 4)), -np.inf))
    behaviour = mixed(0.5, wont, legal / legal.sum(axis=1, keepdims=True))
    problem = Tabular(**{**vars(problem), "legal": legal})
    for suffix, share in (("", 0.4), ("-worse", -0.1)):
        yield tabular_world(
            f"masks{suffix}",
            "Four actions, of which some are illegal in each state.",
            problem.scaled(5.0, -20.0),
            behaviour,
            towards(problem, behaviour, share, 1.0),
            episodes=400,
        )


def noisy() -> Iterator[World]:
    problem = Tabular(**{**vars(random_problem(8, 2, 8, seed=9)), "noise_columns": 20})
    behaviour = np.random.default_rng(10).dirichlet([5.0, 5.0], size=8)
    for suffix, share in (("", 0.4), ("-worse", -0.1)):
        yield tabular_world(
            f"noise-columns{suffix}",
            "Three columns that matter and twenty that are noise.",
            problem,
            behaviour,
            towards(problem, behaviour, share, 1.0),
            episodes=500,
        )
