"""One decision an episode: few and many actions, few and many rows, heavy tails, units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from worlds.tabular import Lookup, Noise, Tabular, constant, mixed, normal, softmax, tabular_world
from worlds.world import World

CONTEXTS = 64
# (rows, actions): how far the policy goes from the behaviour to the best one
SIZES = {
    (20_000, 2): 0.9,
    (20_000, 5): 0.7,
    (20_000, 50): 0.1,
    (500, 2): 0.8,
    (500, 5): 0.6,
    (500, 50): 0.2,
}


def offers(actions: int, noise: Noise | None = None, seed: int = 1) -> tuple[Tabular, np.ndarray]:
    """64 customers known by three numbers, offers that suit some of them, and a behaviour that knows a little."""
    rng = np.random.default_rng(seed)
    seen, taste = rng.normal(size=(CONTEXTS, 3)), rng.normal(size=(3, actions)) / np.sqrt(3)
    suits = seen @ taste
    rewards = 1 / (1 + np.exp(1.5 - suits))
    wont = softmax(0.3 * suits + 1.5 * rng.normal(size=suits.shape))
    behaviour = mixed(0.75, wont, np.full(suits.shape, 1 / actions))
    problem = Tabular(np.zeros((CONTEXTS, actions, CONTEXTS)), rewards, np.full(CONTEXTS, 1 / CONTEXTS), 1, seen)
    return replace(problem, noise=noise), behaviour


def best_of(problem: Tabular) -> np.ndarray:
    return np.eye(problem.rewards.shape[1])[problem.rewards.argmax(axis=1)]


def hardly_worse(problem: Tabular, behaviour: np.ndarray) -> np.ndarray:
    """The best for some and the worst for others, as many as leave it just below the behaviour."""
    worst = np.eye(behaviour.shape[1])[problem.rewards.argmin(axis=1)]
    best = np.arange(1, CONTEXTS + 1)[:, None, None] > np.arange(CONTEXTS)[:, None]
    tables = np.where(best, best_of(problem), worst)  # table k is best for the first k
    below = [table for table in tables if problem.value(table, 1.0) < problem.value(behaviour, 1.0)]
    return below[-1]


def bought(played, rng):
    """An edit: whoever buys pays 1, by the chance that the reward was."""
    return replace(played, rewards=(rng.random(played.rewards.shape) < played.rewards).astype(float))


def worlds() -> Iterator[World]:
    for (rows, actions), share in SIZES.items():
        problem, behaviour = offers(actions)
        for suffix, end in (("", best_of(problem)), ("-worse", hardly_worse(problem, behaviour))):
            target = mixed(share, end, behaviour)
            weight = float((target / behaviour).max())
            yield tabular_world(
                f"one-step-{actions}-of-{rows}{suffix}",
                f"One decision among {actions}, {rows:,} times; weights up to {weight:.0f}.",
                problem,
                behaviour,
                target,
                episodes=rows,
                edit=bought,
            )
    # Student's t with 3 degrees, in thousands; and log-normal costs, of which few make most of the sum
    tails = {
        "t3": (lambda rng, shape: 0.3 * rng.standard_t(3, size=shape), 1000.0, 0.0),
        "log-normal": (lambda rng, shape: 0.3 * (np.exp(0.5) - rng.lognormal(0.0, 1.0, size=shape)), 1e-4, -1e-3),
    }
    for name, (noise, scale, offset) in tails.items():
        problem, behaviour = offers(3, noise)
        for suffix, end in (("", best_of(problem)), ("-worse", hardly_worse(problem, behaviour))):
            yield tabular_world(
                f"heavy-tails-{name}{suffix}",
                "Rewards of which a few are many times as large as all others.",
                problem.scaled(scale, offset),
                behaviour,
                mixed(0.5, end, behaviour),
                episodes=2000,
            )
    for units in (2, 5, 9, 20):
        yield few_units(f"units-{units}", units, 0.0)
    yield few_units("units-40-gain", 40, 0.8)


def few_units(name: str, units: int, effect: float) -> World:
    """Units differ in level and, as much, in what action 1 does to them; its effect on all of them is `effect`."""
    now, new = constant([0.5, 0.5], 2), constant([0.1, 0.9], 2)
    rewards = 3.0 + np.array([[0.0, effect], [0.5, 0.5 + effect]])
    problem = Tabular(np.zeros((2, 2, 2)), rewards, np.full(2, 0.5), 1, np.array([[-1.0], [1.0]]), 1, normal(0.5))

    def log(seed: int, episodes: int):
        rng = np.random.default_rng(seed)
        played = problem.play(now, episodes, rng)
        unit = np.arange(episodes) % units
        level, own = rng.normal(size=units), rng.normal(size=units)
        rewards = played.rewards + level[unit, None] + np.where(played.actions == 1, own[unit, None], 0.0)
        return replace(played, rewards=rewards).log(units=unit)

    return World(
        name=name,
        trap=f"{units} units that differ much, fifty episodes each; "
        + ("the action helps most of them." if effect else "on the average of all units the action does nothing."),
        make_log=log,
        policy=Lookup(problem.seen, new),
        truth=problem.value(new, 1.0),
        today=problem.value(now, 1.0) if effect else problem.value(new, 1.0),
        episodes=50 * units,
        play=lambda target, count, rng: problem.play(new if target else now, count, rng),
    )
