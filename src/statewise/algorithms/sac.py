"""SAC for discrete actions (Haarnoja et al. 2018; Christodoulou 2019), learning from a log alone.

Q(s,a) = r + γ V(s'),   V(s) = Σ_a π(a|s) [min_i Q̄_i(s,a) − τ log π(a|s)],   π ascends E_{s~d^μ}[V(s)]

Expectations over actions are summed, not sampled. There are no importance weights: actions that the log
does not contain are valued by the critics alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from statewise.algorithms import Algorithm
from statewise.data.dataset import Dataset
from statewise.data.device import DeviceLog, device_log
from statewise.data.discount import discount_of
from statewise.ops.keys import key_for
from statewise.ops.networks import Network, initial_network
from statewise.parts import q_network, temperature
from statewise.parts.learned import Learned, adam, descend_once, start
from statewise.parts.metrics import INITIAL_STATES, Metrics, of_learner
from statewise.parts.policy import entropy, expectation, log_policy
from statewise.parts.q_network import QNetwork, Transitions
from statewise.parts.temperature import Temperature, Tuned
from statewise.parts.tracked import Tracked
from statewise.parts.view import View, scale_of_returns, view_of
from statewise.policies.network import Policy

CRITICS = 2


@dataclass(frozen=True)
class SAC:
    """Settings. Values bootstrap with min(discount, value_discount): undiscounted ones may be infinite."""

    discount: float | None = None  # None: taken from the log, which gives 1 where episodes terminate
    value_discount: float = 0.99  # values bootstrap with at most this
    critic: QNetwork = field(default_factory=QNetwork)  # settings of Q
    temperature: Temperature = field(default_factory=Temperature)  # settings of τ
    hidden: tuple[int, ...] = (32, 32)  # layers of the policy
    learning_rate: float = 3e-4  # step size of the policy
    decay: bool = True  # the learning rate falls to 0 over the run, so that the last policy has settled
    batch: int = 1000  # rows in each update of the policy
    updates: int = 1000  # updates of the policy


class State(eqx.Module):
    """Everything that changes from update to update."""

    critic: Tracked
    actor: Learned
    temperature: Tuned


def prepare(config: SAC, dataset: Dataset, key: Key[Array, ""]) -> tuple[DeviceLog, View]:
    """Puts a scaled log on the device; it needs no propensities."""
    discount = discount_of(dataset, config.discount)
    dataset, view = view_of(dataset)
    return device_log(dataset, discount, scale_of_returns(dataset, discount), propensities=False), view


def init(config: SAC, log: DeviceLog, key: Key[Array, ""]) -> State:
    """Two critics, and a nearly uniform policy."""
    features, actions = log.rows.features, log.actions
    critics = q_network.initial(config.critic, features, actions, config.updates, key_for(key, "critic"), CRITICS)
    network = initial_network(key_for(key, "actor"), (features, *config.hidden, actions), last_scale=0.01)
    return State(critics, start(network, _optimiser(config)), temperature.initial(config.temperature))


def update(config: SAC, log: DeviceLog, state: State, key: Key[Array, ""]) -> tuple[State, Metrics]:
    """A few updates of the critics, then one of the policy."""
    policy, heat = state.actor.network, state.temperature.value

    # The soft value of the current policy, by the lesser critic
    def next_value(critics: Network, slow: Network, batch: Transitions) -> Float[Array, " batch"]:
        worst = q_network.values(slow, batch.rows.next_state).min(axis=0)
        return soft_value(worst, log_policy(policy, batch.rows.next_state, batch.next_legal), heat)

    critic_key = key_for(key, "critic")
    critics, loss = q_network.fit(
        config.critic, state.critic, log, config.value_discount, next_value, config.updates, critic_key
    )

    # Ascend that value on the log's states
    rows = log.draw(key_for(key, "actor"), config.batch)
    worst = q_network.values(critics.network, rows.state).min(axis=0)

    def actor_loss(network: Network) -> Float[Array, ""]:
        log_pi = log_policy(network, rows.state, rows.legal)
        return -jnp.sum(rows.live * soft_value(worst, log_pi, heat)) / jnp.sum(rows.live)

    learned, _ = descend_once(state.actor, _optimiser(config), actor_loss)

    # The temperature that keeps the target entropy
    log_pi = log_policy(learned.network, rows.state, rows.legal)
    spread = jnp.sum(rows.live * entropy(log_pi)) / jnp.sum(rows.live)
    highest = jnp.sum(rows.live * jnp.log(jnp.sum(jnp.isfinite(log_pi), axis=-1))) / jnp.sum(rows.live)
    tuned = temperature.tune(config.temperature, state.temperature, spread, highest)

    first = log.draw_first(key_for(key, "metrics"), INITIAL_STATES)
    worth = expectation(
        q_network.values(critics.network, first.state).min(axis=0),
        log_policy(learned.network, first.state, first.legal),
    )
    value = log.scale * jnp.mean(worth)
    return State(critics, learned, tuned), of_learner(value, loss, spread, critic=critics, actor=(learned, tuned))


def policy(config: SAC, view: View, state: State) -> Policy:
    """The actor, as it acts in the world."""
    return view.policy(state.actor.network)


def soft_value(
    values: Float[Array, "*batch actions"], log_pi: Float[Array, "*batch actions"], heat: Float[Array, ""]
) -> Float[Array, "*batch"]:
    """Σ_a π(a|s) [Q(s,a) − τ log π(a|s)], from log π; actions without probability add nothing."""
    return expectation(values, log_pi) + heat * entropy(log_pi)


def _optimiser(config: SAC) -> optax.GradientTransformation:
    return adam(config.learning_rate, config.updates if config.decay else None)


ALGORITHM = Algorithm(SAC, prepare, init, update, policy)
