"""Behaviour cloning: the policy that wrote the log, as well as the network can represent it.

π maximises E_{s,a~log}[log π(a|s)]
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from statewise.algorithms import Algorithm
from statewise.data.dataset import Dataset
from statewise.data.device import DeviceLog, device_log
from statewise.data.discount import discount_of
from statewise.ops.keys import key_for
from statewise.ops.networks import initial_network
from statewise.parts.actor import surprise
from statewise.parts.learned import Learned, adam, descend_once, start
from statewise.parts.metrics import Metrics, of_learner
from statewise.parts.policy import entropy, log_policy
from statewise.parts.view import View, scale_of_returns, view_of
from statewise.policies.network import Policy


@dataclass(frozen=True)
class BehaviourCloning:
    """Settings. Cloning itself needs no `discount`: it only says by which returns to evaluate the result."""

    discount: float | None = None  # None: taken from the log, which gives 1 where episodes terminate
    hidden: tuple[int, ...] = (32, 32)  # layers of the policy
    learning_rate: float = 1e-3  # step size of Adam
    decay: bool = True  # the learning rate falls to 0 over the run, so that the last policy has settled
    batch: int = 1000  # rows in each update
    updates: int = 2000  # updates of the policy


class State(eqx.Module):
    """Everything that changes from update to update."""

    actor: Learned


def prepare(config: BehaviourCloning, dataset: Dataset, key: Key[Array, ""]) -> tuple[DeviceLog, View]:
    """Puts a scaled log on the device; it needs no propensities."""
    discount = discount_of(dataset, config.discount)
    dataset, view = view_of(dataset)
    return device_log(dataset, discount, scale_of_returns(dataset, discount), propensities=False), view


def init(config: BehaviourCloning, log: DeviceLog, key: Key[Array, ""]) -> State:
    """A nearly uniform policy."""
    sizes = (log.rows.features, *config.hidden, log.actions)
    return State(start(initial_network(key_for(key, "actor"), sizes, last_scale=0.01), _optimiser(config)))


def update(config: BehaviourCloning, log: DeviceLog, state: State, key: Key[Array, ""]) -> tuple[State, Metrics]:
    """One step up the likelihood of the logged actions."""
    rows = log.draw(key_for(key, "actor"), config.batch)
    learned, loss = descend_once(state.actor, _optimiser(config), lambda network: surprise(network, rows))
    spread = jnp.mean(entropy(log_policy(learned.network, rows.state, rows.legal)))
    return State(learned), of_learner(jnp.asarray(jnp.nan), loss, spread, actor=learned)


def policy(config: BehaviourCloning, view: View, state: State) -> Policy:
    """The clone, as it acts in the world."""
    return view.policy(state.actor.network)


def _optimiser(config: BehaviourCloning) -> optax.GradientTransformation:
    return adam(config.learning_rate, config.updates if config.decay else None)


ALGORITHM = Algorithm(BehaviourCloning, prepare, init, update, policy)
