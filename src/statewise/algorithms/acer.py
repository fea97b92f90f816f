"""ACER: actor–critic with experience replay (Wang et al. 2017), where all experience is the log.

g = min(c, ρ) ∇log π(a|s) [Qʳᵉᵗ(s,a) − V(s)] + Σ_b [1 − c/ρ(b)]₊ π(b|s) ∇log π(b|s) [Q(s,b) − V(s)],   V = Σ_b π Q

Gradients are taken in the logits of each state, and a trust region keeps the policy close to a slow copy of itself.
With `state_ratio`, states are weighted by w(s) = d^π(s)/d^μ(s), as in OPPOSD. The log must hold all of μ(·|s).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from statewise.algorithms import Algorithm
from statewise.data.clock import limit_of
from statewise.data.dataset import Dataset
from statewise.data.device import DeviceLog, device_log
from statewise.data.discount import discount_of
from statewise.ops.keys import key_for
from statewise.ops.networks import Network, seen_by
from statewise.parts import actor, q_network, ratio, retrace
from statewise.parts.actor import Actor
from statewise.parts.chain import Kind, chain_of
from statewise.parts.learned import Learned, descend_once, start
from statewise.parts.metrics import INITIAL_STATES, Metrics, of_learner
from statewise.parts.policy import entropy, expectation, log_policy
from statewise.parts.q_network import QNetwork
from statewise.parts.ratio import COPTD, ClosedForm, RatioNetwork
from statewise.parts.tracked import Tracked, follow
from statewise.parts.trust_region import project
from statewise.parts.view import View, scale_of_returns, view_of
from statewise.policies.network import Policy


@dataclass(frozen=True)
class ACER:
    """Settings. Values bootstrap with min(discount, value_discount): undiscounted ones may be infinite."""

    discount: float | None = None  # None: taken from the log, which gives 1 where episodes terminate
    value_discount: float = 0.99  # values bootstrap with at most this
    critic: QNetwork = field(default_factory=lambda: QNetwork(hidden=(128, 128), batch=2000))  # settings of Q
    trace: float = 1.0  # λ of Retrace
    truncation: float = 10.0  # c, the largest ρ of the first term
    trust: float | None = 1.0  # δ, the size of the trust region; None: no trust region
    average_rate: float = 0.01  # how fast the average policy follows the learned one
    entropy: float = 0.01  # weight of the policy's entropy, in units of the log's returns
    hidden: tuple[int, ...] = (32, 32)  # layers of the policy
    learning_rate: float = 1e-3  # step size of the policy
    decay: bool = True  # the learning rate falls to 0 over the run, so that the last policy has settled
    batch: int = 5000  # rows in each update of the policy
    clone_steps: int = 2000  # steps of imitating the log before the first update
    state_ratio: ClosedForm | RatioNetwork | COPTD | None = None  # how w(s) is estimated; None: states count equally
    updates: int = 500  # updates of the policy


class Prepared(eqx.Module):
    """The log as the learner draws from it."""

    log: DeviceLog
    behaviour: Float[Array, "steps actions"]  # μ(·|s) of every row
    ground: ratio.Ground | None
    chain: Kind = eqx.field(static=True)


class State(eqx.Module):
    """Everything that changes from update to update."""

    ratio: ratio.State | None
    critic: Tracked
    actor: Learned
    average: Network


def prepare(config: ACER, dataset: Dataset, key: Key[Array, ""]) -> tuple[Prepared, View]:
    """Puts a scaled log on the device."""
    if dataset.distributions is None:
        raise ValueError(
            "ACER needs the logged probability of every action, not only of the one taken: log whole distributions "
            "(columns propensity_0, propensity_1, …), or use another algorithm"
        )
    discount = discount_of(dataset, config.discount)
    limit = limit_of(dataset, discount)
    dataset, view = view_of(dataset)
    timed, ground = dataset, None
    if config.state_ratio is not None:
        timed, dataset = ratio.clocked(config.state_ratio, dataset, limit)
    chain = chain_of(timed, discount)
    if config.state_ratio is not None:
        ground = ratio.prepare(config.state_ratio, timed, chain, key_for(key, "features"))
    log = device_log(dataset, discount, scale_of_returns(dataset, discount))
    behaviour = jnp.asarray(dataset.distributions, jnp.float32)
    return Prepared(log, behaviour, ground, chain.kind), view


def init(config: ACER, data: Prepared, key: Key[Array, ""]) -> State:
    """The policy and its average start as the cloned behaviour."""
    features, log = data.log.rows.inputs(), data.log
    cloned = actor.clone(_actor(config), features, data.log.actions, log, key_for(key, "clone"))
    critic = q_network.initial(config.critic, features, data.log.actions, config.updates, key_for(key, "critic"))
    w = None
    if config.state_ratio is not None and data.ground is not None:
        inputs = log.rows.inputs(config.state_ratio.clock)
        w = ratio.initial(config.state_ratio, data.ground, inputs, key_for(key, "ratio"))
        w = ratio.warm(config.state_ratio, data.ground, w, cloned, log, data.chain, key_for(key, "warm ratio"))
    return State(w, critic, start(cloned, actor.optimiser(_actor(config), config.updates)), cloned)


def update(config: ACER, data: Prepared, state: State, key: Key[Array, ""]) -> tuple[State, Metrics]:
    """A few updates of the critic, then one of the policy."""
    policy, log = state.actor.network, data.log

    # The critic, on Retrace's returns
    gamma, trace = config.value_discount, config.trace
    critic, loss = retrace.fit(
        config.critic, state.critic, policy, log, gamma, trace, config.updates, key_for(key, "critic")
    )

    # The gradient at each state of some episodes, and the weight of the state
    batch, valid = retrace.draw(log, key_for(key, "actor"), config.batch)
    rows, weight = batch.rows, batch.known * valid * batch.rows.live
    returns = retrace.returns(critic.network, policy, batch, log, gamma, trace)
    w, effective = None, jnp.nan
    if config.state_ratio is not None and data.ground is not None and state.ratio is not None:
        ratio_key = key_for(key, "ratio")
        w = ratio.fit(config.state_ratio, data.ground, state.ratio, policy, log, data.chain, ratio_key)
        plain = weight * log.discount ** jnp.arange(log.horizon)[None, :]
        weight = plain * ratio.of_rows(data.ground, w, rows)
        effective = jnp.sum(weight) ** 2 / (jnp.sum(plain) * jnp.sum(weight**2 / jnp.where(plain > 0, plain, 1.0)))
    log_pi = log_policy(policy, rows.state, rows.legal)
    taken = jax.nn.one_hot(rows.action, data.log.actions)
    worth = q_network.values(critic.network, rows.state)[0]
    gradient = direction(log_pi, worth, data.behaviour[rows.index], taken, returns, config.truncation)
    spread = entropy(log_pi)
    finite = jnp.where(jnp.isfinite(log_pi), log_pi, 0.0)
    gradient = gradient - config.entropy * jnp.exp(log_pi) * (finite + spread[..., None])  # ∂H/∂logits
    if config.trust is not None:
        average = jnp.exp(log_policy(state.average, rows.state, rows.legal))
        gradient = project(gradient, jnp.exp(log_pi) - average, config.trust)

    # Ascend it; the average policy follows
    def actor_loss(network: Network) -> Float[Array, ""]:
        along = jnp.sum(gradient * network(seen_by(network, rows.state)), axis=-1)
        return -jnp.sum(weight * along) / jnp.sum(weight)

    learned, _ = descend_once(state.actor, actor.optimiser(_actor(config), config.updates), actor_loss)
    average = follow(learned.network, state.average, config.average_rate)

    first = log.draw_first(key_for(key, "metrics"), INITIAL_STATES)
    value = expectation(q_network.values(critic.network, first.state)[0], log_policy(policy, first.state, first.legal))
    mean_spread = jnp.sum(weight * spread) / jnp.sum(weight)
    metrics = of_learner(
        log.scale * jnp.mean(value), loss, mean_spread, ratio=w, critic=critic, actor=learned, ratio_ess=effective
    )
    return State(w, critic, learned, average), metrics


def policy(config: ACER, view: View, state: State) -> Policy:
    """The actor, as it acts in the world."""
    return view.policy(state.actor.network)


def direction(
    log_pi: Float[Array, "*batch actions"],
    values: Float[Array, "*batch actions"],
    behaviour: Float[Array, "*batch actions"],
    taken: Float[Array, "*batch actions"],
    returns: Float[Array, "*batch"],
    truncation: float,
) -> Float[Array, "*batch actions"]:
    """g in the logits of π, from log π: a truncated importance weight on the action taken, and a correction for all."""
    policy = jnp.exp(log_pi)
    value = jnp.sum(policy * values, axis=-1, keepdims=True)
    # min(c, ρ) of the action taken, and [1 − c/ρ]₊ π = [π − c μ]₊ of every action
    chance, logged = jnp.sum(policy * taken, axis=-1), jnp.sum(behaviour * taken, axis=-1)
    gains = taken * (jnp.minimum(truncation, chance / logged) * (returns - value[..., 0]))[..., None]
    gains = gains + jnp.maximum(policy - truncation * behaviour, 0.0) * (values - value)
    # Σ_b gain_b ∂log π(b)/∂logits
    return gains - policy * jnp.sum(gains, axis=-1, keepdims=True)


def _actor(config: ACER) -> Actor:
    return Actor(
        hidden=config.hidden,
        learning_rate=config.learning_rate,
        decay=config.decay,
        clone_steps=config.clone_steps,
    )


ALGORITHM = Algorithm(ACER, prepare, init, update, policy)
