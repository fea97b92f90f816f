"""OPPOSD: off-policy policy optimisation with state distribution correction (Liu et al., UAI 2019, Algorithm 1).

∇R(π) = E_{s~d^μ, a~μ}[ w(s) ρ(s,a) ∇log π(a|s) Q^π(s,a) ],     w = d^π/d^μ,  ρ = π/μ
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
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
from statewise.parts import actor, critic, ratio
from statewise.parts.actor import Actor
from statewise.parts.chain import Kind, chain_of
from statewise.parts.critic import Critic
from statewise.parts.learned import Learned, start
from statewise.parts.metrics import Metrics, measure
from statewise.parts.ratio import COPTD, ClosedForm, RatioNetwork
from statewise.parts.view import View, scale_of_returns, view_of
from statewise.policies.network import Policy


@dataclass(frozen=True)
class OPPOSD:
    """Settings. `variant` is how a discount below 1 enters, as compared in the paper's appendix:

    - `full`: w of the discounted distributions, rows drawn by d̂_γ; this is the exact gradient;
    - `discounted-ratio`: w of the discounted distributions, rows drawn uniformly, so that late rows teach as much as
      early ones; the default, since on HIV it learns more from the same log;
    - `average`: w of the average-reward case, rows drawn uniformly.
    """

    discount: float | None = None  # None: taken from the log, which gives 1 where episodes terminate
    variant: Literal["full", "discounted-ratio", "average"] = "discounted-ratio"  # see above
    ratio: ClosedForm | RatioNetwork | COPTD = field(default_factory=ClosedForm)  # how w(s) is estimated
    critic: Critic = field(default_factory=Critic)  # settings of V̂
    actor: Actor = field(default_factory=Actor)  # settings of the policy
    scale_values: bool = True  # the critic works in units of the log's returns
    horizon: int | None = None  # pad terminated episodes to this length by repeating their last state
    smoothing: float = 0.0  # ε > 0: actions that the behaviour never takes are given this probability, and lead nowhere
    weigh_critic: bool = False  # the critic's errors are weighted by w(s) too
    least_share: float = 0.2  # steps grow shorter once wρ has an effective share of the rows below this; 0: never
    updates: int = 2000  # updates of the policy


class Prepared(eqx.Module):
    """The log as the learner draws from it."""

    log: DeviceLog
    ground: ratio.Ground
    chain: Kind = eqx.field(static=True)
    discounted: bool = eqx.field(static=True)  # the actor's rows are drawn by d̂_γ


class State(eqx.Module):
    """Everything that changes from update to update, and the cloned policy, which does not."""

    ratio: ratio.State
    critic: critic.Value
    actor: Learned
    clone: Network


def prepare(config: OPPOSD, dataset: Dataset, key: Key[Array, ""]) -> tuple[Prepared, View]:
    """Scales the log, smooths and pads it if the settings say so, and puts it on the device."""
    discount = discount_of(dataset, config.discount)
    limit = limit_of(dataset, discount)
    dataset, view = view_of(dataset, smoothing=config.smoothing, horizon=config.horizon)
    timed, dataset = ratio.clocked(config.ratio, dataset, limit)
    chain = chain_of(timed, 1.0 if config.variant == "average" else discount)
    ground = ratio.prepare(config.ratio, timed, chain, key_for(key, "features"))
    if limit is not None and config.critic.clock:
        dataset = with_clock(dataset, limit)
    scale = scale_of_returns(dataset, discount) if config.scale_values else 1.0
    onward, known = critic.value_discount(config.critic, dataset, discount), critic.known_states(config.critic, dataset)
    log = device_log(dataset, discount, scale, onward, known=known)
    discounted = discount < 1 and config.variant == "full"
    return Prepared(log, ratio.beside(ground, log.rows), chain.kind, discounted), view


def init(config: OPPOSD, data: Prepared, key: Key[Array, ""]) -> State:
    """Line 1: warm-start π on the logged actions, V̂ on the behaviour's returns, w on the cloned policy."""
    rows = data.log.rows
    cloned = actor.clone(config.actor, rows.inputs(), data.log.actions, data.log, key_for(key, "clone"))
    value = critic.initial(config.critic, rows.inputs(config.critic.clock), key_for(key, "critic"))
    value, _ = critic.fit(config.critic, value, None, data.log, config.critic.warm_steps, key_for(key, "warm critic"))
    w = ratio.initial(config.ratio, data.ground, rows.inputs(config.ratio.clock), key_for(key, "ratio"))
    w = ratio.warm(config.ratio, data.ground, w, cloned, data.log, data.chain, key_for(key, "warm ratio"))
    return State(w, value, start(cloned, actor.optimiser(config.actor, config.updates)), cloned)


def update(config: OPPOSD, data: Prepared, state: State, key: Key[Array, ""]) -> tuple[State, Metrics]:
    """Lines 3–20: one update of the policy."""
    policy, log = state.actor.network, data.log

    # Lines 4–11: the state ratio of the current policy
    w = ratio.fit(config.ratio, data.ground, state.ratio, policy, log, data.chain, key_for(key, "ratio"))

    # Lines 12–15: its value, by ρ-weighted regression on λ-returns
    by_ratio = partial(ratio.of_rows, data.ground, w) if config.weigh_critic else None
    steps, critic_key = config.critic.steps, key_for(key, "critic")
    value, loss = critic.fit(config.critic, state.critic, policy, log, steps, critic_key, by_ratio)

    # Line 16: a mini-batch, drawn by d̂_γ where the gradient needs it
    size = config.actor.batch
    batch = critic.draw(config.critic, policy, log, key_for(key, "actor"), size, discounted=data.discounted)

    # Lines 17–18: the ratio on it, and Q − V̂, which is 0 where the log has no support
    weight = batch.weight * ratio.of_rows(data.ground, w, batch.rows)
    advantage = critic.advantages(config.critic, value.network, batch, log, config.actor.baseline)

    # Line 19: ascend, as far as the log reaches
    steps, anchor_key, brake = config.updates, key_for(key, "anchor"), ratio.brake(config.least_share, batch, weight)
    learned, report = actor.ascend(
        config.actor, state.actor, state.clone, batch.rows, weight, advantage, steps, anchor_key, brake
    )
    metrics = measure(batch, weight, value, loss, report, log, key_for(key, "metrics"), w, learned)
    return State(w, value, learned, state.clone), metrics


def policy(config: OPPOSD, view: View, state: State) -> Policy:
    """The actor, as it acts in the world."""
    return view.policy(state.actor.network)


ALGORITHM = Algorithm(OPPOSD, prepare, init, update, policy)
