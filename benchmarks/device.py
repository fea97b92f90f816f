"""One update of ten seeds side by side, on whatever device JAX has: times, operations and bytes as a Markdown table.

    PYTHONPATH=src python benchmarks/device.py [--seeds 10] [--repeats 5]

Needs only JAX, equinox, optax, jaxtyping and NumPy. The logs have the sizes of 500 episodes of CartPole under random
actions and of 500 episodes of 200 steps of HIV; their numbers are random, since no time depends on them.
Operations and bytes are counted in the program as written, every step of every loop: a matrix product of [n, k] and
[k, m] is 2nkm operations, anything else one per number that it produces; the bytes are those that matrix products,
gathers and loop carries read and write, as if nothing stayed in a cache. XLA's own figures, which count the body of a
loop once, are printed beside them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from math import prod
from typing import Any

import equinox as eqx
import jax
import numpy as np

from statewise.algorithms import opposd
from statewise.algorithms.opposd import OPPOSD
from statewise.data.dataset import Dataset
from statewise.learning.fit import keys_of, prepare
from statewise.learning.presets import PAPER_CARTPOLE, PAPER_HIV
from statewise.learning.program import program

UPDATES = 50


def log_like(lengths: np.ndarray, features: int, actions: int, terminated: bool) -> Dataset:
    """A log of those sizes with random numbers."""
    rng, steps, episodes = np.random.default_rng(0), int(lengths.sum()), len(lengths)
    chances = np.full((steps, actions), 1 / actions)
    return Dataset(
        observations=rng.normal(size=(steps, features)).astype(np.float32),
        actions=rng.integers(actions, size=steps).astype(np.int32),
        rewards=rng.random(steps),
        propensities=chances[:, 0],
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        terminated=np.full(episodes, terminated),
        final_observations=rng.normal(size=(episodes, features)).astype(np.float32),
        action_count=actions,
        observation_names=tuple(f"x{j}" for j in range(features)),
        episode_ids=np.arange(episodes),
        distributions=chances,
    )


def problems() -> dict[str, tuple[OPPOSD, Dataset]]:
    lengths = np.random.default_rng(1).geometric(1 / 15, size=500) + 7
    cartpole = log_like(np.minimum(lengths, 200), features=4, actions=2, terminated=True)
    hiv = log_like(np.full(500, 200), features=6, actions=4, terminated=False)
    return {
        "CartPole, paper-cartpole (network)": (PAPER_CARTPOLE, cartpole),
        "CartPole, default (closed form)": (OPPOSD(discount=1.0), cartpole),
        "HIV, paper-hiv (network)": (PAPER_HIV, hiv),
        "HIV, default (closed form)": (OPPOSD(discount=0.98), hiv),
    }


def shortened(config: OPPOSD) -> OPPOSD:
    """With a short warm start, which is not timed."""
    return replace(
        config,
        critic=replace(config.critic, warm_steps=10),
        actor=replace(config.actor, clone_steps=10),
        ratio=replace(config.ratio, warm_steps=10) if hasattr(config.ratio, "warm_steps") else config.ratio,
    )


def counted(jaxpr: Any) -> np.ndarray:
    """Operations and bytes of a program as written."""
    total = np.zeros(2)
    for equation in jaxpr.eqns:
        made = sum(prod(out.aval.shape) for out in equation.outvars)
        moved = sum(size_of(one.aval) for one in (*equation.invars, *equation.outvars))
        inner = [part for value in equation.params.values() for part in programs(value)]
        if inner:
            times = equation.params.get("length", 1)
            total += times * sum(counted(part) for part in inner)
            total[1] += moved if equation.primitive.name == "scan" else 0
        elif equation.primitive.name == "dot_general":
            contracted, _ = equation.params["dimension_numbers"][0]
            shape = equation.invars[0].aval.shape
            total += (2 * made * prod(shape[axis] for axis in contracted), moved)
        elif equation.primitive.name == "gather":
            total += (0, 2 * sum(size_of(out.aval) for out in equation.outvars))
        else:
            total[0] += made
    return total


def programs(value: Any) -> list[Any]:
    """The programs among an instruction's parameters."""
    if isinstance(value, tuple | list):
        return [part for one in value for part in programs(one)]
    if hasattr(value, "jaxpr"):
        return [value.jaxpr]
    return [value] if hasattr(value, "eqns") else []


def size_of(shaped: Any) -> int:
    kind = getattr(shaped, "dtype", None)
    return prod(getattr(shaped, "shape", ())) * (
        8 if jax.dtypes.issubdtype(kind, jax.dtypes.prng_key) else kind.itemsize
    )


def measured(config: OPPOSD, dataset: Dataset, seeds: int, repeats: int) -> tuple[float, np.ndarray, dict[str, float]]:
    """Milliseconds for one update of all seeds, its counts, and XLA's."""
    short = shortened(config)
    data = prepare(short, dataset)[0]
    keys = keys_of(range(seeds))
    running = program(short, data, keys)
    state = running.begin()
    best = float("inf")
    for _ in range(repeats + 1):  # the first one compiles
        started = time.perf_counter()
        jax.block_until_ready(running.advance(state, 0, UPDATES))
        best = min(best, (time.perf_counter() - started) * 1e3 / UPDATES)
    one = jax.tree.map(lambda leaf: leaf[0], state)
    arrays, static = eqx.partition((data, one), eqx.is_array)

    def update(arrays: Any, key: jax.Array) -> Any:
        data, state = eqx.combine(arrays, static)
        return eqx.filter(opposd.update(short, data, state, key), eqx.is_array)

    traced = jax.jit(update).trace(arrays, keys[0])
    costs = traced.lower().compile().cost_analysis() or {}
    xla = costs[0] if isinstance(costs, list) else costs
    return (
        best,
        seeds * counted(traced.jaxpr.jaxpr),
        {name: xla.get(name, 0.0) for name in ("flops", "bytes accessed")},
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}, {options.seeds} seeds\n")
    print("| | ms per update, all seeds | Gop | GB | Gop/s | GB/s | XLA, one seed, loop bodies once: Mop | MB |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, (config, dataset) in problems().items():
        spent, (operations, size), counts = measured(config, dataset, options.seeds, options.repeats)
        rates = f"{operations / spent / 1e6:.0f} | {size / spent / 1e6:.0f}"
        xla = f"{counts['flops'] / 1e6:.1f} | {counts['bytes accessed'] / 1e6:.1f}"
        print(f"| {name} | {spent:.2f} | {operations / 1e9:.2f} | {size / 1e9:.2f} | {rates} | {xla} |", flush=True)


if __name__ == "__main__":
    main()
