"""One actor update of OPPOSD in statewise and in eager PyTorch, at the sizes of the paper's CartPole table.

    pip install torch==2.13.0
    python benchmarks/update.py [--check] [--json] [--repeats 9] [--largest 7]

The ratio takes 50 steps of 2 x 200 rows, the critic 10 of 5,000, the actor one of 5,000; networks have one layer of 32.
Contestants alternate within each repeat, so that other load on the machine affects all equally; the table gives the
median of the repeats, the fastest, and the processor time of all threads, which suffers least from neighbours. Warm-up
and compilation are not counted, but reported. PyTorch runs with one thread and with one per core, and statewise is
compared with the faster of the two; PyTorch does not compute the metrics that statewise computes in every update. Eight
seeds are learned as `fit` learns them, side by side by one process for each core; PyTorch, one after another, and also
by as many processes of one thread each, which is reported beside it.

--check asserts that both compute the same (see check_update.py).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch_opposd
from torch import Tensor, nn

from statewise.algorithms import opposd
from statewise.algorithms.opposd import OPPOSD
from statewise.data.dataset import Dataset
from statewise.domains.behaviours import Uniform
from statewise.domains.cartpole import CARTPOLE
from statewise.domains.collect import collect
from statewise.learning.fit import keys_of, prepare
from statewise.learning.program import Program, program
from statewise.learning.side_by_side import processes_for, spread
from statewise.ops.networks import Network
from statewise.parts import ratio
from statewise.parts.actor import Actor
from statewise.parts.anchor import Anchor
from statewise.parts.critic import Critic
from statewise.parts.ratio import ClosedForm, RatioNetwork

EPISODES = 500
UPDATES = 20  # in one call of `advance`, whose overhead then does not matter; a run has hundreds
GOALS = {"one seed": 8.0, "eight seeds": 10.0, "closed form": 1.0, "drift": 0.2}

Run = Callable[[], Any]


class Spent(NamedTuple):
    """Milliseconds of one update."""

    median: float
    fastest: float
    processor: float


def config_with(estimator: ClosedForm | RatioNetwork) -> OPPOSD:
    """The table's sizes, written out so that changed defaults do not change the benchmark."""
    return OPPOSD(
        discount=1.0,
        ratio=estimator,
        critic=Critic(
            hidden=(32,), learning_rate=1e-3, discount=1.0, batch=5000, members=1, terminal_weight=0.0, target_rate=1.0
        ),
        actor=Actor(hidden=(32,), learning_rate=1e-3, decay=False, entropy=0.01, anchor=Anchor(weight=0.0)),
        least_share=0.0,
    )


NETWORK = config_with(RatioNetwork(hidden=(32,), learning_rate=1e-3, batch=200, steps=50))
CLOSED = config_with(ClosedForm())


# Measuring


def alternate(contestants: dict[str, tuple[Run, int]], repeats: int) -> dict[str, Spent]:
    """Runs all in turn, `repeats` times; each comes with its number of updates."""
    walls, processors = {name: [] for name in contestants}, {name: [] for name in contestants}
    for _ in range(repeats):
        for name, (run, updates) in contestants.items():
            wall, processor = time.perf_counter(), processor_seconds()
            run()
            walls[name].append((time.perf_counter() - wall) * 1e3 / updates)
            processors[name].append((processor_seconds() - processor) * 1e3 / updates)
    return {
        name: Spent(float(np.median(walls[name])), min(walls[name]), float(np.median(processors[name])))
        for name in contestants
    }


def processor_seconds() -> float:
    """Of all threads, and of the processes that this one has started and that still run."""
    spent = time.process_time()
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            spent += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent


def seconds_of(run: Run) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


# The contestants


def begun(config: OPPOSD, data: Any, seeds: int) -> Any:
    return program(config, data, keys_of(range(seeds))).begin()


def statewise_run(config: OPPOSD, data: Any, state: Any, seeds: int, updates: int = UPDATES) -> Run:
    return run_of(program(config, data, keys_of(range(seeds))), state, updates)


def run_of(running: Program, state: Any, updates: int = UPDATES) -> Run:
    return lambda: jax.block_until_ready(running.advance(state, 0, updates))


def torch_run(log: torch_opposd.Log, agents: list[torch_opposd.Agent], threads: int) -> Run:
    def run() -> None:
        torch.set_num_threads(threads)
        for agent in agents:
            torch_opposd.update(agent, log, torch_opposd.draw(log))

    return run


@contextmanager
def torch_processes(log: torch_opposd.Log, agents: list[torch_opposd.Agent], processes: int) -> Iterator[Run]:
    """The same by so many processes of one thread each, which have their agents and keep them."""
    pipes, context = [], get_context("spawn")
    for first in range(processes):
        here, there = context.Pipe()
        context.Process(target=torch_process, args=(there, log, agents[first::processes]), daemon=True).start()
        there.close()
        pipes.append(here)

    def run() -> None:
        for pipe in pipes:
            pipe.send(None)
        for pipe in pipes:
            pipe.recv()

    try:
        yield run
    finally:
        for pipe in pipes:
            pipe.close()


def torch_process(pipe: Any, log: torch_opposd.Log, agents: list[torch_opposd.Agent]) -> None:
    run = torch_run(log, agents, 1)
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        run()
        pipe.send(None)


def torch_log(data: opposd.Prepared) -> torch_opposd.Log:
    """The same rows that statewise draws from."""
    rows = data.log.rows.take(jnp.arange(data.log.rows.table.shape[0]))
    columns = ("state", "next_state", "reward", "propensity", "onward", "usable", "live")
    return torch_opposd.Log(
        **{name: tensor(getattr(rows, name)) for name in columns},
        action=tensor(rows.action).long(),
        last=tensor(rows.last) > 0,
        starts=tensor(data.log.starts).long(),
        bandwidth=float(data.ground.bandwidth),
        discount=float(data.log.discount),
        scale=float(data.log.scale),
        bounds=(float(data.log.value_bounds[0]), float(data.log.value_bounds[1])),
    )


def torch_agent(state: opposd.State, fused: bool = False) -> torch_opposd.Agent:
    """The same networks, and optimisers in the same state."""
    agent = torch_opposd.Agent(fused=fused)
    adopt(agent.ratio, agent.ratio_optimiser, state.ratio)
    adopt(agent.critic, agent.critic_optimiser, state.critic.learned)
    adopt(agent.actor, agent.actor_optimiser, state.actor)
    return agent


def adopt(module: nn.Sequential, optimiser: torch.optim.Optimizer, learned: Any) -> None:
    adam = learned.optimiser[0]
    parameters = list(module.parameters())
    for values, first, second, parameter in zip(
        torch_order(learned.network), torch_order(adam.mu), torch_order(adam.nu), parameters, strict=True
    ):
        with torch.no_grad():
            parameter.copy_(values)
        step = torch.tensor(float(adam.count))
        optimiser.state[parameter] = {"step": step, "exp_avg": first, "exp_avg_sq": second}


def torch_order(network: Network) -> list[Tensor]:
    """Weights as [outputs, inputs] and biases, layer by layer."""
    pairs = zip(network.weights, network.biases, strict=True)
    return [tensor(values) for weight, bias in pairs for values in (weight.T, bias)]


def tensor(values: jax.Array) -> Tensor:
    return torch.from_numpy(np.array(values))


def seed_of(state: Any, seed: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[seed], state)


# What is measured


def beside_torch(dataset: Dataset, repeats: int) -> dict[str, Any]:
    """One seed, and eight. Milliseconds per update and seed."""
    data = prepare(NETWORK, dataset)[0]
    log, cores = torch_log(data), os.cpu_count() or 1
    results: dict[str, Any] = {}
    for name, seeds in (("one seed", 1), ("eight seeds", 8)):
        alone, processes = program(NETWORK, data, keys_of(range(seeds))), processes_for(NETWORK, data, seeds, None)
        state = alone.begin()
        each = [seed_of(state, seed) for seed in range(seeds)]
        with ExitStack() as stack:
            ours = run_of(stack.enter_context(spread(alone, range(seeds), processes)), state)
            first_call = seconds_of(ours)
            contestants = {"statewise": (ours, UPDATES * seeds)}
            if processes > 1:
                contestants["statewise, one process"] = run_of(alone, state), UPDATES * seeds
            for threads in sorted({1, cores}):
                for fused in (False, True):
                    label = f"torch, {threads} thread{'s' * (threads > 1)}{', fused optimiser' * fused}"
                    contestants[label] = torch_run(log, [torch_agent(one, fused) for one in each], threads), seeds
            if processes > 1:
                agents = [torch_agent(one) for one in each]
                run = stack.enter_context(torch_processes(log, agents, processes))
                contestants[f"PyTorch, {processes} processes"] = run, seeds
            for run, _ in contestants.values():
                run()
            spent = alternate(contestants, repeats)
        usual = [one for label, one in spent.items() if label.startswith("torch") and "fused" not in label]
        fused = [one for label, one in spent.items() if "fused" in label]
        split = [one for label, one in spent.items() if label.startswith("PyTorch")]
        results[name] = {
            "spent": {label: one._asdict() for label, one in spent.items()},
            "first call, seconds": first_call,
            "times faster": compared(usual, spent["statewise"]),
            "times faster than with fused optimisers": compared(fused, spent["statewise"]),
        }
        if split:
            results[name]["times faster than as many processes of it"] = compared(split, spent["statewise"])
    return results


def compared(theirs: list[Spent], ours: Spent) -> dict[str, float]:
    """How many times faster we are than the best of them."""
    return {measure: min(getattr(one, measure) for one in theirs) / getattr(ours, measure) for measure in Spent._fields}


def closed_form(dataset: Dataset, repeats: int) -> dict[str, Any]:
    """The exact solution against the 50 steps that it replaces: this part alone, and whole updates."""
    contestants = {}
    for name, config in (("closed form", CLOSED), ("50 network steps", NETWORK)):
        data = prepare(config, dataset)[0]
        state = begun(config, data, 1)
        contestants[f"{name}, ratio alone"] = ratio_run(config, data, seed_of(state, 0)), UPDATES
        contestants[f"{name}, whole update"] = statewise_run(config, data, state, 1), UPDATES
    for run, _ in contestants.values():
        run()
    spent = alternate(contestants, repeats)
    alone, steps = spent["closed form, ratio alone"], spent["50 network steps, ratio alone"]
    return {
        "spent": {label: one._asdict() for label, one in spent.items()},
        "share of the steps' cost": {
            measure: getattr(alone, measure) / getattr(steps, measure) for measure in Spent._fields
        },
    }


def ratio_run(config: OPPOSD, data: opposd.Prepared, state: opposd.State) -> Run:
    @eqx.filter_jit
    def fits(data: opposd.Prepared, state: opposd.State) -> Any:
        def fit(carried: Any, number: jax.Array) -> tuple[Any, None]:
            w, policy = carried
            key = jax.random.fold_in(jax.random.key(0), number)
            w = ratio.fit(config.ratio, data.ground, w, policy, data.log, data.chain, key)
            # the policy changes, as in training; for a fixed one the compiler would solve only once
            return (w, jax.tree.map(lambda leaf: leaf * 1.0001, policy)), None

        return jax.lax.scan(fit, (state.ratio, state.actor.network), jnp.arange(UPDATES))[0]

    return lambda: jax.block_until_ready(fits(data, state))


def by_size(dataset: Dataset, repeats: int, largest: int) -> dict[str, Any]:
    """One seed's update with the ratio's network, on logs of 10⁴ rows and more."""
    state, contestants, preparing = None, {}, {}
    for power in range(4, largest + 1):
        rows = 10**power
        tiled = dataset.take(np.arange(round(rows / len(dataset) * dataset.episodes)) % dataset.episodes)
        started = time.perf_counter()
        data = jax.block_until_ready(prepare(NETWORK, tiled)[0])
        preparing[f"10^{power}"] = time.perf_counter() - started
        # the warm start is shared, since only the time matters
        state = begun(NETWORK, data, 1) if state is None else state
        run = statewise_run(NETWORK, data, state, 1)
        run()
        contestants[f"10^{power}"] = run, UPDATES
    spent = alternate(contestants, repeats)
    least = spent["10^4"]
    return {
        "spent": {size: one._asdict() for size, one in spent.items()},
        "preparing, seconds": preparing,
        "change since 10^4": {
            size: {measure: getattr(one, measure) / getattr(least, measure) - 1 for measure in Spent._fields}
            for size, one in spent.items()
        },
    }


# Printing


def show(results: dict[str, Any]) -> None:
    print(f"{'milliseconds per update and seed':44s} {'median':>8s} {'fastest':>8s} {'processor':>9s}")
    for name in ("one seed", "eight seeds"):
        result = results[name]
        print(f"{name} (first call, compiling: {result['first call, seconds']:.1f} s)")
        show_spent(result["spent"])
        show_ratios("times faster", result["times faster"], f"goal: at least {GOALS[name]:g}")
        for label in ("times faster than with fused optimisers", "times faster than as many processes of it"):
            if label in result:
                show_ratios(label, result[label])
    print("closed form")
    show_spent(results["closed form"]["spent"])
    show_ratios("share of the steps' cost", results["closed form"]["share of the steps' cost"], "goal: at most 1")
    print("rows in the log")
    show_spent(results["sizes"]["spent"])
    for size, change in results["sizes"]["change since 10^4"].items():
        if size != "10^4":
            show_ratios(f"change from 10^4 to {size}", change, f"goal: at most {GOALS['drift']:g}")


def show_spent(spent: dict[str, dict[str, float]]) -> None:
    for label, one in spent.items():
        print(f"  {label:42s} {one['median']:8.2f} {one['fastest']:8.2f} {one['processor']:9.2f}")


def show_ratios(label: str, ratios: dict[str, float], goal: str = "") -> None:
    print(f"  {label:42s} {ratios['median']:8.2f} {ratios['fastest']:8.2f} {ratios['processor']:9.2f}   {goal}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="assert that both compute the same, and stop")
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON instead of the table")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--largest", type=int, default=7, choices=range(4, 8), help="the largest log has 10^this rows")
    options = parser.parse_args(arguments)
    dataset = collect(CARTPOLE, Uniform(2), EPISODES, seed=0)
    if options.check:
        from check_update import check

        check(dataset)
        return
    results = {
        **beside_torch(dataset, options.repeats),
        "closed form": closed_form(dataset, options.repeats),
        "sizes": by_size(dataset, options.repeats, options.largest),
    }
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        show(results)


if __name__ == "__main__":
    main()
