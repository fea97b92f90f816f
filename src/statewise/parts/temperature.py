"""The temperature τ of a soft policy: fixed, or tuned to keep the policy at a share of the highest entropy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Temperature:
    """Settings; τ is in units of the log's returns. With `entropy`, a share of log |A|, τ is tuned from `start`."""

    start: float = 0.1  # τ, or where tuning starts
    entropy: float | None = None  # target, as a share of log |A|; None: τ is fixed
    learning_rate: float = 1e-3  # step size of log τ


class Tuned(eqx.Module):
    """log τ, and its optimiser's state."""

    log_value: Float[Array, ""]
    optimiser: optax.OptState

    @property
    def value(self) -> Float[Array, ""]:
        return jnp.exp(self.log_value)


def initial(settings: Temperature) -> Tuned:
    if settings.start <= 0:
        raise ValueError(f"temperature.start: expected a number above 0, got {settings.start}")
    log_value = jnp.asarray(math.log(settings.start), jnp.float32)
    return Tuned(log_value, _optimiser(settings).init(log_value))


def tune(settings: Temperature, tuned: Tuned, entropy: Float[Array, ""], highest: Float[Array, ""]) -> Tuned:
    """One step down log τ · (H(π) − H*): hotter while the entropy is below its target, colder while above."""
    if settings.entropy is None:
        return tuned
    gradient = entropy - settings.entropy * highest
    change, state = _optimiser(settings).update(gradient, tuned.optimiser)
    return Tuned(tuned.log_value + change, state)  # pyright: ignore[reportOperatorIssue]


def _optimiser(settings: Temperature) -> optax.GradientTransformation:
    return optax.adam(settings.learning_rate)
