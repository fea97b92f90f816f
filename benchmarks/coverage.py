"""How often 95 % intervals contain the truth, by estimator and verdict, on many simulated logs of three domains.

python benchmarks/coverage.py [--logs 200] [--jobs N] [--json FILE] [--out docs/coverage.md]

Each domain has a target near its behaviour: ten random problems with six states (500 episodes, cut off after 50 steps,
γ = 0.9), the paper's hard example (500 episodes), and CartPole (300 episodes). The truth is exact for the finite
problems, and the mean of 200,000 episodes for CartPole. For each verdict, a row gives the number of logs on which an
estimator had it, and the share of those whose interval contained the truth. The error is the root mean square in units
of the standard error: 1 if standard errors are right.

The bounds of verdicts and all constants were set on other logs. What needed fixing was seen on these, in earlier
versions of the table.
"""

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from statewise.domains.cartpole import CARTPOLE
from statewise.domains.collect import collect, collect_tabular
from statewise.domains.hard_example import BEHAVIOUR, HARD_EXAMPLE, policy
from statewise.domains.simulate import episode_keys, returns, rollout
from statewise.domains.tabular import TabularMDP
from statewise.ope.estimators import ESTIMATORS
from statewise.ope.evaluate import evaluate_all

SLOW = ("state-ratio-network", "fitted-q", "fitted-q-trees")  # a table of these would take hours
NAMES = tuple(name for name in ESTIMATORS if name not in SLOW)
VERDICTS = ("supported", "weak", "not identified")
ONE_CORE = {  # of each process
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
Record = dict[str, Any]


class Balancing(eqx.Module):
    """Pushes to the side where the pole leans, the more reliably the larger the gain."""

    gain: jax.Array

    def __call__(self, observation):
        lean = self.gain * (observation[2] + 0.5 * observation[3])
        return jax.nn.softmax(jnp.stack([-lean, lean]) / 2)

    def probabilities(self, observations, legal=None):
        lean = float(self.gain) * (observations[:, 2].astype(np.float64) + 0.5 * observations[:, 3])
        chance = 1 / (1 + np.exp(-lean))
        return np.stack([1 - chance, chance], axis=1)


def logged_value(mdp: TabularMDP, table: np.ndarray, discount: float, horizon: int) -> float:
    """E[Σ_{t<H} γᵗ rₜ] over the logged horizon, one step of the chain at a time."""
    states, total = mdp.initial, 0.0
    for t in range(horizon):
        total += discount**t * float(states @ (table * mdp.rewards).sum(axis=1))
        states = states @ mdp.chain(table)
    return total


def tabular(logs: int):
    """Ten random problems of six states, 500 truncated episodes of 50 steps, γ = .9."""
    rng = np.random.default_rng(0)
    for log in range(logs):
        if log % max(1, logs // 10) == 0:
            mdp = TabularMDP.random(6, 2, seed=log)
            behaviour, target = rng.dirichlet([8.0, 8.0], size=6), rng.dirichlet([6.0, 6.0], size=6)
            truths = [logged_value(mdp, one, 0.9, 50) for one in (target, behaviour)]
        data = collect_tabular(mdp, behaviour, episodes=500, horizon=50, seed=log)
        yield (lambda o, target=target: target[o.argmax(axis=1)]), data, 0.9, *truths


def hard_example(logs: int):
    """The paper's five states, 500 episodes of the uniform behaviour, α = .7."""
    target = policy(0.7)
    truths = HARD_EXAMPLE.value(target, 1.0), HARD_EXAMPLE.value(BEHAVIOUR, 1.0)
    for log in range(logs):
        data = collect_tabular(HARD_EXAMPLE, BEHAVIOUR, episodes=500, horizon=3, seed=log)
        yield (lambda o: target[o.argmax(axis=1)]), data, 1.0, *truths


def cartpole(logs: int):
    """300 episodes of a behaviour that leans towards balancing, and a target that leans half as much again."""
    behaviour, target = Balancing(jnp.asarray(1.0)), Balancing(jnp.asarray(1.5))
    keys = episode_keys(10**6, 200_000)
    truths = [float(returns(rollout(CARTPOLE, one, keys), 1.0).mean()) for one in (target, behaviour)]
    data = collect(CARTPOLE, behaviour, episodes=300 * logs, seed=1)
    for log in range(logs):
        yield target, data.take(np.arange(300 * log, 300 * (log + 1))), 1.0, *truths


DOMAINS = {"tabular": tabular, "hard example": hard_example, "CartPole": cartpole}


def some(domain: str, logs: int, part: int, parts: int) -> list[Record]:
    """What every estimator says of every `parts`-th log of a domain."""
    records = []
    for log, (target, data, discount, truth, earned) in enumerate(DOMAINS[domain](logs)):
        if log % parts != part:
            continue
        for name, one in evaluate_all(target, data, NAMES, discount=discount).items():
            known = earned if name == "behaviour" else truth
            numbers = {
                "truth": known,
                "value": one.value,
                "error": one.standard_error,
                "low": one.low,
                "high": one.high,
            }
            records.append({"domain": domain, "log": log, "estimator": name, "verdict": one.verdict} | numbers)
        print(f"{domain} {log + 1} of {logs}", flush=True)
    return records


def run(domains: list[str], logs: int, jobs: int) -> list[Record]:
    os.environ.update(ONE_CORE)  # processes that are spawned inherit it
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        parts = [pool.submit(some, domain, logs, part, jobs) for domain in domains for part in range(jobs)]
        return [record for part in parts for record in part.result()]


def table(records: list[Record]) -> list[str]:
    lines = [
        "| domain | estimator | truth | mean | error | " + " | ".join(VERDICTS) + " |",
        "|---|---|---:|---:|---:|" + "---:|" * len(VERDICTS),
    ]
    for domain, name in dict.fromkeys((record["domain"], record["estimator"]) for record in records):
        ours = [record for record in records if (record["domain"], record["estimator"]) == (domain, name)]
        values, errors, truths = (np.array([record[key] for record in ours]) for key in ("value", "error", "truth"))
        cells = []
        for verdict in VERDICTS:
            held = [
                record["low"] <= record["truth"] <= record["high"] for record in ours if record["verdict"] == verdict
            ]
            cells.append(f"{100 * np.mean(held):.0f} % of {len(held)}" if held else "")
        ratio = np.sqrt(np.mean(((values - truths) / errors) ** 2))
        numbers = f"{truths.mean():.3g} | {values.mean():.3g} | {ratio:.2f}"
        lines.append(f"| {domain} | {name} | {numbers} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--domains", nargs="*", default=list(DOMAINS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where results are kept; if it is there, nothing is run again")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.json is not None and options.json.exists():
        records = json.loads(options.json.read_text())
    else:
        records = run(options.domains, options.logs, options.jobs)
        if options.json is not None:
            options.json.write_text(json.dumps(records))
    lines = table(records)
    print(*lines, sep="\n")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        title, command, text = (__doc__ or "").split("\n\n", 2)
        head = ["# Coverage of intervals", "", title, "", f"`{command}`", "", text.strip(), ""]
        logs = 1 + max(record["log"] for record in records)
        options.out.write_text("\n".join([*head, f"{logs} logs of each domain:", "", *lines]) + "\n")


if __name__ == "__main__":
    main()
