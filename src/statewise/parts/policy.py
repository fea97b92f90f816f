"""The policy: a softmax over a network's outputs, restricted to legal actions. It never sees the clock."""

from __future__ import annotations

from functools import reduce

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from statewise.data.device import Rows
from statewise.ops.networks import Network, seen_by

FEW = 16  # up to so many actions are computed one by one


def log_policy(
    network: Network, state: Float[Array, "*batch features"], legal: Bool[Array, "*batch actions"] | None = None
) -> Float[Array, "*batch actions"]:
    """log π(·|s); −∞ for illegal actions."""
    if network.biases[-1].shape[0] > FEW:
        logits = network(seen_by(network, state))
        return jax.nn.log_softmax(logits if legal is None else jnp.where(legal, logits, -jnp.inf))
    # over all rows at once, as below, and from the same logits
    logits = network.outputs_first(seen_by(network, state))
    if legal is not None:
        logits = jnp.where(jnp.moveaxis(legal, -1, 0), logits, -jnp.inf)
    return jnp.moveaxis(jax.nn.log_softmax(logits, axis=0), 0, -1)


def action_ratio(network: Network, rows: Rows, clip: float | None = None) -> Float[Array, "*batch"]:
    """ρ(s,a) = π(a|s) / μ(a|s) of the logged actions, at most `clip`."""
    ratio = chance_of_taken(network, rows) / rows.propensity
    return ratio if clip is None else jnp.minimum(ratio, clip)


def chance_of_taken(network: Network, rows: Rows) -> Float[Array, "*batch"]:
    """π(a|s) of the logged actions."""
    if network.biases[-1].shape[0] > FEW:
        chances = jnp.exp(log_policy(network, rows.state, rows.legal))
        return jnp.take_along_axis(chances, rows.action[..., None], axis=-1)[..., 0]
    # the same, one action at a time over all rows: much faster on a CPU than a softmax over few numbers for each row
    logits = list(network.outputs_first(seen_by(network, rows.state)))
    if rows.legal is not None:
        logits = [jnp.where(rows.legal[..., a], logit, -jnp.inf) for a, logit in enumerate(logits)]
    most = jax.lax.stop_gradient(reduce(jnp.maximum, logits))
    weights = [jnp.exp(logit - most) for logit in logits]
    taken = reduce(jnp.add, [jnp.where(rows.action == a, weight, 0.0) for a, weight in enumerate(weights)])
    return taken / reduce(jnp.add, weights)


def expectation(
    values: Float[Array, "*batch actions"], log_probabilities: Float[Array, "*batch actions"]
) -> Float[Array, "*batch"]:
    """Σ_a π(a|s) Q(s,a), from log π."""
    return jnp.sum(jnp.exp(log_probabilities) * values, axis=-1)


def entropy(log_probabilities: Float[Array, "*batch actions"]) -> Float[Array, "*batch"]:
    """H(π(·|s)) = −Σ_a π(a|s) log π(a|s); actions without probability add nothing."""
    finite = jnp.where(jnp.isfinite(log_probabilities), log_probabilities, 0.0)
    return -jnp.sum(jnp.exp(log_probabilities) * finite, axis=-1)
