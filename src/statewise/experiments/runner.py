"""Runs a study's jobs, each a method on one dataset, and keeps every finished one as a small file: it can go on.

    out/
      manifest.json                 the study, settings, seeds, versions, commit, machine, fingerprints, seconds
      logs/CELL/SEED.npz            what the log itself says: returns of its episodes, its fingerprint
      jobs/CELL/METHOD/SEED.npz     scores [checkpoints, episodes], diagnostics, policies
      evaluations/…                 what further logs say of checkpoints (`selection`)

Nothing here needs more than the learning libraries. On an accelerator all datasets of a method learn side by side; on a
CPU one after the other, in the same compiled program.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from statewise.algorithms import fitted_q
from statewise.algorithms.fitted_q import FittedQ
from statewise.data.dataset import Dataset
from statewise.experiments import records
from statewise.experiments.logs import Earned, log_of, played
from statewise.experiments.records import Way
from statewise.experiments.stack import part_of, stacked
from statewise.experiments.study import Cell, Method, Study
from statewise.learning.fit import ALGORITHMS, Config, over_seeds, prepare, several_updates
from statewise.ops.keys import key_for
from statewise.policies.network import Policy

Tell = Callable[[str], None]


def run(study: Study, out: str | Path, tell: Tell = print) -> None:
    """Does what is not yet done of the study."""
    out = Path(out)
    records.begin(out, study)
    for cell in study.cells:
        cell_jobs = [(method, pending(out, study, cell, method)) for method in study.methods]
        cell_jobs = [(method, seeds) for method, seeds in cell_jobs if seeds]
        if not cell_jobs:
            continue
        logs = _logs(out, study, cell, tell)
        for method, seeds in cell_jobs:
            if method.algorithm == "fitted-q" and find_spec("sklearn") is None:
                tell(f"{cell.name}, {method.name}: left out, it needs scikit-learn (run it elsewhere, same folder)")
                continue
            _run_method(out, study, cell, method, seeds, logs, tell)
    records.finish(out, study)


def pending(out: Path, study: Study, cell: Cell, method: Method) -> list[int]:
    """The datasets whose jobs are not done."""
    wanted = identity(study, cell, method)
    return [seed for seed in study.datasets if not records.is_done(out, cell, method, seed, wanted)]


def identity(study: Study, cell: Cell, method: Method) -> str:
    """All that decides what a job's file holds, but its seed."""
    config = study.config(cell, method)
    told = {
        "algorithm": type(config).__name__,
        "config": asdict(config),
        "log": [cell.domain, cell.episodes, cell.lean],
        "every": study.stride(method),
        "score_episodes": study.score_episodes,
    }
    return json.dumps(told, sort_keys=True)


def _logs(out: Path, study: Study, cell: Cell, tell: Tell) -> dict[int, Dataset]:
    """Every dataset of the cell, also of jobs that are done: their lengths decide the size of a stack."""
    tell(f"{cell.name}: collecting {len(study.datasets)} logs of {cell.episodes:,} episodes")
    logs = {seed: log_of(cell, seed) for seed in study.datasets}
    for seed, data in logs.items():
        records.write_log(out, cell, seed, data)
    return logs


def _run_method(
    out: Path, study: Study, cell: Cell, method: Method, seeds: list[int], logs: Mapping[int, Dataset], tell: Tell
) -> None:
    """Runs the seeds that are not done: in one program, and on an accelerator all at once."""
    config, stride = study.config(cell, method), study.stride(method)
    learn = _Trees(config, logs) if isinstance(config, FittedQ) else _Stack(config, logs)
    alone = isinstance(config, FittedQ) or jax.default_backend() == "cpu"
    made_by = identity(study, cell, method)
    for group in [[seed] for seed in seeds] if alone else [seeds]:
        begun = time.perf_counter()
        ways = learn(group, stride)
        learned = time.perf_counter()
        earned = played(cell, [policy for way in ways for policy in way.policies], study.score_episodes)
        seconds = {"learning": (learned - begun) / len(group)}
        seconds["scoring"] = (time.perf_counter() - learned) / len(group)
        count, ends = len(ways[0].policies), []
        for i, (seed, way) in enumerate(zip(group, ways, strict=True)):
            scores = Earned(*(values[i * count : (i + 1) * count] for values in earned))
            kept = way if study.kind == "selection" else way._replace(policies=way.policies[-1:])
            records.write_job(out, cell, method, seed, made_by, logs[seed].fingerprint, kept, scores, seconds)
            ends.append(getattr(scores, study.measure)[-1].mean())
        numbers, words = ", ".join(map(str, group)), ", ".join(f"{value:.4g}" for value in ends)
        taken = time.perf_counter() - begun
        tell(f"{cell.name}, {method.name}, dataset {numbers}: last iterate {words} ({taken:.0f} s)")


class _Stack:
    """A compiled learner on all logs of a cell."""

    def __init__(self, config: Config, logs: Mapping[int, Dataset]):
        self.config, self.logs, self.order = config, logs, list(logs)
        key = key_for(jax.random.key(0), "prepare")
        ready = [prepare(data, config, key) for data in logs.values()]
        self.data, self.scalers = stacked([data for data, _ in ready]), [scaler for _, scaler in ready]

    def __call__(self, seeds: Sequence[int], stride: int) -> list[Way]:
        """One way a seed."""
        config, places = self.config, [self.order.index(seed) for seed in seeds]
        data, keys = part_of(self.data, places), jnp.stack([jax.random.key(seed) for seed in seeds])
        state = begin_each(config, data, keys)
        networks, updates, told, finite = [self._networks(state)], [0], [], []
        while updates[-1] < config.updates:
            count = min(stride, config.updates - updates[-1])
            state, metrics = stretch_each(config, data, state, keys, jnp.asarray(updates[-1]), count)
            metrics = jax.device_get(metrics)
            told.append({name: getattr(metrics, name)[:, -1] for name in records.DIAGNOSTICS})
            finite.append(np.asarray(metrics.finite).all(axis=(1, 2)))
            networks.append(self._networks(state))
            updates.append(updates[-1] + count)
        return [self._way(i, places[i], networks, updates, told, finite) for i in range(len(seeds))]

    def _networks(self, state: Any) -> Any:
        return jax.device_get(jax.vmap(lambda own: ALGORITHMS[type(self.config)].policy(self.config, own))(state))

    def _way(self, i: int, place: int, networks: list, updates: list, told: list, finite: list) -> Way:
        names = self.logs[self.order[place]].observation_names
        scaler, actions = self.scalers[place], networks[0].biases[-1].shape[-1]
        policies = [
            Policy(
                weights=tuple(weight[i] for weight in network.weights),
                biases=tuple(bias[i] for bias in network.biases),
                mean=scaler.mean,
                std=scaler.std,
                observation_names=names,
                action_names=tuple(map(str, range(actions))),
            )
            for network in networks
        ]
        diagnostics = {name: np.array([np.nan, *(one[name][i] for one in told)]) for name in records.DIAGNOSTICS}
        sound = np.logical_and.accumulate(np.array([True, *(one[i] for one in finite)]))
        return Way(policies, np.array(updates), sound, diagnostics)


class _Trees:
    """Fitted Q on one log after the other; its updates are not compiled."""

    def __init__(self, config: FittedQ, logs: Mapping[int, Dataset]):
        self.config, self.logs = config, logs

    def __call__(self, seeds: Sequence[int], stride: int) -> list[Way]:
        return [self._way(seed, stride) for seed in seeds]

    def _way(self, seed: int, stride: int) -> Way:
        config = self.config
        data, _ = prepare(self.logs[seed], config, jax.random.key(0))
        state, updates = (fitted_q.init(config, data),), [0]
        policies, told = [state[0]], [dict.fromkeys(records.DIAGNOSTICS, np.nan)]
        while updates[-1] < config.updates:
            count = min(stride, config.updates - updates[-1])
            state, metrics = fitted_q.stretch(config, data, state, (seed,), updates[-1], count)
            policies.append(state[0])
            told.append({name: float(getattr(metrics, name)[0, -1]) for name in records.DIAGNOSTICS})
            updates.append(updates[-1] + count)
        diagnostics = {name: np.array([one[name] for one in told]) for name in records.DIAGNOSTICS}
        return Way(policies, np.array(updates), np.ones(len(updates), bool), diagnostics)


@eqx.filter_jit
def begin_each(config: Config, data: Any, keys: Key[Array, " runs"]) -> Any:
    """The warm-started state of every run, each on its own log."""
    states = over_seeds(lambda data, key: ALGORITHMS[type(config)].init(config, data, key))(data, keys)
    return jax.tree.map(_strong, states)


@eqx.filter_jit
def stretch_each(
    config: Config, data: Any, state: Any, keys: Key[Array, " runs"], done: Array, count: int
) -> tuple[Any, Any]:
    """`count` updates of every run."""
    one = over_seeds(lambda data, state, key: several_updates(config, data, state, key, done, count))
    state, metrics = one(data, state, keys)
    return jax.tree.map(_strong, state), metrics


def _strong(leaf: Array) -> Array:
    """Types that no longer depend on where a number came from: the same program serves every stretch."""
    return jax.lax.convert_element_type(leaf, leaf.dtype)
