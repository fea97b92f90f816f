"""The actor: one ascent step along the off-policy policy gradient, and its warm start by cloning."""

from __future__ import annotations

from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from statewise.data.device import DeviceLog, Rows
from statewise.ops.networks import Network, initial_network
from statewise.parts import anchor
from statewise.parts.anchor import Anchor
from statewise.parts.known_values import Gains
from statewise.parts.learned import Learned, adam, descend, start
from statewise.parts.policy import action_ratio, entropy, expectation, log_policy


@dataclass(frozen=True)
class Actor:
    """Settings of the actor.

    With `relative`, advantages are divided by their deviation, so that entropy and anchor have the same weight against
    them in any unit of reward; without it both are absolute, as in the paper.
    """

    hidden: tuple[int, ...] = (32, 32)  # layers of the policy
    features: tuple[int, ...] | None = None  # columns that the policy may see (None: all); critic and ratio see all
    learning_rate: float = 3e-4  # step size of Adam
    decay: bool = True  # the learning rate falls to 0 over the run, so that the last policy has settled
    batch: int = 5000  # rows in each update
    baseline: bool = True  # subtract V̂ from the returns
    entropy: float = 0.01  # weight of the policy's entropy
    sure_steps: float = 10.0  # where every action's value is known, steps are this many times as long
    sure_entropy: float = 0.2  # where every action's value is known, entropy begins with this weight
    relative: bool = True  # divide advantages by their deviation; see above
    anchor: Anchor = field(default_factory=Anchor)  # settings of what keeps the policy near the log's
    clip: float | None = None  # the largest ρ
    clone_steps: int = 2000  # steps of imitating the log before the first update
    clone_rate: float = 1e-3  # step size while imitating
    clone_batch: int = 1000  # rows in each step of imitating


class Report(eqx.Module):
    """Statistics of one update of the actor."""

    entropy: Float[Array, ""]
    advantage_deviation: Float[Array, ""]
    anchor: Float[Array, ""]
    gradient_norm: Float[Array, ""]


def optimiser(settings: Actor, updates: int) -> optax.GradientTransformation:
    return adam(settings.learning_rate, updates if settings.decay else None)


def clone(settings: Actor, features: int, actions: int, log: DeviceLog, key: Key[Array, ""]) -> Network:
    """Maximises the log-likelihood of the logged actions, starting from a nearly uniform policy."""
    start_key, rows_key = jax.random.split(key)
    network = seeing(settings, initial_network(start_key, (features, *settings.hidden, actions), last_scale=0.01))
    keys = jax.random.split(rows_key, settings.clone_steps)
    rate = optax.adam(settings.clone_rate)

    def loss(network: Network, key: Key[Array, ""]) -> Float[Array, ""]:
        return surprise(seeing(settings, network), log.draw(key, settings.clone_batch))

    return descend(start(network, rate), rate, loss, keys)[0].network


def seeing(settings: Actor, network: Network) -> Network:
    """The network, blind to all columns but `features`: the others' weights are 0, and so are their gradients."""
    if settings.features is None:
        return network
    count = network.weights[0].shape[0]
    if not all(0 <= column < count for column in settings.features):
        raise ValueError(f"actor.features: expected columns from 0 to {count - 1}, got {list(settings.features)}")
    seen = jnp.zeros((count, 1)).at[jnp.asarray(settings.features, jnp.int32)].set(1.0)
    return Network((network.weights[0] * seen, *network.weights[1:]), network.biases)


def surprise(network: Network, rows: Rows) -> Float[Array, ""]:
    """−mean log π(a|s) of the logged actions."""
    log_pi = log_policy(network, rows.state, rows.legal)
    taken = jnp.take_along_axis(log_pi, rows.action[:, None], axis=1)[:, 0]
    return -jnp.sum(rows.live * taken) / jnp.sum(rows.live)


def ascend(
    settings: Actor,
    learned: Learned,
    cloned: Network,
    rows: Rows,
    weight: Float[Array, "*batch"],
    advantage: Float[Array, "*batch"] | Gains,
    updates: int,
    key: Key[Array, ""],
    brake: Float[Array, ""] | None = None,
) -> tuple[Learned, Report]:
    """One of `updates` steps along E[w ρ ∇log π · A] = E[w ∇ρ · A]; `weight` is w, up to its scale.

    `brake`, from 0 to 1, shortens the step. Where A is known of all actions, along E[w Σ_a ∇π(a|s) A(s,a)], and without
    anchor or brake: such values are cautious where the log has little to say, and few states or single decisions leave
    no others to drift in.
    """
    every_action = isinstance(advantage, Gains)
    if isinstance(advantage, Gains):
        state, legal, gain, weight = advantage.state, advantage.legal, advantage.gain, advantage.weights(weight)
    else:
        state, legal, gain = rows.state, rows.legal, advantage
    weight = weight / jnp.mean(weight)
    deviation = jnp.sqrt(jnp.mean((weight[..., None] if every_action else weight) * gain**2))
    if settings.relative:
        gain = gain / jnp.maximum(deviation, 1e-8)
    bonus = _falling_entropy(settings, learned, updates) if every_action else settings.entropy

    def loss(policy: Network) -> tuple[Float[Array, ""], tuple[Float[Array, ""], Float[Array, ""]]]:
        policy = seeing(settings, policy)
        log_pi = log_policy(policy, state, legal)
        if every_action:
            earned = jnp.mean(weight * expectation(gain, log_pi))
        else:
            earned = jnp.mean(weight * action_ratio(policy, rows, settings.clip) * gain)
        spread = jnp.mean(weight * entropy(log_pi))
        pull = jnp.zeros(())
        if settings.anchor.weight > 0 and not every_action:
            pull = anchor.penalty(settings.anchor, policy, cloned, rows, key)
        return -earned - bonus * spread + settings.anchor.weight * pull, (spread, pull)

    gradient, (spread, pull) = jax.grad(loss, has_aux=True)(learned.network)
    changes, moments = optimiser(settings, updates).update(gradient, learned.optimiser)
    length = settings.sure_steps if every_action else brake
    if length is not None:
        changes = jax.tree.map(lambda change: length * change, changes)
    network = optax.apply_updates(learned.network, changes)  # pyright: ignore[reportArgumentType]
    report = Report(spread, deviation, pull, optax.tree.norm(gradient))
    return Learned(network, moments), report  # pyright: ignore[reportArgumentType]


def _falling_entropy(settings: Actor, learned: Learned, updates: int) -> Float[Array, ""]:
    """A softmax hardly moves where it is certain, right or wrong: it should not become so before it has learned."""
    done = learned.optimiser[0].count / updates  # pyright: ignore[reportIndexIssue, reportAttributeAccessIssue]
    return settings.entropy + jnp.maximum(1 - done, 0.0) * (settings.sure_entropy - settings.entropy)
