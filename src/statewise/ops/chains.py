"""What a Markov chain earns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

DOUBLINGS = 15  # of the number of steps: 32,768


def earned(moves: Float[Array, "n n"], paid: Float[Array, " n"]) -> Float[Array, " n"]:
    """V = paid + moves V, where `moves` are probabilities times a discount; as it suits the device.

    An accelerator multiplies many small matrices at once, but takes one after the other to factorise them.
    """
    if jax.default_backend() == "cpu":
        return jnp.linalg.solve(jnp.eye(len(moves)) - moves, paid)
    return by_doubling(moves, paid)


def by_doubling(moves: Float[Array, "n n"], paid: Float[Array, " n"]) -> Float[Array, " n"]:
    """(I + P + … + P^(2n−1)) r = (I + Pⁿ)(I + P + … + P^(n−1)) r, begun with n = 1."""
    exactly = jax.lax.Precision.HIGHEST
    value = paid
    for _ in range(DOUBLINGS):
        value = value + jnp.matmul(moves, value, precision=exactly)
        moves = jnp.matmul(moves, moves, precision=exactly)
    return value
