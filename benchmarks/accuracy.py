"""The errors of every estimator here and of SCOPE-RL's counterparts, on logs of four domains, in three settings each.

python benchmarks/accuracy.py [--jobs N] [--json FILE] [--peer ENVIRONMENT/bin/python] [--out docs/accuracy.md]

A target mixes the behaviour with a better policy, which makes up 25, 50 or 75 % of it. Ten logs each (seeds 0 to 9):

- tabular: 300 episodes of 50 steps of a random problem with 10 states and 3 actions, each of which leads to only a few
  states, γ = 0.95; the truth is exact;
- CartPole: 200 episodes of the uniform policy, γ = 0.98; the better policy pushes towards where the pole leans;
- HIV: 100 episodes of 200 steps of μ = 0.7 π̂ + 0.3 uniform, γ = 0.98; the better policy is π̂.

Of the fourth, the percentage is what the behaviour is worth: 200 episodes of CartPole that are cut off after 200 steps,
of which behaviours last for about 45, 65 and 85 %, γ = 1; the targets push a little more reliably towards where the
pole leans (the worlds cartpole-45, -65 and -85).

For CartPole and HIV, the truth is the mean of 4,000 and 1,000 simulated episodes, and to the limit of 400,000. Numbers
are root mean squared errors in percent of the truth; in parentheses, how many of the ten logs had the verdict supported
/ weak / not identified.

SCOPE-RL runs in an environment of its own (see scope_rl_peer.py). It needs episodes of equal length, so those that end
early are padded with an absorbing state that pays 0 and in which both policies act uniformly. Where one of its
estimators can be called in several ways, the table shows the one that did best on a domain, chosen by the truth.

The bounds of verdicts and all constants were set on other logs. What needed fixing was seen on these, in earlier
versions of the table.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from coverage import ONE_CORE, Balancing, logged_value

from statewise.data.augment import Scaler
from statewise.data.dataset import Dataset
from statewise.domains.behaviours import LEARNED_SHARE, Uniform, shipped, with_noise
from statewise.domains.cartpole import CARTPOLE
from statewise.domains.collect import collect, collect_tabular
from statewise.domains.hiv import HIV
from statewise.domains.simulate import Act, Domain, episode_keys, returns, rollout
from statewise.domains.tabular import TabularMDP
from statewise.ope.estimators import ESTIMATORS, USUAL
from statewise.ope.evaluate import evaluate_all
from statewise.policies.probabilities import probabilities_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from worlds import WORLDS

Row = dict[str, Any]
SHARES = (0.25, 0.5, 0.75)
LIMITED = (0.45, 0.65, 0.85)
SLOW = ("state-ratio-network", "fitted-q")  # networks: minutes a log
NEEDS = {"fitted-q-trees": "sklearn"}
OURS = tuple(name for name in ESTIMATORS if name not in SLOW and (name not in NEEDS or find_spec(NEEDS[name])))
VERDICTS = ("supported", "weak", "not identified")
BY_HAND = "<!-- by hand -->"  # what follows it on the page is kept


@dataclass(frozen=True)
class Setting:
    """A domain and a distance: the target, its true value, and a log for each seed."""

    domain: str
    share: float
    discount: float
    truth: float
    target: Callable[[np.ndarray], np.ndarray]
    log: Callable[[int], Dataset]

    @property
    def name(self) -> str:
        return f"{self.domain} {100 * self.share:.0f} %"


class Mixed(eqx.Module):
    """π = share · better + (1 − share) · behaviour."""

    better: Act
    behaviour: Act
    share: jax.Array

    def __call__(self, observation: jax.Array) -> jax.Array:
        return self.share * self.better(observation) + (1 - self.share) * self.behaviour(observation)


def tabular() -> Iterator[Setting]:
    rng = np.random.default_rng(0)
    mdp = TabularMDP(rng.dirichlet(np.full(10, 0.2), size=(10, 3)), rng.random((10, 3)), rng.dirichlet(np.ones(10)))
    behaviour = rng.dirichlet(np.full(3, 4.0), size=10)
    best = np.eye(3)[mdp.action_values(behaviour, 0.95).argmax(axis=1)]
    for share in SHARES:
        table = share * best + (1 - share) * behaviour
        yield Setting(
            "tabular",
            share,
            0.95,
            logged_value(mdp, table, 0.95, 50),
            lambda o, table=table: table[o.argmax(axis=1)],
            lambda seed: collect_tabular(mdp, behaviour, episodes=300, horizon=50, seed=seed),
        )


def cartpole() -> Iterator[Setting]:
    behaviour, better = Uniform(2), Balancing(jnp.asarray(8.0))
    yield from _simulated("CartPole", CARTPOLE, behaviour, partial(Mixed, better, behaviour), 200, 4000)


def hiv() -> Iterator[Setting]:
    learned = shipped("hiv")

    def mixed(share: jax.Array) -> Act:
        return with_noise(learned, float(LEARNED_SHARE + share * (1 - LEARNED_SHARE)))

    yield from _simulated("HIV", HIV, with_noise(learned), mixed, 100, 1000)


def _simulated(
    name: str, domain: Domain, behaviour: Act, mixed: Callable[[jax.Array], Act], episodes: int, many: int
) -> Iterator[Setting]:
    for share in SHARES:
        act = mixed(jnp.asarray(share))
        truth = float(returns(rollout(domain, act, episode_keys(10**6, many)), 0.98).mean())
        chances = jax.jit(jax.vmap(act))
        yield Setting(
            name,
            share,
            0.98,
            truth,
            lambda o, chances=chances: normalised(np.asarray(chances(jnp.asarray(o, jnp.float32)), np.float64)),
            lambda seed: collect(domain, behaviour, episodes=episodes, seed=seed),
        )


def normalised(chances: np.ndarray) -> np.ndarray:
    """Probabilities that sum to 1, which single precision misses by a little."""
    return chances / chances.sum(axis=1, keepdims=True)


def limited() -> Iterator[Setting]:
    for share in LIMITED:
        world = WORLDS[f"cartpole-{100 * share:.0f}"]
        yield Setting("CartPole to 200", share, world.discount, world.truth, world.policy, world.log)


DOMAINS = {"tabular": tabular, "CartPole": cartpole, "HIV": hiv, "CartPole to 200": limited}


@cache
def settings_of(domain: str) -> list[Setting]:
    return list(DOMAINS[domain]())


def rectangular(data: Dataset, target: np.ndarray, discount: float) -> dict[str, np.ndarray]:
    """The log as SCOPE-RL expects it: standardised states, and a column that is 1 in the absorbing state."""
    horizon, actions = int(data.lengths.max()), data.action_count
    place = data.episode_of_step * horizon + data.time
    rows = data.episodes * horizon
    state = np.zeros((rows, data.observations.shape[1] + 1))
    state[:, -1] = 1.0
    state[place, :-1], state[place, -1] = Scaler.of(data)(np.asarray(data.observations, np.float64)), 0.0

    def padded(values: np.ndarray, otherwise: float) -> np.ndarray:
        out = np.full((rows, *values.shape[1:]), otherwise, values.dtype)
        out[place] = values
        return out

    assert data.propensities is not None
    return {
        "state": state,
        "action": padded(data.actions.astype(np.int64), 0),
        "reward": padded(data.rewards, 0.0),
        "pscore": padded(np.asarray(data.propensities, np.float64), 1 / actions),
        "target": padded(target, 1 / actions),
        "steps": np.asarray(horizon),
        "gamma": np.asarray(discount),
    }


def measure(domain: str, seed: int, names: tuple[str, ...]) -> list[Row]:
    """Our estimates of one log of every setting of a domain, one row each."""
    rows = []
    for setting in settings_of(domain):
        data = setting.log(seed)
        for name, one in evaluate_all(setting.target, data, names, discount=setting.discount, draws=2).items():
            rows.append(_row(setting, seed, f"statewise {name}", "", one.value, one.verdict))
    print(domain, seed, flush=True)
    return rows


def measure_all(domains: list[str], seeds: list[int], names: tuple[str, ...], jobs: int) -> list[Row]:
    os.environ.update(ONE_CORE)  # processes that are spawned inherit it
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        parts = [pool.submit(measure, domain, seed, names) for domain in domains for seed in seeds]
        rows = [row for part in parts for row in part.result()]
    order = {(one.domain, one.share): i for i, one in enumerate(s for d in domains for s in settings_of(d))}
    return sorted(rows, key=lambda row: order[row["domain"], row["share"]])


def write_logs(settings: list[Setting], seeds: list[int], folder: Path) -> None:
    """For the peer."""
    for setting in settings:
        for seed in seeds:
            path = folder / f"{setting.name}, {seed}.npz"
            if not path.exists():
                data = setting.log(seed)
                np.savez(path, **rectangular(data, probabilities_of(setting.target, data), setting.discount))


def peer_rows(
    settings: list[Setting], seeds: list[int], estimates: dict[str, dict[str, dict[str, float]]]
) -> list[Row]:
    """Each estimator, called in the way that has the least relative error over all logs of a domain."""
    rows = []
    for domain in dict.fromkeys(setting.domain for setting in settings):
        cases = [(setting, seed) for setting in settings if setting.domain == domain for seed in seeds]
        logs = [estimates[f"{setting.name}, {seed}"] for setting, seed in cases]
        truths = np.array([setting.truth for setting, _ in cases])
        for name, ways in logs[0].items():
            values = {way: np.array([log[name][way] for log in logs]) for way in ways}
            errors = {way: np.mean((one / truths - 1) ** 2) for way, one in values.items()}
            best = min(errors, key=lambda way: errors[way] if np.isfinite(errors[way]) else np.inf)
            rows += [
                _row(setting, seed, f"SCOPE-RL {name}", best, float(value), None)
                for (setting, seed), value in zip(cases, values[best], strict=True)
            ]
    return rows


def _row(setting: Setting, seed: int, estimator: str, way: str, value: float, verdict: str | None) -> Row:
    return {
        "domain": setting.domain,
        "share": setting.share,
        "seed": seed,
        "estimator": estimator,
        "way": way,
        "value": value,
        "truth": setting.truth,
        "verdict": verdict,
    }


def summary(rows: list[Row]) -> list[Row]:
    """Root mean squared error relative to the truth, and the verdicts, of each estimator in each setting."""
    groups: dict[tuple[str, float, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["domain"], row["share"], row["estimator"]), []).append(row)
    return [
        {
            "domain": domain,
            "share": share,
            "estimator": estimator,
            "truth": group[0]["truth"],
            "error": float(np.sqrt(np.mean([(row["value"] / row["truth"] - 1) ** 2 for row in group]))),
            "verdicts": [sum(row["verdict"] == verdict for row in group) for verdict in VERDICTS],
        }
        for (domain, share, estimator), group in groups.items()
    ]


def table(errors: list[Row]) -> list[str]:
    settings = list(dict.fromkeys((one["domain"], one["share"], one["truth"]) for one in errors))
    lines = [
        "| estimator | " + " | ".join(f"{domain} {100 * share:.0f} %" for domain, share, _ in settings) + " |",
        "|---|" + "---:|" * len(settings),
        "| *truth* | " + " | ".join(f"*{truth:.4g}*" for *_, truth in settings) + " |",
    ]
    cells = {(one["domain"], one["share"], one["estimator"]): one for one in errors}
    for name in dict.fromkeys(one["estimator"] for one in errors):
        line = []
        for domain, share, _ in settings:
            one = cells[domain, share, name]
            error, verdicts = one["error"], one["verdicts"]
            text = f"{100 * error:.3g}" if error < 100 else f"{100 * error:.1g}"
            if error == min(one["error"] for one in errors if (one["domain"], one["share"]) == (domain, share)):
                text = f"**{text}**"
            line.append(text + (f" ({'/'.join(map(str, verdicts))})" if sum(verdicts) else ""))
        lines.append(f"| {name} | " + " | ".join(line) + " |")
    return lines


def findings(rows: list[Row]) -> list[str]:
    """In each setting, the usual estimator's error beside the least of SCOPE-RL's and the least of all others here."""
    lines = []
    for domain, share in dict.fromkeys((row["domain"], row["share"]) for row in rows):
        off: dict[str, np.ndarray] = {}
        here = [row for row in rows if (row["domain"], row["share"]) == (domain, share)]
        for name in dict.fromkeys(row["estimator"] for row in here):
            off[name] = np.array([abs(row["value"] / row["truth"] - 1) for row in here if row["estimator"] == name])
        usual = off.pop(f"statewise {USUAL}")
        said = [f"{_rms(usual):.3g} %"]
        for owner in ("SCOPE-RL", "statewise"):
            others = {name: errors for name, errors in off.items() if name.startswith(owner)}
            if others:
                best = min(others, key=lambda name: _rms(others[name]))
                nearer = int((usual < others[best]).sum())
                said.append(
                    f"{best} {_rms(others[best]):.3g} % (farther from the truth on {nearer} of {len(usual)} logs)"
                )
        least = all(_rms(usual) <= _rms(errors) for errors in off.values())
        lines.append(f"- {domain} {100 * share:.0f} %: {'' if least else '**not the least**, '}{'; '.join(said)}.")
    return lines


def _rms(errors: np.ndarray) -> float:
    """In percent."""
    return 100 * float(np.sqrt(np.mean(errors**2)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(10)))
    parser.add_argument("--domains", nargs="*", default=list(DOMAINS))
    parser.add_argument("--estimators", nargs="*", default=list(OURS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--json", type=Path, help="where our estimates are kept; if it is there, they are not made again"
    )
    parser.add_argument("--peer", type=Path, help="the Python of an environment with scope-rl")
    parser.add_argument("--folder", type=Path, help="keeps the peer's logs and estimates")
    parser.add_argument("--out", type=Path, help="the page to write")
    options = parser.parse_args()
    if options.json is not None and options.json.exists():
        rows = json.loads(options.json.read_text())
    else:
        rows = measure_all(options.domains, options.seeds, tuple(options.estimators), options.jobs)
        if options.json is not None:
            options.json.write_text(json.dumps(rows))
    if options.peer is not None:
        settings = [setting for name in options.domains for setting in settings_of(name)]
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.folder or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            write_logs(settings, options.seeds, folder)
            script, answer = Path(__file__).with_name("scope_rl_peer.py"), folder / "scope_rl.json"
            subprocess.run([options.peer, script, folder, answer], check=True, stdout=subprocess.DEVNULL)
            rows = rows + peer_rows(settings, options.seeds, json.loads(answer.read_text()))
    errors = summary(rows)
    beside = (
        f"The least of all in bold. The usual estimator, {USUAL}, beside the best of SCOPE-RL's and of the others here:"
    )
    lines = [*table(errors), "", beside, "", *findings(rows)]
    print("\n".join(lines))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        kept = options.out.read_text().partition(BY_HAND)[2] if options.out.exists() else ""
        title, command, text = (__doc__ or "").split("\n\n", 2)
        head = ["# Accuracy, side by side", "", title, "", f"`{command}`", "", text.strip(), ""]
        options.out.write_text("\n".join([*head, *lines, "", BY_HAND]) + (kept or "\n"))


if __name__ == "__main__":
    main()
