"""What `fit` needs as the log grows: memory at its peak, seconds of preparation, milliseconds of an update.

    python benchmarks/fit_memory.py [--largest 7] [--updates 20] [--repeats 5] [--json]

Logs of 10⁴ rows and more are made on the spot: 8 observations, 4 actions, 50 steps an episode, γ = .98, each in a
process of its own, whose peak of resident memory counts Python, the libraries and the log itself. Every process also
prepares the log of 10⁴ rows and runs updates of both in turn, so that other load on the machine affects both equally;
of the repeats the fastest counts. The update is that of `OPPOSD()`, with one seed; the limit of 50 steps matters, so
that w has a clock.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from statewise.algorithms.opposd import OPPOSD
from statewise.data.dataset import Dataset

STEPS, FEATURES, ACTIONS = 50, 8, 4
SMALLEST = 10_000
GOALS = {"peak, GB": 4.0, "update, times that of 10^4": 1.2, "preparation, s": 60.0}


def log_of(rows: int, seed: int = 0) -> Dataset:
    """A walk of eight numbers that actions push along; in float32, as a Parquet file of sensors would have them."""
    rng, episodes = np.random.default_rng(seed), rows // STEPS
    states = np.empty((episodes, STEPS + 1, FEATURES), np.float32)
    actions = rng.integers(0, ACTIONS, (episodes, STEPS), dtype=np.int32)
    states[:, 0] = rng.standard_normal((episodes, FEATURES), np.float32)
    for step in range(STEPS):
        states[:, step + 1] = 0.9 * states[:, step] + 0.4 * rng.standard_normal((episodes, FEATURES), np.float32)
        states[:, step + 1, 0] += 0.2 * (actions[:, step] - 1.5)
    rewards = states[:, 1:, 0].reshape(-1)
    return Dataset(
        observations=states[:, :-1].reshape(-1, FEATURES),
        actions=actions.reshape(-1),
        rewards=rewards,
        propensities=np.full(episodes * STEPS, 1 / ACTIONS, np.float32),
        starts=np.arange(0, episodes * STEPS + 1, STEPS),
        terminated=np.zeros(episodes, bool),
        final_observations=states[:, -1].copy(),
        action_count=ACTIONS,
        observation_names=tuple(f"x{i}" for i in range(FEATURES)),
        episode_ids=np.arange(episodes),
    )


def peak() -> float:
    """Gigabytes of resident memory at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def measured(rows: int, updates: int, repeats: int) -> dict[str, float]:
    """One size, in this process."""
    import jax

    from statewise.learning.fit import fit, keys_of, prepare
    from statewise.learning.program import program

    config = OPPOSD(discount=0.98)

    def begun(dataset: Dataset) -> tuple[Callable[[], Any], float, float]:
        start, busy = time.perf_counter(), time.process_time()
        data = jax.block_until_ready(prepare(config, dataset)[0])
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        running = program(config, data, keys_of([0]))
        state = running.begin()
        return (lambda: jax.block_until_ready(running.advance(state, 0, updates))), seconds, busy

    dataset = log_of(rows)
    result = {"rows": float(rows), "log, GB": peak()}
    # the whole of `fit` first, so that the peak is its own
    fit(dataset, config, updates=2)
    result["peak, GB"] = peak()
    ours, result["preparation, s"], result["preparation, processor s"] = begun(dataset)
    small = begun(log_of(SMALLEST))[0]
    walls: dict[str, list[float]] = {"ours": [], "small": []}
    busy: dict[str, list[float]] = {"ours": [], "small": []}
    for run in (ours, small):
        run()
    for _ in range(repeats):
        for name, run in (("ours", ours), ("small", small)):
            wall, processor = time.perf_counter(), time.process_time()
            run()
            walls[name].append((time.perf_counter() - wall) * 1e3 / updates)
            busy[name].append((time.process_time() - processor) * 1e3 / updates)
    result["update, ms"] = min(walls["ours"])
    result["update, times that of 10^4"] = min(walls["ours"]) / min(walls["small"])
    result["the same in processor time"] = min(busy["ours"]) / min(busy["small"])
    return result


def show(results: list[dict[str, float]]) -> None:
    columns = ("log, GB", "peak, GB", "preparation, s", "preparation, processor s", "update, ms")
    columns = (*columns, "update, times that of 10^4", "the same in processor time")
    print("| rows | " + " | ".join(columns) + " |")
    print("|--:|" + "--:|" * len(columns))
    for result in results:
        print(f"| {result['rows']:,.0f} | " + " | ".join(f"{result[column]:.3g}" for column in columns) + " |")
    print("goals at 10^7:", "; ".join(f"{name} ≤ {goal:g}" for name, goal in GOALS.items()))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--largest", type=int, default=7, choices=range(4, 9), help="the largest log has 10^this rows")
    parser.add_argument("--updates", type=int, default=20, help="in one call")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON instead of the table")
    parser.add_argument("--rows", type=int, help="only this size, in this process")
    options = parser.parse_args(arguments)
    if options.rows is not None:
        print(json.dumps(measured(options.rows, options.updates, options.repeats)))
        return
    results = []
    for power in range(4, options.largest + 1):
        command = [sys.executable, __file__, "--rows", str(10**power), "--updates", str(options.updates)]
        made = subprocess.run([*command, "--repeats", str(options.repeats)], stdout=subprocess.PIPE, check=True)
        results.append(json.loads(made.stdout.splitlines()[-1]))
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        show(results)


if __name__ == "__main__":
    main()
