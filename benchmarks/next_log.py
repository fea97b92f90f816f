"""Does *log this next* keep its word? The chance it gives, beside how often the step is certified in fact.

    python benchmarks/next_log.py [--problems 40] [--episodes 200] [--first 2100] [--again 5]

Each problem is a random MDP with a log of its behaviour, and a goal planned in a model counted from another log.
`certify` says which step may be deployed, and with what chance a further one will be certified from so and so many
episodes of it. Those episodes are then made, several times over, and half of them test that step against what was
deployed.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any

import numpy as np

import statewise as sw
from statewise.domains import DOMAINS
from statewise.domains.source import Exact, Family
from statewise.experiments.safe.basic_rl import BasicRL
from statewise.experiments.safe.finite_log import FiniteLog
from statewise.ope.evaluate import prepare
from statewise.ope.gate import compare
from statewise.ope.next_log import JUDGING
from statewise.ope.walk import OnRows
from statewise.policies.path import blended

EDGES = (0.0, 0.5, 0.7, 0.85, 1.0)  # of the classes of chances
TRIED = 0.02  # what the goal leaves to every action, so that there is a geometric way


def goal_of(source: Exact, episodes: int, seed: int) -> np.ndarray:
    log = FiniteLog.of(source, source.collect(episodes, seed), seed)
    planned = BasicRL(discount=source.discount)(log)
    return (1 - TRIED) * planned + TRIED / planned.shape[1]


def one(seed: int, episodes: int, again: int) -> dict[str, Any] | None:
    """What was said of a problem, and how often it came true; None where no further step was promised."""
    family = DOMAINS["random-mdp"]
    assert isinstance(family, Family)
    source = family.problem(seed)
    goal, today = goal_of(source, episodes, seed + 1_000_000), source.behaviour

    def policy(table: np.ndarray) -> Any:
        return lambda observations: table[np.asarray(observations).argmax(axis=1)]

    found = sw.certify(
        policy(goal), source.collect(episodes, seed), today=policy(today), discount=source.discount, seed=seed
    )
    if found.policy is None or found.next.episodes is None or found.next.chance == 0:
        return None
    deployed, further = (blended(today, goal, step, found.policy.way) for step in (found.step, found.next.step))
    passed = 0
    for draw in range(again):
        log = source.collect(round(JUDGING * found.next.episodes), seed + 2_000_000 + draw, act=deployed)
        rows = further[log.observations.argmax(axis=1)]
        decision, _ = compare(
            OnRows(rows), prepare(log, discount=source.discount), level=2 * found.level - 1, near=True
        )
        passed += decision.answer == "deploy"
    return {"seed": seed, "episodes": found.next.episodes, "chance": found.next.chance, "passed": passed / again}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--first", type=int, default=2100)
    parser.add_argument("--again", type=int, default=5)
    given = parser.parse_args()
    rows = []
    for seed in range(given.first, given.first + given.problems):
        row = one(seed, given.episodes, given.again)
        print(seed, row, flush=True)
        rows += [] if row is None else [row]
    print("| chance that was given | problems | certified in fact |\n|---|--:|--:|")
    for low, high in pairwise(EDGES):
        own = [row for row in rows if low < row["chance"] <= high]
        if own:
            said, came = (np.mean([row[name] for row in own]) for name in ("chance", "passed"))
            print(f"| {said:.0%} ({low:.0%} to {high:.0%}) | {len(own)} | {came:.0%} |")


if __name__ == "__main__":
    main()
