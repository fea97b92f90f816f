"""Trains a policy with d3rlpy on one log, and writes what it would do on another: for `statewise evaluate`.

d3rlpy pins an older Gymnasium than statewise needs, so it has an environment of its own, and nothing of statewise is
imported here. The two meet in a Parquet file:

    python -m venv d3rlpy-env
    d3rlpy-env/bin/pip install torch==2.13.0
    d3rlpy-env/bin/pip install d3rlpy polars
    statewise collect cartpole --episodes 500 --seed 0 --out train.parquet
    statewise collect cartpole --episodes 500 --seed 1 --out held-out.parquet
    d3rlpy-env/bin/python benchmarks/d3rlpy_policy.py train.parquet held-out.parquet --out judged.parquet
    statewise evaluate judged.parquet --target-columns

The log is a Parquet file with the usual names whose observations are numbers without gaps.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import polars as pl


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", help="log to learn from")
    parser.add_argument("held_out", help="log on which the policy is to be judged; its episodes must be others")
    parser.add_argument("--out", required=True, help="the second log, with columns target_0, target_1, …")
    parser.add_argument("--steps", type=int, default=2000, help="gradient steps")
    parser.add_argument("--temperature", type=float, default=1.0, help="of a softmax over the learned values")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    train, held_out = pl.read_parquet(asked.train), pl.read_parquet(asked.held_out)
    policy = learned(train, asked.steps, asked.seed)
    actions = 1 + int(max(one["action"].max() for one in (train, held_out)))
    chances = probabilities(policy, observations(held_out), actions, asked.temperature)
    held_out.with_columns(pl.Series(f"target_{a}", chances[:, a]) for a in range(actions)).write_parquet(asked.out)
    print(
        f"Wrote {asked.out}: what the policy would do in {held_out.height:,} rows, as target_0 to target_{actions - 1}"
    )


def learned(log: pl.DataFrame, steps: int, seed: int) -> Any:
    """A double DQN of the log's decisions."""
    import d3rlpy

    d3rlpy.seed(seed)
    decisions = log.filter(pl.col("action").is_not_null())  # without the rows that only hold a final state
    last = (decisions["episode"] != decisions["episode"].shift(-1)).fill_null(True)
    terminated = decisions["terminated"].cast(pl.Boolean).fill_null(False)
    data = d3rlpy.dataset.MDPDataset(
        observations=observations(decisions),
        actions=decisions["action"].cast(pl.Int64).to_numpy()[:, None],
        rewards=decisions["reward"].cast(pl.Float32).to_numpy()[:, None],
        terminals=(last & terminated).cast(pl.Float32).to_numpy(),
        timeouts=(last & ~terminated).cast(pl.Float32).to_numpy(),
        action_space=d3rlpy.ActionSpace.DISCRETE,
    )
    algorithm = d3rlpy.algos.DoubleDQNConfig(batch_size=256).create(device="cpu:0")
    quiet = d3rlpy.logging.NoopAdapterFactory()
    algorithm.fit(data, n_steps=steps, n_steps_per_epoch=steps, show_progress=False, logger_adapter=quiet)
    return algorithm


def observations(log: pl.DataFrame) -> np.ndarray:
    return log.select(pl.col("^obs_.*$").cast(pl.Float32)).to_numpy()


def probabilities(policy: Any, seen: np.ndarray, actions: int, temperature: float) -> np.ndarray:
    """A softmax over the learned values, which is what would have to be deployed."""
    values = np.stack([policy.predict_value(seen, np.full((len(seen), 1), a)) for a in range(actions)], axis=1)
    weights = np.exp((values - values.max(axis=1, keepdims=True)) / temperature)
    return weights / weights.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    main()
