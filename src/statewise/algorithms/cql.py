"""CQL for discrete actions (Kumar et al. 2020): Q-learning that keeps down the values of actions that the log lacks.

ℓ = mean (r + γ Q̄(s', argmax_b Q(s',b)) − Q(s,a))² + α · mean [log Σ_b exp Q(s,b) − Q(s,a)]

The policy is softmax(Q/τ) with Q in units of the log's returns: nearly greedy, except among actions whose
values differ by less than τ, and every action keeps some probability. As a network it is Q with its last layer divided
by τ.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from statewise.algorithms import Algorithm
from statewise.data.dataset import Dataset
from statewise.data.device import DeviceLog, device_log
from statewise.data.discount import discount_of
from statewise.ops.keys import key_for
from statewise.ops.networks import Network
from statewise.parts import q_network
from statewise.parts.metrics import INITIAL_STATES, Metrics, of_learner
from statewise.parts.policy import entropy, expectation, log_policy
from statewise.parts.q_network import QNetwork, Transitions
from statewise.parts.tracked import Tracked
from statewise.parts.view import View, scale_of_returns, view_of
from statewise.policies.network import Policy


@dataclass(frozen=True)
class CQL:
    """Settings; `conservatism` is α, and 0 gives plain double Q-learning.

    Values bootstrap with min(discount, value_discount): undiscounted ones may be infinite.
    """

    discount: float | None = None  # None: taken from the log, which gives 1 where episodes terminate
    value_discount: float = 0.99  # values bootstrap with at most this
    critic: QNetwork = field(default_factory=lambda: QNetwork(hidden=(32, 32), learning_rate=3e-4))  # settings of Q
    conservatism: float = 0.1  # α; 0 gives plain double Q-learning
    temperature: float = 0.005  # τ of the softmax policy over Q, in units of the log's returns
    updates: int = 1000  # updates of the policy


class State(eqx.Module):
    """Everything that changes from update to update."""

    critic: Tracked


def prepare(config: CQL, dataset: Dataset, key: Key[Array, ""]) -> tuple[DeviceLog, View]:
    """Puts a scaled log on the device; it needs no propensities."""
    if config.temperature <= 0:
        raise ValueError(f"temperature: expected a number above 0, got {config.temperature}")
    discount = discount_of(dataset, config.discount)
    dataset, view = view_of(dataset)
    return device_log(dataset, discount, scale_of_returns(dataset, discount), propensities=False), view


def init(config: CQL, log: DeviceLog, key: Key[Array, ""]) -> State:
    """One Q network and its slow copy."""
    features = log.rows.features
    return State(q_network.initial(config.critic, features, log.actions, config.updates, key_for(key, "critic")))


def update(config: CQL, log: DeviceLog, state: State, key: Key[Array, ""]) -> tuple[State, Metrics]:
    """A few steps of the Q network, from which the policy follows."""

    def next_value(networks: Network, slow: Network, batch: Transitions) -> Float[Array, " batch"]:
        fast = q_network.only_legal(q_network.values(networks, batch.rows.next_state)[0], batch.next_legal)
        return q_network.at(q_network.values(slow, batch.rows.next_state)[0], jnp.argmax(fast, axis=-1))

    def penalty(values: Float[Array, "batch actions"], batch: Transitions) -> Float[Array, ""]:
        rows = batch.rows
        gaps = overestimates(q_network.only_legal(values, rows.legal), q_network.at(values, rows.action))
        return config.conservatism * jnp.sum(rows.live * gaps) / jnp.maximum(jnp.sum(rows.live), 1.0)

    critic_key = key_for(key, "critic")
    critic, loss = q_network.fit(
        config.critic, state.critic, log, config.value_discount, next_value, config.updates, critic_key, penalty
    )
    first = log.draw_first(key_for(key, "metrics"), INITIAL_STATES)
    state = State(critic)
    log_pi = log_policy(acting(config, state), first.state, first.legal)
    value = log.scale * jnp.mean(expectation(q_network.values(critic.network, first.state)[0], log_pi))
    return state, of_learner(value, loss, jnp.mean(entropy(log_pi)), critic=critic)


def policy(config: CQL, view: View, state: State) -> Policy:
    """softmax(Q/τ), as it acts in the world."""
    return view.policy(acting(config, state))


def acting(config: CQL, state: State) -> Network:
    """softmax(Q/τ) as a network of logits."""
    network = q_network.single(state.critic.network)
    weights = (*network.weights[:-1], network.weights[-1] / config.temperature)
    return Network(weights, (*network.biases[:-1], network.biases[-1] / config.temperature))


def overestimates(values: Float[Array, "*batch actions"], logged: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """log Σ_b exp Q(s,b) − Q(s,a), which is high where other actions than the logged one are valued more."""
    return jax.nn.logsumexp(values, axis=-1) - logged


ALGORITHM = Algorithm(CQL, prepare, init, update, policy)
