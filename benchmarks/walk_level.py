"""How often is anything certified where nothing can be gained? At a level of 95 %, on one log in twenty at most.

    python benchmarks/walk_level.py [--logs 1000] [--episodes 60] [--first 0] [--whole]

In each of these problems, four states with two actions, no action matters, so that every policy is worth what today's
is. `walk` tests three steps towards one. With `--whole` it is all that `certify` does: half of the log learns a policy,
which competes with doing as today more consistently and with constant actions; the same half chooses
between them, and between the ways and the orders of steps; the other half tests.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

import statewise as sw
from statewise.data.dataset import Dataset
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.learning.today import CONSISTENT, SHARPER
from statewise.ope.evaluate import prepare
from statewise.ope.walk import Ends, walk

STATES, ACTIONS, HORIZON = 4, 2, 8
ORDER = (0.1, 0.4, 0.8)
LEVEL = 0.95
SHARE = 0.95  # of its decisions in which the planned policy does what looks best: there are geometric ways to it


def idle(seed: int) -> tuple[TabularMDP, np.ndarray]:
    """A random problem whose second action does what the first does, and what is done in it today."""
    world = TabularMDP.random(STATES, ACTIONS, seed=seed, termination=0.2)
    rewards, transitions = (np.repeat(first[:, :1], ACTIONS, axis=1) for first in (world.rewards, world.transitions))
    same = replace(world, rewards=rewards, transitions=transitions)
    return same, np.random.default_rng(seed).dirichlet([4.0, 4.0], size=STATES)


def looks_best(log: Dataset) -> np.ndarray:
    """The action after which episodes went on to earn more, state by state."""
    state, to_come = log.observations.argmax(axis=1), prepare(log, discount=1.0).to_come(log.rewards)
    place = state * ACTIONS + log.actions
    count = np.bincount(place, minlength=STATES * ACTIONS)
    mean = np.bincount(place, to_come, STATES * ACTIONS) / np.maximum(count, 1)
    best = np.where(count > 0, mean, -np.inf).reshape(STATES, ACTIONS).argmax(axis=1)
    return SHARE * np.eye(ACTIONS)[best] + (1 - SHARE) / ACTIONS


def by_walk(seed: int, episodes: int) -> bool:
    world, today = idle(seed)
    log = collect_tabular(world, today, episodes, HORIZON, seed)
    states = log.observations.argmax(axis=1)
    goal = np.eye(ACTIONS)[np.random.default_rng([seed, 1]).integers(ACTIONS, size=STATES)]
    steps = walk(Ends(today[states], goal[states]), prepare(log, discount=1.0), ORDER, level=LEVEL)
    return steps[0].passed


def by_certify(seed: int, episodes: int) -> bool:
    world, today = idle(seed)
    learning, judging = collect_tabular(world, today, episodes, HORIZON, seed).split(0.5, seed=seed)
    sharper = today**SHARPER / (today**SHARPER).sum(axis=1, keepdims=True)
    rules = {f"always {action}": np.tile(np.eye(ACTIONS)[action], (STATES, 1)) for action in range(ACTIONS)}

    def policy(table: np.ndarray) -> Any:
        return lambda observations: np.asarray(observations) @ table

    tables = {"planned": looks_best(learning), CONSISTENT: sharper, **rules}
    found = sw.certify(
        {name: policy(table) for name, table in tables.items()},
        judging,
        learning=learning,
        today=policy(today),
        simple=rules,
        unlearned=(CONSISTENT,),
        discount=1.0,
        level=LEVEL,
        seed=seed,
    )
    return found.policy is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    one = by_certify if given.whole else by_walk
    passed = 0
    for number, seed in enumerate(range(given.first, given.first + given.logs), start=1):
        passed += one(seed, given.episodes)
        if number % 100 == 0 or number == given.logs:
            error = np.sqrt(passed * (number - passed) / number) / number
            print(f"{number:,} logs: {passed} certified, {passed / number:.1%} ± {error:.1%}", flush=True)


if __name__ == "__main__":
    main()
