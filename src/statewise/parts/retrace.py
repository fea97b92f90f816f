"""ACER's critic: Q̂ regressed on Retrace's returns of whole episodes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from statewise.data.device import DeviceLog
from statewise.ops.networks import Network
from statewise.ops.returns import retrace_returns
from statewise.parts import q_network
from statewise.parts.policy import action_ratio, expectation, log_policy
from statewise.parts.q_network import QNetwork, Transitions
from statewise.parts.tracked import Tracked, descend_tracked


def draw(
    log: DeviceLog, key: Key[Array, ""], count: int, times: int = 1
) -> tuple[Transitions, Bool[Array, "episodes horizon"]]:
    """`times` batches of whole episodes, of about `count` rows each, in one draw; and which entries are not padding."""
    rows, valid = log.draw_episodes(key, times * max(1, round(count / log.horizon)))
    return q_network.transitions(log, rows), valid


def returns(
    networks: Network, policy: Network, batch: Transitions, log: DeviceLog, discount: float, trace: float
) -> Float[Array, "episodes steps"]:
    """Qʳᵉᵗ of every row of whole episodes, in units of the log's returns."""
    rows = batch.rows
    here = q_network.at(q_network.values(networks, rows.state)[0], rows.action)
    traces = trace * action_ratio(policy, rows, clip=1.0)
    following = log_policy(policy, rows.next_state, batch.next_legal)
    onward = jnp.where(rows.onward > 0, expectation(q_network.values(networks, rows.next_state)[0], following), 0.0)
    end = jnp.ones((here.shape[0], 1))

    def shifted(values: Float[Array, "episodes steps"]) -> Float[Array, "episodes steps"]:
        return jnp.concatenate([values[:, 1:], end], axis=1)

    # what follows an unknown row is unknown too: the row before it bootstraps from the state it led to
    ends = (rows.last > 0) | (shifted(batch.known) == 0)
    gamma = jnp.minimum(log.discount, discount)
    backwards = jax.vmap(retrace_returns, in_axes=(0, 0, 0, 0, 0, None))
    return backwards(rows.reward / log.scale, onward, shifted(here), shifted(traces), ends, gamma)


def fit(
    settings: QNetwork,
    tracked: Tracked,
    policy: Network,
    log: DeviceLog,
    discount: float,
    trace: float,
    updates: int,
    key: Key[Array, ""],
) -> tuple[Tracked, Float[Array, ""]]:
    """`settings.steps` steps of ℓ = mean (Qʳᵉᵗ − Q̂(s,a))² for a fixed policy; also returns the last loss."""
    drawn = draw(log, key, settings.batch, settings.steps)
    batches = jax.tree.map(lambda leaf: leaf.reshape(settings.steps, -1, *leaf.shape[1:]), drawn)

    def step(tracked: Tracked, drawn: tuple[Transitions, Array]) -> tuple[Tracked, Float[Array, ""]]:
        batch, valid = drawn
        counts = batch.known * valid
        target = jax.lax.stop_gradient(returns(tracked.target, policy, batch, log, discount, trace))

        def loss(networks: Network) -> Float[Array, ""]:
            errors = target - q_network.at(q_network.values(networks, batch.rows.state)[0], batch.rows.action)
            return jnp.sum(counts * errors**2) / jnp.maximum(jnp.sum(counts), 1.0)

        return descend_tracked(tracked, q_network.optimiser(settings, updates), loss, settings.target_rate)

    tracked, losses = jax.lax.scan(step, tracked, batches)
    return tracked, losses[-1]
