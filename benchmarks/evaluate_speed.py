"""How long evaluation takes: one decision on ordinary logs, importance sampling on a million rows, many policies, many
rows.

python benchmarks/evaluate_speed.py [--only decisions|many|large] [--repeats 3] [--rows 1000000]

Peak memory is the whole process's, with Python, its libraries and the log: run `--only large` by itself.

To compare with another version of the code, run `--only decisions` with PYTHONPATH set to that version's src, and with
OPENBLAS_NUM_THREADS=1: on few cores, threads make times jump.
"""

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from statewise.data.dataset import Dataset
from statewise.domains import DOMAINS
from statewise.domains.behaviours import shipped
from statewise.domains.cartpole import leaning
from statewise.domains.simulate import Act
from statewise.ope.evaluate import evaluate, evaluate_all, prepare
from statewise.ope.gate import gate
from statewise.ope.select import choose

Policy = Callable[[np.ndarray], np.ndarray]
IMPORTANCE = ("importance", "per-decision", "weighted-importance", "weighted-per-decision")


def log_of(rows: int, length: int, features: int = 6, actions: int = 4) -> Dataset:
    rng = np.random.default_rng(0)
    rows = rows // length * length
    observations = rng.normal(size=(rows, features))
    distributions = rng.dirichlet(np.full(actions, 5.0), size=rows)
    taken = (distributions.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    return _dataset(observations, distributions, taken.astype(np.int32), rng.normal(size=rows), length)


def large_log(rows: int, length: int = 50, features: int = 8, actions: int = 4, part: int = 100_000) -> Dataset:
    """The same with observations in single precision, made in parts, so that making it takes no more than it does."""
    rng, rows = np.random.default_rng(0), rows // length * length
    observations, distributions = np.empty((rows, features), np.float32), np.empty((rows, actions))
    taken, rewards = np.empty(rows, np.int32), np.empty(rows)
    for first in range(0, rows, part):
        here = slice(first, min(first + part, rows))
        count = here.stop - first
        observations[here] = rng.normal(size=(count, features))
        distributions[here] = rng.dirichlet(np.full(actions, 5.0), size=count)
        taken[here] = (distributions[here].cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1)
        rewards[here] = rng.normal(size=count)
    return _dataset(observations, distributions, taken, rewards, length)


def _dataset(
    observations: np.ndarray, distributions: np.ndarray, taken: np.ndarray, rewards: np.ndarray, length: int
) -> Dataset:
    """Episodes of equal length, which all end by themselves."""
    rows, features = observations.shape
    episodes = rows // length
    return Dataset(
        observations=observations,
        actions=taken,
        rewards=rewards,
        propensities=distributions[np.arange(rows), taken],
        distributions=distributions,
        starts=np.arange(0, rows + 1, length),
        terminated=np.ones(episodes, dtype=bool),
        final_observations=np.full((episodes, features), np.nan),
        action_count=distributions.shape[1],
        observation_names=tuple(f"x{j}" for j in range(features)),
        episode_ids=np.arange(episodes),
    )


def softmax_policy(seed: int, scale: float = 0.2, features: int = 6) -> Policy:
    weights = (scale * np.random.default_rng(seed).normal(size=(features, 4))).astype(np.float32)

    def probabilities(observations):
        logits = np.exp(observations @ weights)
        return logits / logits.sum(axis=1, keepdims=True)

    return probabilities


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    work()
    return clock() - started


def decisions() -> Iterator[tuple[str, Dataset, Policy]]:
    """Logs of ordinary kinds, and a policy to decide on for each."""
    cartpole, hiv = DOMAINS["cartpole"], shipped("hiv")
    yield "CartPole, random actions, far from its limit", cartpole.collect(500), as_function(leaning(0.2))
    yield "CartPole near its limit", cartpole.collect(200, act=leaning(0.6)), as_function(leaning(0.67))
    # half way between the behaviour, which is random three times in ten, and the policy that it was made from
    half_way = lambda observations: 0.85 * hiv.probabilities(observations) + 0.15 / 4  # noqa: E731
    yield "HIV", DOMAINS["hiv"].collect(100), half_way
    yield "one decision an episode", log_of(20_000, 1), softmax_policy(0)


def as_function(act: Act) -> Policy:
    """A simulator's policy as a function of many observations."""
    return lambda observations: np.asarray(jax.vmap(act)(jnp.asarray(observations, jnp.float32)), np.float64)


def time_decisions(repeats: int) -> None:
    for name, log, policy in decisions():
        gate(policy, replace(log))  # compiles; a copy of the log remembers nothing
        # processor time, which other processes hardly change
        decide = lambda log=log, policy=policy: gate(policy, replace(log))  # noqa: E731
        took = [seconds(decide, time.process_time) for _ in range(repeats)]
        rows = f"{log.episodes:,} episodes, {len(log):,} rows"
        print(f"{name}, {rows}: {np.median(took):.2f} s ({min(took):.2f} to {max(took):.2f})", flush=True)


def time_many(rows: int, checkpoint_rows: int, checkpoints: int) -> None:
    for length in (100, 1):
        data = log_of(rows, length)
        took = seconds(lambda data=data: evaluate_all(softmax_policy(0), data, IMPORTANCE, discount=0.98))
        print(
            f"{len(IMPORTANCE)} importance-sampling estimators, 1,000 draws, {len(data):,} rows in episodes of {length}"
            f": {took:.2f} s (goal: under 5)"
        )
    data = log_of(checkpoint_rows, 100)
    prepared = prepare(data, discount=0.98)

    def score() -> None:
        for seed in range(checkpoints):
            evaluate_all(softmax_policy(seed), prepared, ("state-ratio",))

    took = seconds(score)
    print(f"{checkpoints} policies with the state ratio on {len(data):,} rows: {took:.1f} s (goal: under 60)")
    policies = {(0, seed): softmax_policy(seed) for seed in range(checkpoints)}
    choosing = lambda: choose(policies, data, discount=0.98)  # noqa: E731
    wall, took = both(choosing)
    print(
        f"the best of {checkpoints} policies on {len(data):,} rows, doubly robust: {wall:.1f} s, {took:.1f} s of "
        "processor time (goal: under 60)"
    )


def time_large(rows: int) -> None:
    data, policy = large_log(rows), softmax_policy(0, features=8)
    evaluate(policy, large_log(5_000))
    wall, took = both(lambda: evaluate(policy, data))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(
        f"doubly robust state ratio on {len(data):,} rows: {wall:.1f} s, {took:.1f} s of processor time, {peak:.2f} GB "
        "(goals: 20 s and 2 GB for a million rows, 150 s and 4 GB for ten)"
    )


def both(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock on the wall, and of processor time."""
    wall = time.perf_counter()
    took = seconds(work, time.process_time)
    return time.perf_counter() - wall, took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("decisions", "many", "large"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--checkpoint-rows", type=int, default=200_000)
    parser.add_argument("--checkpoints", type=int, default=100)
    options = parser.parse_args()
    if options.only in (None, "decisions"):
        time_decisions(options.repeats)
    if options.only in (None, "many"):
        time_many(options.rows, options.checkpoint_rows, options.checkpoints)
    if options.only in (None, "large"):
        time_large(options.rows)


if __name__ == "__main__":
    main()
