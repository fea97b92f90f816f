"""The off-support anchor: where there are no data, the policy stays close to the clone it started from.

The gradient sees only logged states. An improved policy soon visits others, where the network's output drifts as a side
effect of the updates. The anchor adds, at states drawn around and beyond those of the log,

    −weight · E[c(s̃) KL(π_clone(·|s̃) ‖ π_θ(·|s̃))],     s̃ = spread · s + noise · ε,   ε ~ N(0, I),

with s a logged state, scaled to mean 0 and deviation 1, and c(s̃) = 1 − H(π_clone(·|s̃))/log |A| the certainty of the
cloned policy: a behaviour that acts at random is not worth keeping. So the log itself decides where the anchor holds,
and how strongly. On logged states such a penalty would hold back learning without preventing the drift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from statewise.data.device import Rows
from statewise.ops.networks import Network
from statewise.parts.policy import entropy, log_policy


@dataclass(frozen=True)
class Anchor:
    """Settings of the anchor; weight 0 turns it off."""

    weight: float = 1.0  # weight of the anchor; 0 turns it off
    spread: float = 1.5  # factor by which logged states are moved away from their mean
    noise: float = 1.0  # deviation of the noise added to them, in deviations of the log


def penalty(settings: Anchor, policy: Network, clone: Network, rows: Rows, key: Key[Array, ""]) -> Float[Array, ""]:
    """E[c · KL(clone ‖ π)] at states beyond the rows' own."""
    noise = settings.noise * jax.random.normal(key, rows.state.shape)
    states = settings.spread * rows.state + noise
    cloned, current = log_policy(clone, states), log_policy(policy, states)
    if cloned.shape[-1] == 1:  # with a single action there is nothing to choose
        return jnp.zeros(())
    certainty = 1 - entropy(cloned) / math.log(cloned.shape[-1])
    return jnp.mean(certainty * jnp.sum(jnp.exp(cloned) * (cloned - current), axis=-1))
