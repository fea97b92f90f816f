"""An algorithm at work on prepared logs: several runs, one per key, compiled or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from statewise.algorithms import Settings, algorithm_of
from statewise.ops.keys import key_for
from statewise.parts.metrics import PARTS, Metrics


@runtime_checkable
class Program(Protocol):
    """What the loop needs from an algorithm; the states of all runs are kept together."""

    def begin(self) -> Any:
        """The warm-started state of every run."""
        ...

    def restored(self, leaves: list[np.ndarray]) -> Any:
        """States from their saved leaves; raises ValueError if these belong to other settings."""
        ...

    def advance(self, states: Any, done: int, count: int) -> tuple[Any, Metrics]:
        """`count` updates of every run after `done` of them; metrics as NumPy arrays [runs, count]."""
        ...

    def policies(self, states: Any, views: Sequence[Any]) -> list[Any]:
        """The current policy of each run, by its view of its log."""
        ...


def program(config: Settings, data: Any, keys: Key[Array, " runs"], apart: bool = False) -> Program:
    """The algorithm with these settings; `apart`: every run has its own log, stacked in the leaves of `data`."""
    return Compiled(config, data, keys, apart) if algorithm_of(config).compiled else Stepwise(config, data, keys, apart)


class Stretch(NamedTuple):
    """The states of all runs after `done` updates, and the metrics since the last stretch."""

    done: int
    states: Any
    metrics: Metrics


def stretches(running: Program, states: Any, done: int, updates: int, every: int) -> Iterator[Stretch]:
    """The loop: from `done` updates to `updates`, with a pause at each multiple of `every` and at the end."""
    while done < updates:
        count = min(every - done % every, updates - done)
        states, metrics = running.advance(states, done, count)
        done += count
        yield Stretch(done, states, metrics)


class NotFinite(ArithmeticError):
    """Training produced a number that is not finite."""


def check_finite(stretch: Stretch, seeds: Sequence[int], kept: str = "") -> None:
    """Refuses what is not finite; says where it began, and what is `kept`."""
    finite = np.asarray(stretch.metrics.finite)  # [runs, updates, parts]
    if finite.all():
        return
    broken = np.argwhere(~finite)
    run, update, part = (int(index) for index in broken[np.argmin(broken[:, 1])])
    raise NotFinite(
        f"the {PARTS[part]} became infinite or not a number at update {stretch.done - finite.shape[1] + update + 1} "
        f"of seed {seeds[run]}{kept}. Try a smaller learning rate for it, or a clip on ρ"
    )


class Compiled(NamedTuple):
    """One XLA program for a stretch of all runs, scanned over updates."""

    config: Settings
    data: Any
    keys: Key[Array, " runs"]
    apart: bool

    def begin(self) -> Any:
        return _begin(self.config, self.data, self.keys, self.apart)

    def restored(self, leaves: list[np.ndarray]) -> Any:
        like = eqx.filter_eval_shape(_begin, self.config, self.data, self.keys, self.apart)
        if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in jax.tree.leaves(like)]:
            raise ValueError("the state belongs to other settings")
        return jax.tree.unflatten(jax.tree.structure(like), [jnp.asarray(leaf) for leaf in leaves])

    def advance(self, states: Any, done: int, count: int) -> tuple[Any, Metrics]:
        states, metrics = _advance(self.config, self.data, states, self.keys, jnp.asarray(done), count, self.apart)
        return states, jax.device_get(metrics)

    def policies(self, states: Any, views: Sequence[Any]) -> list[Any]:
        policy = algorithm_of(self.config).policy
        own = (jax.tree.map(lambda leaf, run=run: leaf[run], states) for run in range(len(views)))
        return [policy(self.config, view, state) for view, state in zip(views, own, strict=True)]


class Stepwise(NamedTuple):
    """Plain Python, one run after another; a state may change its shapes."""

    config: Settings
    data: Any  # a list with one entry per run, if runs are `apart`
    keys: Key[Array, " runs"]
    apart: bool

    def begin(self) -> Any:
        algorithm = algorithm_of(self.config)
        return tuple(algorithm.init(self.config, self._data(i), key) for i, key in enumerate(self.keys))

    def restored(self, leaves: list[np.ndarray]) -> Any:
        structure = jax.tree.structure(self.begin())
        if structure.num_leaves != len(leaves):
            raise ValueError("the state belongs to other settings")
        return jax.tree.unflatten(structure, leaves)

    def advance(self, states: Any, done: int, count: int) -> tuple[Any, Metrics]:
        update = algorithm_of(self.config).update
        reached, all_metrics = [], []
        for i, (state, key) in enumerate(zip(states, self.keys, strict=True)):
            metrics = []
            for number in range(done, done + count):
                state, latest = update(self.config, self._data(i), state, _update_key(key, number))
                metrics.append(latest)
            reached.append(state)
            all_metrics.append(_stacked(metrics))
        return tuple(reached), _stacked(all_metrics)

    def policies(self, states: Any, views: Sequence[Any]) -> list[Any]:
        policy = algorithm_of(self.config).policy
        return [policy(self.config, view, state) for view, state in zip(views, states, strict=True)]

    def _data(self, run: int) -> Any:
        return self.data[run] if self.apart else self.data


def _update_key(key: Key[Array, ""], number: Array | int) -> Key[Array, ""]:
    """An update's random numbers depend only on its seed and number."""
    return jax.random.fold_in(key_for(key, "updates"), number)


def _stacked(metrics: list[Metrics]) -> Metrics:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *metrics)


@eqx.filter_jit
def _begin(config: Settings, data: Any, keys: Key[Array, " runs"], apart: bool) -> Any:
    init = algorithm_of(config).init
    return _strong(_each(lambda data, key: init(config, data, key), data, apart, keys))


@eqx.filter_jit
def _advance(
    config: Settings, data: Any, states: Any, keys: Key[Array, " runs"], done: Array, count: int, apart: bool
) -> tuple[Any, Metrics]:
    update = algorithm_of(config).update

    def one_run(data: Any, state: Any, key: Key[Array, ""]) -> tuple[Any, Metrics]:
        def step(state: Any, number: Array) -> tuple[Any, Metrics]:
            return update(config, data, state, _update_key(key, number))

        return jax.lax.scan(step, state, done + jnp.arange(count))

    states, metrics = _each(one_run, data, apart, states, keys)
    return _strong(states), metrics


def _each(one_run: Callable, data: Any, apart: bool, *each: Any) -> Any:
    """Runs side by side; on a CPU one after another, since its caches hold the batches of one run but not of all."""
    if jax.default_backend() != "cpu":
        return jax.vmap(one_run, in_axes=(0 if apart else None, *[0] * len(each)))(data, *each)
    if apart:
        return jax.lax.map(lambda arguments: one_run(*arguments), (data, *each))
    return jax.lax.map(lambda arguments: one_run(data, *arguments), each)


def _strong(states: Any) -> Any:
    """The same states without JAX's weak types, so that one compiled program serves every stretch."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), states)
