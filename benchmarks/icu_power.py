"""What half of a log of ICU-Sepsis can say of small steps, beside their exact gains.

python benchmarks/icu_power.py [--episodes 5000] [--logs 8] [--updates 300]

Two goals: what CQL learns from the other half, and the best policy that there is. The steps are mixtures with today's.
"""

import argparse
from collections import defaultdict

import numpy as np

import statewise as sw
from statewise.domains import DOMAINS
from statewise.ope.evaluate import prepare
from statewise.ope.gate import compare
from statewise.ope.walk import Ends

STEPS = (0.02, 0.2, 0.4, 0.7, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--logs", type=int, default=8)
    parser.add_argument("--updates", type=int, default=300)
    options = parser.parse_args()
    world = DOMAINS["icu-sepsis"].problem(0)
    state_of = {row.tobytes(): state for state, row in enumerate(np.ascontiguousarray(world.seen))}

    def value(table: np.ndarray) -> float:
        return world.problem.value_within(table, world.discount, world.horizon)

    found = defaultdict(list)
    for seed in range(300, 300 + options.logs):
        learning, judging = DOMAINS["icu-sepsis"].collect(options.episodes, seed=seed).split(0.5, seed=0)
        learned = sw.fit(learning, sw.CQL(), updates=options.updates).checkpoints
        goals = {"CQL": world.table(list(learned.values())[-1]), "best": world.table(world.problem.optimal(1.0))}
        rows = [state_of[np.asarray(row, np.float32).tobytes()] for row in judging.observations]
        log = prepare(judging)
        for name, goal in goals.items():
            ends = Ends(world.behaviour[rows], goal[rows])
            for step in STEPS:
                truth = value((1 - step) * world.behaviour + step * goal) - value(world.behaviour)
                decision, _ = compare(ends.at(step), log, level=0.9, near=True)  # 95 % on one side
                error = float(np.std(decision.influence) / np.sqrt(judging.episodes))
                known = decision.verdict != "not identified"
                found[name, step].append((truth, error, (decision.difference - truth) / error, decision.low > 0, known))
    for (name, step), each in found.items():
        truth, error, apart, positive, known = np.array(each, float).T
        print(
            f"{name}, {step:4.0%}: gain {truth.mean():.4f}, error {error.mean():.4f}, standardised {apart.mean():+.2f} "
            f"(rms {np.sqrt(np.mean(apart**2)):.2f}), identified {known.sum():.0f}, "
            f"certified {np.sum(positive * known):.0f} of {len(each)}"
        )


if __name__ == "__main__":
    main()
