"""Action values Q̂(s,·): a network, or several of them side by side, and their regression on one-step targets.

Q̂ is in units of the log's returns (`DeviceLog.scale`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from statewise.data.device import DeviceLog, Rows
from statewise.ops.keys import key_for
from statewise.ops.networks import Network, initial_network, seen_by
from statewise.parts.learned import adam, start
from statewise.parts.tracked import Tracked, descend_tracked


@dataclass(frozen=True)
class QNetwork:
    """Settings of the action values."""

    hidden: tuple[int, ...] = (64, 64)  # layers of Q
    learning_rate: float = 1e-3  # step size of Adam
    decay: bool = True  # the learning rate falls to 0 over the run, so that the last values have settled
    batch: int = 500  # rows in each step
    steps: int = 10  # steps before each update of the policy
    target_rate: float = 0.01  # how fast the target networks follow


class Transitions(eqx.Module):
    """Decisions, and what is known about the states they led to."""

    rows: Rows
    next_legal: Bool[Array, "*batch actions"] | None  # None: every action is legal in every state
    known: Float[Array, "*batch"]  # 0 where it is unknown what followed


def optimiser(settings: QNetwork, updates: int) -> optax.GradientTransformation:
    return adam(settings.learning_rate, updates * settings.steps if settings.decay else None)


def initial(
    settings: QNetwork, features: int, actions: int, updates: int, key: Key[Array, ""], count: int = 1
) -> Tracked:
    """`count` networks along a leading axis, each with its own start."""
    sizes = (features, *settings.hidden, actions)
    networks = jax.vmap(lambda one: initial_network(one, sizes))(jax.random.split(key, count))
    return Tracked(start(networks, optimiser(settings, updates)), networks)


def values(networks: Network, states: Float[Array, "*batch features"]) -> Float[Array, "count *batch actions"]:
    """Every network's Q̂(s,·)."""
    return jax.vmap(lambda network: network(seen_by(network, states)))(networks)


def single(networks: Network) -> Network:
    """The first network by itself."""
    return jax.tree.map(lambda leaf: leaf[0], networks)


def at(values: Float[Array, "*batch actions"], action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Q(s,a) of one action per row."""
    return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]


def only_legal(
    values: Float[Array, "*batch actions"], legal: Bool[Array, "*batch actions"] | None
) -> Float[Array, "*batch actions"]:
    """−∞ for illegal actions."""
    return values if legal is None else jnp.where(legal, values, -jnp.inf)


def transitions(log: DeviceLog, rows: Rows) -> Transitions:
    """Rows with the legal actions of the states they led to, which are those of the episode's next row.

    Where an episode with legal masks was truncated, those of its final state are not logged: `known` is 0.
    """
    if rows.legal is None:
        return Transitions(rows, None, rows.usable)
    following = log.rows.take(jnp.minimum(rows.index + 1, log.rows.table.shape[0] - 1))
    return Transitions(rows, following.legal, rows.usable * (1 - rows.last * rows.onward))


def fit(
    settings: QNetwork,
    tracked: Tracked,
    log: DeviceLog,
    discount: float,
    next_value: Callable[[Network, Network, Transitions], Float[Array, " batch"]],
    updates: int,
    key: Key[Array, ""],
    penalty: Callable[[Float[Array, "batch actions"], Transitions], Float[Array, ""]] | None = None,
) -> tuple[Tracked, Float[Array, ""]]:
    """`settings.steps` steps of ℓ = mean (r + γ V(s') − Q̂(s,a))² + penalty(Q̂); also returns the last loss.

    `next_value(networks, targets, transitions)` is V(s'); it carries no gradient and is 0 after a terminal step.
    """
    drawn = transitions(log, log.draw(key_for(key, "rows"), settings.steps * settings.batch))
    batches = jax.tree.map(lambda leaf: leaf.reshape(settings.steps, settings.batch, *leaf.shape[1:]), drawn)
    gamma = jnp.minimum(log.discount, discount)

    def step(tracked: Tracked, batch: Transitions) -> tuple[Tracked, Float[Array, ""]]:
        rows = batch.rows
        onward = jnp.where(rows.onward > 0, next_value(tracked.network, tracked.target, batch), 0.0)
        target = jax.lax.stop_gradient(rows.reward / log.scale + gamma * onward)

        def loss(networks: Network) -> Float[Array, ""]:
            def loss_of(predicted: Float[Array, "batch actions"]) -> Float[Array, ""]:
                errors = target - at(predicted, rows.action)
                result = jnp.sum(batch.known * errors**2) / jnp.maximum(jnp.sum(batch.known), 1.0)
                return result if penalty is None else result + penalty(predicted, batch)

            return jnp.sum(jax.vmap(loss_of)(values(networks, rows.state)))

        return descend_tracked(tracked, optimiser(settings, updates), loss, settings.target_rate)

    tracked, losses = jax.lax.scan(step, tracked, batches)
    return tracked, losses[-1]
