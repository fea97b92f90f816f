"""What intervals rest on and is not so: a state that tells all, propensities as logged, one effect throughout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from worlds.tabular import Lookup, Tabular, constant, normal, tabular_world
from worlds.world import Played, World, joined

STEPS = 10


def history() -> Tabular:
    """½ a₁₀ − 1.5 mean(a₁ … a₉), paid at the end; states are (step, how often 1 was taken), observations noise."""
    states = STEPS * STEPS
    transitions, rewards = np.zeros((states, 2, states)), np.zeros((states, 2))
    for t in range(STEPS):
        for taken in range(t + 1):
            for a in range(2):
                s = t * STEPS + taken
                if t + 1 < STEPS:
                    transitions[s, a, (t + 1) * STEPS + taken + a] = 1.0
                else:
                    rewards[s, a] = 0.5 * a - 1.5 * taken / (STEPS - 1)
    return Tabular(transitions, rewards, np.eye(states)[0], STEPS, np.zeros((states, 0)), noise_columns=2)


def tolerance() -> Tabular:
    """Action 1 earns 1 the first three times in an episode and costs 1.2 from then on; nothing observed counts."""
    states = 4
    transitions = np.zeros((states, 2, states))
    for s in range(states):
        transitions[s, 0, s] = transitions[s, 1, min(s + 1, 3)] = 1.0
    rewards = np.stack([np.zeros(states), np.array([1.0, 1.0, 1.0, -1.2])], axis=1)
    return Tabular(
        transitions, rewards, np.eye(states)[0], STEPS, np.zeros((states, 0)), noise_columns=2, noise=normal(0.3)
    )


def two_conditions(effect: float, level: float = 1.0, steps: int = 5) -> Tabular:
    """Action 1 changes the reward by `effect`, whatever the condition; the condition wanders."""
    chain = np.array([[0.7, 0.3], [0.3, 0.7]])
    transitions = np.repeat(chain[:, None], 2, axis=1)
    rewards = level + np.array([[0.0, effect], [0.3, 0.3 + effect]])
    return Tabular(transitions, rewards, np.full(2, 0.5), steps, np.array([[-1.0], [1.0]]), 1, normal(0.5))


def as_logged(table: np.ndarray):
    """An edit: the log says that the table's chances were the behaviour's."""

    def edit(played: Played, rng: np.random.Generator) -> Played:
        states = (played.observations[:, :-1, 0] > 0).astype(int)
        return replace(played, distributions=table[states])

    return edit


def worlds() -> Iterator[World]:
    for suffix, chance in (("", 0.65), ("-gain", 0.38)):
        yield tabular_world(
            f"history{suffix}",
            "Early actions take away at the end what the last one seems to earn, and no observation remembers them.",
            history(),
            constant([0.5, 0.5], 100),
            constant([1 - chance, chance], 100),
            episodes=1000,
            holds=False,
        )
    for suffix, now, chance in (("", 0.3, 0.6), ("-gain", 0.6, 0.5)):
        yield tabular_world(
            f"hidden-counter{suffix}",
            "An action helps the first three times and harms from then on, and no observation counts.",
            tolerance(),
            constant([1 - now, now], 4),
            constant([1 - chance, chance], 4),
            episodes=1000,
            holds=False,
        )
    even = constant([0.5, 0.5], 2)
    yield tabular_world(
        "wrong-propensities",
        "The log says .5/.5 where action 1 was taken 75 % of the time; the policy takes it still more often.",
        two_conditions(-0.05),
        constant([0.25, 0.75], 2),
        constant([0.15, 0.85], 2),
        episodes=400,
        edit=as_logged(even),
        holds=False,
    )
    yield tabular_world(
        "wrong-by-state",
        "The log says .5/.5; action 1 was taken 75 % of the time in one condition, 25 % in the other.",
        two_conditions(-0.05, level=10.0),
        np.array([[0.75, 0.25], [0.25, 0.75]]),
        np.array([[0.65, 0.35], [0.15, 0.85]]),
        episodes=400,
        edit=as_logged(even),
        holds=False,
    )
    level = two_conditions(-0.05, steps=1)
    yield tabular_world(
        "wrong-one-step",
        "The same in one decision: where action 1 was taken too often things go well, where too seldom they do not.",
        replace(level, rewards=level.rewards + np.array([[-1.0], [1.0]])),
        np.array([[0.75, 0.25], [0.25, 0.75]]),
        constant([0.2, 0.8], 2),
        episodes=2000,
        edit=as_logged(even),
        holds=False,
    )
    yield drift("drift", "The effect of action 1 is reversed in the last 40 % of episodes.", (1.0, -1.0), 0.6)
    yield drift("drift-slow", "The effect of action 1 wears off, episode by episode, into harm.", (0.9, 0.6, 0.3, -0.3))
    for suffix, effect in (("", -0.15), ("-gain", 0.4)):
        yield confounded(f"confounded{suffix}", effect)


def drift(name: str, trap: str, effects: tuple[float, ...], early: float | None = None) -> World:
    """The truth is that of the last episodes, in which the policy would begin."""
    parts = [two_conditions(effect) for effect in effects]
    now, new = constant([0.5, 0.5], 2), constant([0.2, 0.8], 2)
    first = 1 / len(parts) if early is None else early

    def log(seed: int, episodes: int):
        rng = np.random.default_rng(seed)
        counts = np.diff(np.rint(episodes * np.append(0, first + (1 - first) * np.linspace(0, 1, len(parts)))))
        played = [part.play(now, int(count), rng) for part, count in zip(parts, counts, strict=True)]
        return joined(played).log()

    return World(
        name=name,
        trap=trap,
        make_log=log,
        policy=Lookup(parts[-1].seen, new),
        truth=parts[-1].value(new, 1.0),
        today=parts[-1].value(now, 1.0),
        episodes=1500,
        play=lambda target, count, rng: parts[-1].play(new if target else now, count, rng),
        holds=False,
    )


def confounded(name: str, effect: float) -> World:
    """One decision; the severe are treated more often and fare worse, and severity is not in the log."""
    severe = np.array([False, True, False, True])  # states: (condition, severity)
    seen = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    rewards = np.where(severe, -1.0, 1.0)[:, None] * np.ones(2) + np.array([0.0, effect])
    problem = Tabular(np.zeros((4, 2, 4)), rewards, np.full(4, 0.25), 1, seen, 1, normal(0.5))
    treated = np.where(severe, 0.35, 0.65)  # the well are treated more often: treatment looks good
    behaviour = np.stack([1 - treated, treated], axis=1)
    even = constant([0.5, 0.5], 2)
    return tabular_world(
        name,
        "Those who would fare well anyway were treated more often, for reasons that are not in the log.",
        problem,
        behaviour,
        constant([0.2, 0.8], 4),
        episodes=2000,
        edit=as_logged(even),
        holds=False,
        exempt=True,
    )
