"""w(s) = d^π(s)/d^μ(s) by temporal differences: COP-TD (Hallak & Mannor 2017), discounted (Gelada & Bellemare 2019).

A ratio flows forwards: on the chain whose stationary ratio is sought (`parts.chain`), each arrival in s' brings along
the ratio of the state before.

    w(s') ← γ̂ ρ(s,a) w̄(s) / E_μ[ρ w̄] + (1 − γ̂),     (s, a, s') from the log

Where an episode ends, or is discounted away with the chance 1 − γ, s' is a new start, as in the other estimators. The
division keeps E_μ[w] = 1, in place of a projection; w̄ is a slow copy of the network. With γ̂ = 1 the fixed point is the
ratio itself. With less it is that of (1 − γ̂) Σ_k γ̂ᵏ (P_πᵀ)ᵏ d_μ, where the policy has taken over from the behaviour for
1/(1 − γ̂) steps on average: a contraction, and of less variance, for a bias towards 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from statewise.data.device import DeviceLog
from statewise.ops.keys import key_for
from statewise.ops.networks import Network, initial_network
from statewise.parts.chain import Chain, Kind
from statewise.parts.learned import in_chunks, start
from statewise.parts.ratio_network import ActionRatio, state_ratio
from statewise.parts.tracked import Tracked, descend_tracked

CHUNK = 250  # steps whose rows are drawn at once


@dataclass(frozen=True)
class COPTD:
    """Settings of COP-TD."""

    carry: float = 1.0  # γ̂; below 1 it is discounted COP-TD
    hidden: tuple[int, ...] = (32,)  # layers of w
    learning_rate: float = 1e-3  # step size of Adam
    batch: int = 500  # rows in each step
    steps: int = 50  # steps before each update of the policy
    warm_steps: int = 1000  # steps before the first update of the policy
    target_rate: float = 0.05  # how fast the target network w̄ follows
    clip: float | None = None  # the largest ρ; None: no limit
    clock: bool = True  # estimate w(s, t) where a limit cuts episodes off


class Moves(eqx.Module):
    """Where each row of the log leads on the chain."""

    onward: Float[Array, " steps"]  # with this chance to the next state, otherwise to a new start
    recorded: Float[Array, " steps"]  # what the row stands for; 0 where the next state is unknown


class Arrivals(eqx.Module):
    """Steps on the chain: where each came from, and where it arrived."""

    state: Float[Array, "*batch features"]
    arrived: Float[Array, "*batch features"]
    ratio: Float[Array, "*batch"]
    weight: Float[Array, "*batch"]


def moves_of(chain: Chain) -> Moves:
    return Moves(jnp.asarray(chain.onward, jnp.float32), jnp.asarray(chain.recorded, jnp.float32))


def initial(settings: COPTD, features: int, key: Key[Array, ""]) -> Tracked:
    """w ≡ 1: the ratio where policy and behaviour agree."""
    network = initial_network(key, (features, *settings.hidden, 1), last_scale=0.01)
    one = jnp.full(1, np.log(np.expm1(1.0)), jnp.float32)  # softplus of it is 1
    network = Network(network.weights, (*network.biases[:-1], one))
    return Tracked(start(network, optimiser(settings)), network)


def optimiser(settings: COPTD) -> optax.GradientTransformation:
    return optax.adam(settings.learning_rate)


def fit(
    settings: COPTD,
    tracked: Tracked,
    action_ratio: ActionRatio,
    log: DeviceLog,
    moves: Moves,
    chain: Kind,
    steps: int,
    key: Key[Array, ""],
) -> Tracked:
    """`steps` updates of w for a fixed policy."""

    def step(tracked: Tracked, arrivals: Arrivals) -> tuple[Tracked, Float[Array, ""]]:
        target = targets(settings.carry, tracked.target, arrivals)
        descent = optimiser(settings)
        return descend_tracked(tracked, descent, lambda w: loss(w, target, arrivals), settings.target_rate)

    def chunk(tracked: Tracked, key: Key[Array, ""], count: int) -> Tracked:
        drawn = draw(action_ratio, log, moves, chain, count * settings.batch, key)
        batches = jax.tree.map(lambda leaf: leaf.reshape(count, settings.batch, *leaf.shape[1:]), drawn)
        return jax.lax.scan(step, tracked, batches)[0]

    return in_chunks(chunk, tracked, steps, CHUNK, key)


def draw(
    action_ratio: ActionRatio, log: DeviceLog, moves: Moves, chain: Kind, count: int, key: Key[Array, ""]
) -> Arrivals:
    """Steps of the behaviour on the chain."""
    rows = log.draw(key_for(key, "rows"), count, discounted=chain == "discounted")
    goes_on = jax.random.uniform(key_for(key, "ends"), (count,)) < moves.onward[rows.index]
    fresh = log.draw_initial(key_for(key, "initial"), count)
    arrived = jnp.where(goes_on[:, None], rows.next_state, fresh)
    return Arrivals(rows.state, arrived, action_ratio(rows), moves.recorded[rows.index])


def targets(carry: float, slow: Network, arrivals: Arrivals) -> Float[Array, " batch"]:
    """γ̂ ρ w̄(s) / E_μ[ρ w̄] + 1 − γ̂."""
    brought = arrivals.ratio * state_ratio(slow, arrivals.state)
    mean = jnp.sum(arrivals.weight * brought) / jnp.sum(arrivals.weight)
    return carry * brought / jnp.maximum(mean, 1e-8) + (1 - carry)


def loss(network: Network, target: Float[Array, " batch"], arrivals: Arrivals) -> Float[Array, ""]:
    """Of arrivals, the mean squared distance to their targets, which carry no gradient."""
    errors = jax.lax.stop_gradient(target) - state_ratio(network, arrivals.arrived)
    return jnp.sum(arrivals.weight * errors**2) / jnp.sum(arrivals.weight)
