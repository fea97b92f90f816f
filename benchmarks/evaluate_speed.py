"""How long evaluation takes: importance sampling on a million rows, and a hundred policies with the state ratio.

python benchmarks/evaluate_speed.py [--rows 1000000] [--checkpoint-rows 200000] [--checkpoints 100]
"""

import argparse
import time

import numpy as np

from statewise.data.dataset import Dataset
from statewise.ope.evaluate import evaluate_all, prepare

IMPORTANCE = ("importance", "per-decision", "weighted-importance", "weighted-per-decision")


def log_of(rows: int, length: int, features: int = 6, actions: int = 4) -> Dataset:
    rng = np.random.default_rng(0)
    episodes = rows // length
    rows = episodes * length
    observations = rng.normal(size=(rows, features))
    distributions = rng.dirichlet(np.full(actions, 5.0), size=rows)
    taken = (distributions.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    return Dataset(
        observations=observations,
        actions=taken.astype(np.int32),
        rewards=rng.normal(size=rows),
        propensities=distributions[np.arange(rows), taken],
        distributions=distributions,
        starts=np.arange(0, rows + 1, length),
        terminated=np.ones(episodes, dtype=bool),
        final_observations=np.full((episodes, features), np.nan),
        action_count=actions,
        observation_names=tuple(f"x{j}" for j in range(features)),
        episode_ids=np.arange(episodes),
    )


def softmax_policy(seed: int, scale: float = 0.2):
    weights = scale * np.random.default_rng(seed).normal(size=(6, 4))

    def probabilities(observations):
        logits = np.exp(observations @ weights)
        return logits / logits.sum(axis=1, keepdims=True)

    return probabilities


def seconds(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--checkpoint-rows", type=int, default=200_000)
    parser.add_argument("--checkpoints", type=int, default=100)
    options = parser.parse_args()
    for length in (100, 1):
        data = log_of(options.rows, length)
        took = seconds(lambda data=data: evaluate_all(softmax_policy(0), data, IMPORTANCE, discount=0.98))
        print(
            f"{len(IMPORTANCE)} importance-sampling estimators, 1,000 draws, {len(data):,} rows in episodes of {length}"
            f": {took:.2f} s (goal: under 5)"
        )
    data = log_of(options.checkpoint_rows, 100)
    prepared = prepare(data, discount=0.98)

    def score() -> None:
        for seed in range(options.checkpoints):
            evaluate_all(softmax_policy(seed), prepared, ("state-ratio",))

    took = seconds(score)
    print(f"{options.checkpoints} policies with the state ratio on {len(data):,} rows: {took:.1f} s (goal: under 60)")


if __name__ == "__main__":
    main()
