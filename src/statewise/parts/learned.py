"""A network together with its optimiser's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import optax
from jaxtyping import Array, Float, Key

from statewise.ops.keys import key_for
from statewise.ops.loops import in_turn
from statewise.ops.networks import Network

T = TypeVar("T")


class Learned(eqx.Module):
    """A network that is being learned; the optimiser's state is kept from one actor update to the next."""

    network: Any  # a Network, or several as one (Least)
    optimiser: optax.OptState


def adam(rate: float, decay_over: int | None = None) -> optax.GradientTransformation:
    """Adam; with `decay_over`, its rate falls linearly to 0 over that many steps."""
    return optax.adam(rate if decay_over is None else optax.linear_schedule(rate, 0.0, decay_over))


def start(network: Any, optimiser: optax.GradientTransformation) -> Learned:
    return Learned(network, optimiser.init(network))  # pyright: ignore[reportArgumentType]


def descend_once(
    learned: Learned, optimiser: optax.GradientTransformation, loss: Callable[[Network], Float[Array, ""]]
) -> tuple[Learned, Float[Array, ""]]:
    """One step of the optimiser; also returns the loss before it."""
    value, gradient = jax.value_and_grad(loss)(learned.network)
    changes, state = optimiser.update(gradient, learned.optimiser, learned.network)  # pyright: ignore
    return Learned(optax.apply_updates(learned.network, changes), state), value  # pyright: ignore


def in_chunks(chunk: Callable[[T, Key[Array, ""], int], T], state: T, steps: int, size: int, key: Key[Array, ""]) -> T:
    """`chunk(state, key, count)` for `size` steps at a time, so that what it draws ahead needs no more memory."""
    whole, rest = divmod(steps, size)
    if whole > 0:
        keys = jax.random.split(key_for(key, "chunks"), whole)
        state, _ = jax.lax.scan(lambda state, key: (chunk(state, key, size), None), state, keys)
    return chunk(state, key, rest) if rest > 0 else state


def descend(
    learned: Learned, optimiser: optax.GradientTransformation, loss: Callable[..., Float[Array, ""]], batches: Any
) -> tuple[Learned, Float[Array, " steps"]]:
    """One step of the optimiser for each batch in turn; `loss(network, batch)`. Also returns the losses."""

    def step(learned: Learned, batch: Any) -> tuple[Learned, Float[Array, ""]]:
        return descend_once(learned, optimiser, lambda network: loss(network, batch))

    return in_turn(step, learned, batches)
