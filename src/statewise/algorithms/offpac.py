"""Off-PAC: the off-policy actor–critic (Degris, White & Sutton 2012) in batches: OPPOSD without the state ratio.

g(π) = E_{s~d^μ, a~μ}[ ρ(s,a) ∇log π(a|s) Q^π(s,a) ],     ρ = π/μ
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import equinox as eqx
from jaxtyping import Array, Key

from statewise.algorithms import Algorithm
from statewise.data.clock import limit_of, with_clock
from statewise.data.dataset import Dataset
from statewise.data.device import DeviceLog, device_log
from statewise.data.discount import discount_of
from statewise.ops.keys import key_for
from statewise.ops.networks import Network
from statewise.parts import actor, critic, emphasis
from statewise.parts.actor import Actor
from statewise.parts.critic import Critic
from statewise.parts.emphasis import Emphasis
from statewise.parts.learned import Learned, start
from statewise.parts.metrics import Metrics, measure
from statewise.parts.view import View, scale_of_returns, view_of
from statewise.policies.network import Policy


@dataclass(frozen=True)
class OffPAC:
    """Settings; with a discount below 1, `variant` draws rows by d̂_γ (`full`) or uniformly (`average`)."""

    discount: float | None = None  # None: taken from the log, which gives 1 where episodes terminate
    variant: Literal["full", "average"] = "average"  # how rows are drawn; see above
    critic: Critic = field(default_factory=Critic)  # settings of V̂
    actor: Actor = field(default_factory=Actor)  # settings of the policy
    scale_values: bool = True  # the critic works in units of the log's returns
    horizon: int | None = None  # pad terminated episodes to this length by repeating their last state
    smoothing: float = 0.0  # ε > 0: actions that the behaviour never takes are given this probability, and lead nowhere
    emphasis: Emphasis | None = None  # ACE: rows, drawn uniformly, are weighted by their emphasis
    updates: int = 2000  # updates of the policy


class Prepared(eqx.Module):
    """The log as the learner draws from it."""

    log: DeviceLog
    discounted: bool = eqx.field(static=True)  # the actor's rows are drawn by d̂_γ


class State(eqx.Module):
    """Everything that changes from update to update, and the cloned policy, which does not."""

    critic: critic.Value
    actor: Learned
    clone: Network


def prepare(config: OffPAC, dataset: Dataset, key: Key[Array, ""]) -> tuple[Prepared, View]:
    """Scales the log, smooths and pads it if the settings say so, and puts it on the device."""
    discount = discount_of(dataset, config.discount)
    limit = limit_of(dataset, discount)
    dataset, view = view_of(dataset, smoothing=config.smoothing, horizon=config.horizon)
    if limit is not None and config.critic.clock:
        dataset = with_clock(dataset, limit)
    scale = scale_of_returns(dataset, discount) if config.scale_values else 1.0
    onward, known = critic.value_discount(config.critic, dataset, discount), critic.known_states(config.critic, dataset)
    log = device_log(dataset, discount, scale, onward, known=known)
    discounted = discount < 1 and config.variant == "full" and config.emphasis is None
    return Prepared(log, discounted), view


def init(config: OffPAC, data: Prepared, key: Key[Array, ""]) -> State:
    """Warm-start π on the logged actions and V̂ on the behaviour's returns."""
    rows = data.log.rows
    cloned = actor.clone(config.actor, rows.inputs(), data.log.actions, data.log, key_for(key, "clone"))
    value = critic.initial(config.critic, rows.inputs(config.critic.clock), key_for(key, "critic"))
    value, _ = critic.fit(config.critic, value, None, data.log, config.critic.warm_steps, key_for(key, "warm critic"))
    return State(value, start(cloned, actor.optimiser(config.actor, config.updates)), cloned)


def update(config: OffPAC, data: Prepared, state: State, key: Key[Array, ""]) -> tuple[State, Metrics]:
    """One update of the policy."""
    policy, log = state.actor.network, data.log

    # The value of the current policy, by ρ-weighted regression on λ-returns
    value, loss = critic.fit(config.critic, state.critic, policy, log, config.critic.steps, key_for(key, "critic"))

    # A mini-batch, drawn by d̂_γ where the gradient needs it
    size = config.actor.batch
    batch = critic.draw(config.critic, policy, log, key_for(key, "actor"), size, discounted=data.discounted)

    # Q − V̂, which is 0 where the log has no support
    weight = batch.weight
    if config.emphasis is not None:
        weight = weight * emphasis.of_log(config.emphasis, policy, log)[batch.rows.index]
    advantage = critic.advantages(config.critic, value.network, batch, log, config.actor.baseline)

    # Ascend
    steps, anchor_key = config.updates, key_for(key, "anchor")
    learned, report = actor.ascend(
        config.actor, state.actor, state.clone, batch.rows, weight, advantage, steps, anchor_key
    )
    metrics = measure(batch, weight, value, loss, report, log, key_for(key, "metrics"), (), learned)
    return State(value, learned, state.clone), metrics


def policy(config: OffPAC, view: View, state: State) -> Policy:
    """The actor, as it acts in the world."""
    return view.policy(state.actor.network)


ALGORITHM = Algorithm(OffPAC, prepare, init, update, policy)
