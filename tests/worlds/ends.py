"""Records that stop before their episodes do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from statewise.data.horizon import Horizon
from worlds.sequences import random_problem, towards
from worlds.tabular import Lookup, Tabular, normal, tabular_world
from worlds.world import Played, World


def recovery() -> Tabular:
    """A ladder of six; action 1 climbs faster. At the top the episode ends and pays 10; each step costs 1."""
    rungs, steps = 6, 40  # nearly all have arrived long before
    transitions, rewards = np.zeros((rungs, 2, rungs)), np.full((rungs, 2), -1.0)
    for s in range(rungs):
        for a, up in enumerate((0.6, 0.9)):
            if s + 1 < rungs:
                transitions[s, a, s + 1] += up
            else:
                rewards[s, a] += 10 * up
            transitions[s, a, s] += 1 - up
    return Tabular(transitions, rewards, np.eye(rungs)[0], steps, np.arange(rungs)[:, None] / rungs, noise=normal(0.2))


def worlds() -> Iterator[World]:
    problem, even = recovery(), np.full((6, 2), 0.5)

    def lost(played: Played, rng: np.random.Generator) -> Played:
        """6 % of those that go on are lost after each step."""
        return played.cut(rng.geometric(0.06, size=len(played.lengths)))

    for suffix, chance in (("", 0.85), ("-worse", 0.45)):
        yield tabular_world(
            f"censored{suffix}",
            "Of one episode in three the record stops before the end, at which most is paid.",
            problem,
            even,
            np.tile([1 - chance, chance], (6, 1)),
            episodes=500,
            edit=lost,
        )
    yield from continuing()


def continuing() -> Iterator[World]:
    problem = random_problem(6, 2, 100, seed=11)
    behaviour = np.random.default_rng(12).dirichlet([6.0, 6.0], size=6)

    def stopped(played: Played, rng: np.random.Generator) -> Played:
        """Half of the records are whole, the others stop anywhere."""
        whole = rng.random(len(played.lengths)) < 0.5
        return played.cut(np.where(whole, 100, rng.integers(20, 100, size=len(whole))))

    for suffix, share, scale in (("", 0.3, 1.0), ("-worse", -0.1, -1.0)):
        scaled = problem.scaled(scale)
        yield tabular_world(
            f"continuing{suffix}",
            "Nothing ends; records stop after 20 to 100 steps, and γ is .98.",
            scaled,
            behaviour,
            towards(scaled, behaviour, share, 0.98),
            episodes=200,
            discount=0.98,
            edit=stopped,
        )
    # a horizon that the log's owner gives: 40 steps count, and the log has more
    short = Tabular(**{**vars(problem), "horizon": 40})
    target = towards(problem, behaviour, 0.4, 0.98)

    def log(seed: int, episodes: int):
        rng = np.random.default_rng(seed)
        return stopped(problem.play(behaviour, episodes, rng), rng).log(ends=Horizon("continuing", 40))

    yield World(
        name="continuing-to-40",
        trap="The same, and the log's owner says that the first 40 steps count.",
        make_log=log,
        policy=Lookup(problem.seen, target),
        truth=short.value(target, 0.98),
        today=short.value(behaviour, 0.98),
        episodes=200,
        play=lambda new, count, rng: short.play(target if new else behaviour, count, rng),
        discount=0.98,
    )
