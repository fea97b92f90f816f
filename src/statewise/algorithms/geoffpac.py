"""Geoff-PAC: the off-policy actor–critic of a counterfactual objective (Zhang, Boehmer & Whiteson 2019), in batches.

∇J_γ̂ = E_{s~d^μ, a~μ}[ ρ(s,a) ∇log π(a|s) (m Q^π(s,a) + γ̂ c(s) U(s,a)) ],     J_γ̂ = Σ_s d_γ̂(s) V^π(s),  c = d_γ̂/d_μ

d_γ̂ is where the policy has led since it took over from the behaviour, 1/(1 − γ̂) steps ago on average: γ̂ = 0 is the
objective of Off-PAC and ACE, and γ̂ → 1 that of the policy's own states. m is the emphasis of interest c, U what a
decision adds by where it leads (`parts.counterfactual`), and c comes from discounted COP-TD.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from statewise.algorithms import Algorithm
from statewise.data.clock import limit_of, with_clock
from statewise.data.dataset import Dataset
from statewise.data.device import DeviceLog, device_log
from statewise.data.discount import discount_of
from statewise.ops.keys import key_for
from statewise.ops.networks import Least, Network
from statewise.parts import actor, counterfactual, critic, emphasis, ratio
from statewise.parts.actor import Actor
from statewise.parts.chain import Kind, chain_of
from statewise.parts.critic import Critic
from statewise.parts.emphasis import Emphasis
from statewise.parts.known_values import Gains
from statewise.parts.learned import Learned, start
from statewise.parts.metrics import Metrics, measure
from statewise.parts.policy import action_ratio
from statewise.parts.ratio import COPTD
from statewise.parts.tracked import Tracked
from statewise.parts.view import View, scale_of_returns, view_of
from statewise.policies.network import Policy


@dataclass(frozen=True)
class GeoffPAC:
    """Settings. `counterfactual`, the shares and the largest ρ are the paper's."""

    discount: float | None = None  # None: taken from the log, which gives 1 where episodes terminate
    counterfactual: float = 0.2  # γ̂, the discount of the counterfactual objective
    ratio: COPTD = field(default_factory=COPTD)  # settings of c; its `carry` is always γ̂
    emphasis: Emphasis = field(default_factory=lambda: Emphasis(share=0.7, clip=2.0))  # its share is λ⁽¹⁾
    ahead_share: float = 0.6  # λ⁽²⁾, of the emphasis that looks ahead
    critic: Critic = field(default_factory=Critic)  # settings of V̂; always a network: c U needs V̂ where rows lead
    actor: Actor = field(default_factory=Actor)  # settings of the policy
    scale_values: bool = True  # the critic works in units of the log's returns
    updates: int = 2000  # updates of the policy

    def __post_init__(self) -> None:
        if not 0 <= self.counterfactual < 1:
            raise ValueError(f"counterfactual: expected a number from 0 to below 1, got {self.counterfactual}")


class Prepared(eqx.Module):
    """The log as the learner draws from it."""

    log: DeviceLog
    ground: ratio.Ground
    chain: Kind = eqx.field(static=True)


class State(eqx.Module):
    """Everything that changes from update to update, and the cloned policy, which does not."""

    ratio: ratio.State
    critic: critic.Value
    actor: Learned
    clone: Network


def prepare(config: GeoffPAC, dataset: Dataset, key: Key[Array, ""]) -> tuple[Prepared, View]:
    """Puts a scaled log on the device. Its states count as they come, not by γᵗ."""
    discount = discount_of(dataset, config.discount)
    limit = limit_of(dataset, discount)
    dataset, view = view_of(dataset)
    timed, dataset = ratio.clocked(config.ratio, dataset, limit)
    chain = chain_of(timed, 1.0)
    ground = ratio.prepare(config.ratio, timed, chain, key_for(key, "features"))
    if limit is not None and config.critic.clock:
        dataset = with_clock(dataset, limit)
    scale = scale_of_returns(dataset, discount) if config.scale_values else 1.0
    log = device_log(dataset, discount, scale, critic.value_discount(config.critic, dataset, discount))
    return Prepared(log, ground, chain.kind), view


def init(config: GeoffPAC, data: Prepared, key: Key[Array, ""]) -> State:
    """Warm-start π on the logged actions, V̂ on the behaviour's returns, c on the cloned policy."""
    rows = data.log.rows
    cloned = actor.clone(config.actor, rows.inputs(), data.log.actions, data.log, key_for(key, "clone"))
    value = critic.initial(config.critic, rows.inputs(config.critic.clock), key_for(key, "critic"))
    value, _ = critic.fit(config.critic, value, None, data.log, config.critic.warm_steps, key_for(key, "warm critic"))
    c = ratio.initial(config.ratio, data.ground, rows.inputs(config.ratio.clock), key_for(key, "ratio"))
    if config.counterfactual > 0:
        c = ratio.warm(_ratio(config), data.ground, c, cloned, data.log, data.chain, key_for(key, "warm ratio"))
    return State(c, value, start(cloned, actor.optimiser(config.actor, config.updates)), cloned)


def update(config: GeoffPAC, data: Prepared, state: State, key: Key[Array, ""]) -> tuple[State, Metrics]:
    """One update of the policy."""
    policy, log = state.actor.network, data.log

    # c of the current policy; with γ̂ = 0 it is 1
    c = state.ratio
    if config.counterfactual > 0:
        c = ratio.fit(_ratio(config), data.ground, c, policy, log, data.chain, key_for(key, "ratio"))

    # Its value, by ρ-weighted regression on λ-returns
    value, loss = critic.fit(config.critic, state.critic, policy, log, config.critic.steps, key_for(key, "critic"))

    # A mini-batch, the emphasis of its rows, and Q − V̂
    batch = critic.draw(config.critic, policy, log, key_for(key, "actor"), config.actor.batch)
    assert isinstance(value, Tracked)  # simple logs are valued by a network here, too
    emphatic, led = weights(config, data, c, value.network, policy)
    weight = batch.weight * emphatic[batch.rows.index]
    advantage = critic.advantages(config.critic, value.network, batch, log, config.actor.baseline)
    assert not isinstance(advantage, Gains)

    # Where decisions lead, in units of the emphasis, which multiplies all
    if config.counterfactual > 0:
        advantage = advantage + batch.rows.live * led[batch.rows.index]

    # Ascend
    steps, anchor_key = config.updates, key_for(key, "anchor")
    learned, report = actor.ascend(
        config.actor, state.actor, state.clone, batch.rows, weight, advantage, steps, anchor_key
    )
    metrics = measure(batch, weight, value, loss, report, log, key_for(key, "metrics"), c, learned)
    return State(c, value, learned, state.clone), metrics


def weights(
    config: GeoffPAC, data: Prepared, c: ratio.State, value: Network | Least, policy: Network
) -> tuple[Float[Array, " steps"], Float[Array, " steps"]]:
    """m, and γ̂ c U / m, of every row of the log."""
    log, moves = data.log, data.ground.moves
    assert moves is not None
    rows = log.rows.take(jnp.arange(log.rows.table.shape[0]))
    if config.counterfactual == 0:
        return emphasis.of_log(config.emphasis, policy, log), jnp.zeros(rows.reward.shape)
    interest = ratio.of_rows(data.ground, c, rows)
    emphatic = emphasis.of_log(config.emphasis, policy, log, interest)
    here, there = (_values(value, log, states) for states in (rows.state, rows.next_state))
    counted = interest * moves.recorded
    mean = jnp.sum(counted * here) / jnp.sum(counted)
    rho = action_ratio(policy, rows, config.emphasis.clip)
    gamma_hat = config.counterfactual
    led = counterfactual.ahead(gamma_hat, config.ahead_share, rows, rho, here - mean, there - mean, log, moves)
    return emphatic, gamma_hat * interest * led / jnp.maximum(emphatic, 1e-8)


def policy(config: GeoffPAC, view: View, state: State) -> Policy:
    """The actor, as it acts in the world."""
    return view.policy(state.actor.network)


def _ratio(config: GeoffPAC) -> COPTD:
    return replace(config.ratio, carry=config.counterfactual)


def _values(value: Network | Least, log: DeviceLog, states: Float[Array, "steps features"]) -> Float[Array, " steps"]:
    return jnp.clip(critic.values(value, log.scale, states), *log.value_bounds)


ALGORITHM = Algorithm(GeoffPAC, prepare, init, update, policy)
