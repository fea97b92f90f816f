"""Behaviour cloning: the policy that the log was written by, as well as the network can tell it.

π maximises E_{s,a~log}[log π(a|s)]
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from statewise.data.dataset import Dataset
from statewise.data.device import DeviceLog, device_log
from statewise.ops.keys import key_for
from statewise.ops.networks import Network, initial_network
from statewise.parts.actor import surprise
from statewise.parts.learned import Learned, adam, descend_once, start
from statewise.parts.metrics import Metrics, of_learner
from statewise.parts.policy import entropy, log_policy


@dataclass(frozen=True)
class BehaviourCloning:
    """Settings. Nothing is valued here: `discount` only says by which returns the result is to be judged."""

    discount: float = 0.98
    hidden: tuple[int, ...] = (32, 32)
    learning_rate: float = 1e-3
    decay: bool = True
    batch: int = 1000
    updates: int = 2000


class Prepared(eqx.Module):
    """The log as the learner draws from it."""

    log: DeviceLog
    actions: int = eqx.field(static=True)


class State(eqx.Module):
    """All that changes from update to update."""

    actor: Learned


def prepare(config: BehaviourCloning, dataset: Dataset, scale: float, key: Key[Array, ""]) -> Prepared:
    """Puts a scaled log on the device; it need not hold propensities."""
    return Prepared(device_log(dataset, config.discount, scale, propensities=False), dataset.action_count)


def init(config: BehaviourCloning, data: Prepared, key: Key[Array, ""]) -> State:
    """A nearly uniform policy."""
    sizes = (data.log.rows.features, *config.hidden, data.actions)
    return State(start(initial_network(key_for(key, "actor"), sizes, last_scale=0.01), _optimiser(config)))


def update(config: BehaviourCloning, data: Prepared, state: State, key: Key[Array, ""]) -> tuple[State, Metrics]:
    """One step up the likelihood of logged actions."""
    rows = data.log.draw(key_for(key, "actor"), config.batch)
    learned, loss = descend_once(state.actor, _optimiser(config), lambda network: surprise(network, rows))
    spread = jnp.mean(entropy(log_policy(learned.network, rows.state, rows.legal)))
    return State(learned), of_learner(jnp.asarray(jnp.nan), loss, spread, actor=learned)


def policy(config: BehaviourCloning, state: State) -> Network:
    return state.actor.network


def _optimiser(config: BehaviourCloning) -> optax.GradientTransformation:
    return adam(config.learning_rate, config.updates if config.decay else None)
