"""Draws rows of a log, uniformly or from d̂_γ, at a cost that does not grow with the log."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from statewise.data.dataset import Dataset
from statewise.ops.placed import placed


def random_below(key: Key[Array, ""], count: int, limit: Int[Array, "*count"] | int) -> Int[Array, " count"]:
    """Whole numbers from 0 to `limit` − 1, each ⌊2⁻³² · limit · bits⌋; `randint` draws twice the bits, and divides.

    No number is more likely than another by more than one part in 2³² / limit.
    """
    bits, limit = jax.random.bits(key, (count,)), jnp.broadcast_to(jnp.asarray(limit, jnp.uint32), (count,))
    # the upper half of a product of 32-bit numbers, from products of their halves
    low = jnp.uint32(0xFFFF)
    upper, lower, above, below = bits >> 16, bits & low, limit >> 16, limit & low
    one, other = upper * below, lower * above
    carried = (((lower * below) >> 16) + (one & low) + (other & low)) >> 16
    return (upper * above + (one >> 16) + (other >> 16) + carried).astype(jnp.int32)


class RowSampler(eqx.Module):
    """Draws rows with probability ∝ γᵗ, t being the row's step within its episode.

    d̂_γ(s) ∝ Σₜ γᵗ d̂ₜ(s), with d̂ₜ the empirical distribution of the states at step t.

    A step is drawn first, from a table over steps; then an episode that reaches it. Episodes are in order of decreasing
    length, so those that reach step t are the first `reach[t]`.
    """

    cumulative: Float[Array, " horizon"]
    reach: Int[Array, " horizon"]
    starts: Int[Array, " episodes"]
    steps: Int[Array, ""]
    uniform: bool = eqx.field(static=True)

    def draw(self, key: Key[Array, ""], count: int) -> Int[Array, " count"]:
        if self.uniform:
            return random_below(key, count, self.steps)
        which_step, which_episode = jax.random.split(key)
        u = jax.random.uniform(which_step, (count,))
        time = jnp.searchsorted(self.cumulative, u, side="right", method="compare_all")
        time = jnp.minimum(time, self.reach.shape[0] - 1)
        episode = random_below(which_episode, count, self.reach[time])
        return self.starts[episode] + time


def row_sampler(dataset: Dataset, discount: float = 1.0) -> RowSampler:
    """A sampler of a Dataset's rows; with `discount` 1 all rows are equally likely."""
    by_length = np.argsort(-dataset.lengths, kind="stable")
    reach = np.cumsum(np.bincount(dataset.lengths)[::-1])[::-1][1:]  # episodes longer than t, for t = 0, 1, …
    weight = reach * float(discount) ** np.arange(len(reach))
    return RowSampler(
        cumulative=placed(np.cumsum(weight) / weight.sum(), dtype=jnp.float32),
        reach=placed(reach, dtype=jnp.int32),
        starts=placed(dataset.starts[:-1][by_length], dtype=jnp.int32),
        steps=placed(len(dataset), dtype=jnp.int32),
        uniform=discount == 1.0,
    )
