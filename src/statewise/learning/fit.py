"""The only training loop: one compiled program, scanned over updates and mapped over seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from statewise.algorithms import acer, behaviour_cloning, cql, fitted_q, offpac, opposd, sac
from statewise.algorithms.acer import ACER
from statewise.algorithms.behaviour_cloning import BehaviourCloning
from statewise.algorithms.cql import CQL
from statewise.algorithms.fitted_q import FittedQ
from statewise.algorithms.offpac import OffPAC
from statewise.algorithms.opposd import OPPOSD
from statewise.algorithms.sac import SAC
from statewise.data.augment import Scaler, pad, smooth
from statewise.data.dataset import Dataset, usual_discount
from statewise.learning.runs import RunError, RunFolder, provenance, versions
from statewise.ops.keys import key_for
from statewise.ops.networks import Network
from statewise.parts.metrics import PARTS, Metrics
from statewise.policies.network import Policy
from statewise.policies.trees import TreePolicy

Config = OPPOSD | OffPAC | SAC | ACER | BehaviourCloning | CQL | FittedQ
ALGORITHMS: dict[type, Any] = {
    OPPOSD: opposd,
    OffPAC: offpac,
    SAC: sac,
    ACER: acer,
    BehaviourCloning: behaviour_cloning,
    CQL: cql,
}  # and FittedQ, whose trees are grown outside of the compiled loop


class NotFinite(ArithmeticError):
    """Training produced a number that is not finite; the last good checkpoint is kept."""


@dataclass(frozen=True)
class Told:
    """What a watcher is told after each stretch of updates."""

    update: int
    updates: int
    value: float  # mean over seeds of the critic's V̂(s₀)
    ratio_ess: float
    entropy: float


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run: the last policy of each seed, every checkpoint, and all metrics [seeds, updates]."""

    policies: tuple[Policy | TreePolicy, ...]
    checkpoints: dict[tuple[int, int], Policy | TreePolicy]
    metrics: dict[str, np.ndarray]
    config: Config
    seeds: tuple[int, ...]


def fit(
    dataset: Dataset,
    config: Config | None = None,
    *,
    seeds: int | Sequence[int] = 1,
    updates: int | None = None,
    checkpoint_every: int | None = None,
    out: str | Path | None = None,
    progress: Callable[[Told], None] = lambda told: None,
) -> Result:
    """Learns policies from a log.

    `seeds` is a number of runs, or their seeds. With `out`, metrics and checkpoints go to that folder, and a run that
    was interrupted there goes on where it stopped.

    >>> result = fit(train, OPPOSD(discount=0.98), seeds=5)  # doctest: +SKIP
    >>> result.policies[0].probabilities(observations)  # doctest: +SKIP
    """
    config = OPPOSD(discount=usual_discount(dataset)) if config is None else config
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    config = config if updates is None else replace(config, updates=updates)
    every = max(1, config.updates // 10) if checkpoint_every is None else min(checkpoint_every, config.updates)
    loop = _Loop(dataset, config, chosen, every, None if out is None else RunFolder.create(out))
    return loop.run(progress)


def prepare(dataset: Dataset, config: Config, key: Key[Array, ""]) -> tuple[Any, Scaler]:
    """The log as the learner draws from it, and how observations were scaled."""
    if isinstance(config, OPPOSD | OffPAC) and config.smoothing != 0:
        dataset = smooth(dataset, config.smoothing, horizon=config.horizon).dataset
    scaler = Scaler.of(dataset)
    if isinstance(config, FittedQ):
        return fitted_q.prepare(config, dataset), scaler
    scale = float(np.std(dataset.returns(config.discount)))
    if isinstance(config, OPPOSD | OffPAC):  # the paper's own settings neither scale values nor end episodes
        scale = scale if config.scale_values else 1.0
        dataset = dataset if config.horizon is None else pad(dataset, config.horizon)
    scaled = scaler.scale(dataset)
    # returns that never vary leave nothing to scale by
    data = ALGORITHMS[type(config)].prepare(config, scaled, scale if scale > 0 else 1.0, key)
    return data, scaler


class _Loop:
    """One run: its compiled programs, its state, and what it writes."""

    def __init__(
        self,
        dataset: Dataset,
        config: Config,
        seeds: tuple[int, ...],
        every: int,
        folder: RunFolder | None,
    ):
        self.dataset, self.config, self.seeds = dataset, config, seeds
        self.updates, self.every, self.folder = config.updates, every, folder
        self.data, self.scaler = prepare(dataset, config, key_for(jax.random.key(0), "prepare"))
        self.keys = jnp.stack([jax.random.key(seed) for seed in seeds])
        self.checkpoints: dict[tuple[int, int], Policy | TreePolicy] = {}
        self.metrics: dict[str, np.ndarray] = {}

    def run(self, progress: Callable[[Told], None]) -> Result:
        done, state = self._begin()
        while done < self.updates:
            # stretches end on multiples of `every`, so that a resumed run makes the same checkpoints
            count = min(self.every - done % self.every, self.updates - done)
            state, metrics = self._stretch(state, done, count)
            self._check_finite(metrics, done)
            done += count
            self._keep(metrics, state, done)
            progress(_told(metrics, done, self.updates))
        last = tuple(self._policy(state, i, done) for i in range(len(self.seeds)))
        return Result(last, self.checkpoints, self.metrics, self.config, self.seeds)

    def _stretch(self, state: Any, done: int, count: int) -> tuple[Any, Metrics]:
        if isinstance(self.config, FittedQ):
            return fitted_q.stretch(self.config, self.data, state, self.seeds, done, count)
        state, metrics = stretch(self.config, self.data, state, self.keys, jnp.asarray(done), count)
        return state, jax.device_get(metrics)

    def _begin(self) -> tuple[int, Any]:
        """Where to go on from; the warm start is only made where there is nothing to resume."""
        if self.folder is None:
            return 0, self._fresh()
        identity = {
            "algorithm": type(self.config).__name__,
            "config": json.loads(json.dumps(asdict(self.config))),
            "seeds": list(self.seeds),
            "data": self.dataset.fingerprint,
        }
        if self.folder.exists():
            known = self.folder.manifest()
            changed = [name for name, value in identity.items() if known.get(name) != value]
            if changed:
                raise RunError(
                    f"{self.folder.path}: it holds a run with another {', '.join(changed)}; give a new folder"
                )
            trees = isinstance(self.config, FittedQ)
            like = () if trees else eqx.filter_eval_shape(begin, self.config, self.data, self.keys)
            resumed = self.folder.read_state(like)
            if resumed is not None:
                # what was written after that state, before the run was stopped, will come again
                self.metrics = {name: values[:, : resumed[0]] for name, values in self.folder.metrics().items()}
                self.checkpoints = {at: one for at, one in self.folder.policies().items() if at[1] <= resumed[0]}
                if trees:  # the policies are all there is to go on from
                    return resumed[0], tuple(self.checkpoints[seed, resumed[0]] for seed in self.seeds)
                return resumed
        self.folder.write_manifest({**identity, **provenance()})
        return 0, self._fresh()

    def _fresh(self) -> Any:
        if isinstance(self.config, FittedQ):
            return tuple(fitted_q.init(self.config, self.data) for _ in self.seeds)
        return begin(self.config, self.data, self.keys)

    def _check_finite(self, metrics: Metrics, done: int) -> None:
        finite = np.asarray(metrics.finite)  # [seeds, updates, parts]
        if finite.all():
            return
        seed, update, part = (int(index) for index in np.argwhere(~finite)[np.argmin(np.argwhere(~finite)[:, 1])])
        kept = f"; the checkpoint of update {done} is kept in {self.folder.path}" if self.folder and done else ""
        raise NotFinite(
            f"the {PARTS[part]} became infinite or not a number at update {done + update + 1} of seed "
            f"{self.seeds[seed]}{kept}. A smaller learning rate for it, or a clip on ρ, may help"
        )

    def _keep(self, metrics: Metrics, state: Any, done: int) -> None:
        for field in fields(metrics):  # pyright: ignore[reportArgumentType]
            new = np.asarray(getattr(metrics, field.name))
            old = self.metrics.get(field.name)
            self.metrics[field.name] = new if old is None else np.concatenate([old, new], axis=1)
        for i, seed in enumerate(self.seeds):
            self.checkpoints[seed, done] = self._policy(state, i, done)
        if self.folder is not None:
            for seed in self.seeds:
                self.folder.write_policy(seed, done, self.checkpoints[seed, done])
            self.folder.write_metrics(self.metrics)
            left = () if isinstance(self.config, FittedQ) else state  # trees go on from their policies
            self.folder.write_state(done, left)  # last: a resumed run finds all that came before it

    def _policy(self, state: Any, i: int, update: int) -> Policy | TreePolicy:
        card = {
            "algorithm": type(self.config).__name__,
            "seed": self.seeds[i],
            "update": update,
            "discount": self.config.discount,
            "data": self.dataset.fingerprint,
            "versions": versions(),
        }
        if isinstance(self.config, FittedQ):
            return replace(state[i], card=card, action_names=self.dataset.action_names)
        own = jax.tree.map(lambda leaf: leaf[i], state)
        network: Network = ALGORITHMS[type(self.config)].policy(self.config, own)
        network = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), network)
        seen = len(self.dataset.observation_names)  # the mark of the absorbing state, 0 in the world, is left out
        return Policy(
            weights=(network.weights[0][:seen], *network.weights[1:]),  # pyright: ignore[reportArgumentType]
            biases=network.biases,  # pyright: ignore[reportArgumentType]
            mean=self.scaler.mean[:seen],
            std=self.scaler.std[:seen],
            observation_names=self.dataset.observation_names,
            action_names=self.dataset.action_names,
            card=card,
        )


@eqx.filter_jit
def begin(config: Config, data: Any, keys: Key[Array, " seeds"]) -> Any:
    """The warm-started state of every seed."""
    return over_seeds(lambda key: ALGORITHMS[type(config)].init(config, data, key))(keys)


@eqx.filter_jit
def stretch(
    config: Config, data: Any, state: Any, keys: Key[Array, " seeds"], done: Array, count: int
) -> tuple[Any, Metrics]:
    """`count` updates of every seed."""
    return over_seeds(lambda state, key: several_updates(config, data, state, key, done, count))(state, keys)


def several_updates(
    config: Config, data: Any, state: Any, key: Key[Array, ""], done: Array, count: int
) -> tuple[Any, Metrics]:
    """`count` updates of one seed; the random numbers of an update depend on its seed and number alone."""
    update = ALGORITHMS[type(config)].update

    def step(state: Any, number: Array) -> tuple[Any, Metrics]:
        return update(config, data, state, jax.random.fold_in(key_for(key, "updates"), number))

    return jax.lax.scan(step, state, done + jnp.arange(count))


def over_seeds(one_seed: Callable) -> Callable:
    """Seeds side by side; on a CPU one after the other, whose caches hold one seed's batches and not those of all."""
    if jax.default_backend() == "cpu":
        return lambda *each: jax.lax.map(lambda arguments: one_seed(*arguments), each)
    return jax.vmap(one_seed)


def _told(metrics: Metrics, done: int, updates: int) -> Told:
    def last(values: np.ndarray) -> float:
        return float(np.mean(np.asarray(values)[:, -1]))

    return Told(done, updates, last(metrics.value), last(metrics.ratio_ess), last(metrics.entropy))  # pyright: ignore
