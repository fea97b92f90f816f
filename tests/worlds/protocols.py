"""A protocol that leaves nothing to chance: the propensity of what was done is 1, and nobody tried anything else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from worlds.tabular import Tabular, normal, tabular_world
from worlds.world import World

STATES, STEPS = 6, 10
PROTOCOL = np.array([0, 1, 0, 1, 0, 1])


def clinic() -> Tabular:
    """Six conditions; the protocol's action leads to milder ones more often and costs less than the other."""
    transitions = np.zeros((STATES, 2, STATES))
    for s in range(STATES):
        for a in range(2):
            milder = 0.6 if a == PROTOCOL[s] else 0.4
            transitions[s, a, max(s - 1, 0)] += milder
            transitions[s, a, min(s + 1, STATES - 1)] += 1 - milder
    costs = -(1.0 + np.arange(STATES)[:, None] + 0.5 * (np.arange(2) != PROTOCOL[:, None]))
    seen = np.stack([np.arange(STATES) / STATES, np.cos(np.arange(STATES))], axis=1)
    return Tabular(transitions, costs, np.full(STATES, 1 / STATES), STEPS, seen, noise=normal(0.5))


def follows(share: np.ndarray | float) -> np.ndarray:
    """Does as the protocol says in that share of decisions (by state), otherwise the other thing."""
    share = np.broadcast_to(share, STATES)
    return np.where(np.arange(2) == PROTOCOL[:, None], share[:, None], 1 - share[:, None])


def worlds() -> Iterator[World]:
    fixed, partly = follows(1.0), follows(np.where(np.arange(STATES) % 3 == 2, 1.0, 0.5))
    shifts = (("", 0.0), ("-shifted", -5.0))
    for suffix, offset in shifts:
        problem = clinic().scaled(offset=offset)
        for name, target in (("", follows(0.7)), ("-reversed", follows(0.0))):
            yield tabular_world(
                f"fixed-protocol{name}{suffix}",
                "Costs under a protocol without exceptions; the policy departs from it and nobody ever did.",
                problem,
                fixed,
                target,
                episodes=300,
                whole_distributions=False,
                holds=False,
                identified=False,
            )
        yield tabular_world(
            f"partly-fixed{suffix}",
            "A third of the states have a protocol without exceptions, and there the policy departs from it.",
            problem,
            partly,
            follows(np.where(np.arange(STATES) % 3 == 2, 0.3, 0.5)),
            episodes=300,
            whole_distributions=False,
            holds=False,
            identified=False,
        )
        yield tabular_world(
            f"partly-fixed-elsewhere{suffix}",
            "A third of the states have a protocol without exceptions; the policy departs elsewhere, for the better.",
            problem,
            partly,
            follows(np.where(np.arange(STATES) % 3 == 2, 1.0, 0.85)),
            episodes=300,
            whole_distributions=False,
        )
    yield tabular_world(
        "nearly-fixed",
        "The protocol has one exception in a hundred; the policy makes many, for the worse.",
        clinic(),
        follows(0.99),
        follows(0.5),
        episodes=300,
        whole_distributions=False,
    )
    yield rows_fixed()


def rows_fixed() -> World:
    """On a third of the days, which the log shows, everybody follows the protocol."""
    inner = clinic()
    days = np.array([1 / 3, 2 / 3])  # strict or not, drawn anew at every step
    transitions = np.einsum("sat,d->satd", inner.transitions, days)
    transitions = np.repeat(transitions[:, None], 2, axis=1)  # [state, day, action, state, day]
    problem = Tabular(
        transitions.reshape(2 * STATES, 2, STATES, 2).reshape(2 * STATES, 2, 2 * STATES),
        np.repeat(inner.rewards, 2, axis=0),
        np.outer(inner.initial, days).reshape(-1),
        STEPS,
        np.column_stack([np.repeat(inner.seen, 2, axis=0), np.tile([1.0, 0.0], STATES)]),
        noise=inner.noise,
    )

    def by_day(strict: float, other: float) -> np.ndarray:
        return np.stack([follows(strict), follows(other)], axis=1).reshape(2 * STATES, 2)

    return tabular_world(
        "fixed-days",
        "A third of the rows follow the protocol without exception, and on such days too the policy departs from it.",
        problem,
        by_day(1.0, 0.5),
        by_day(0.5, 0.5),
        episodes=300,
        whole_distributions=False,
        holds=False,
        identified=False,
    )
