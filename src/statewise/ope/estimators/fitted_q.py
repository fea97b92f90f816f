"""Fitted Q evaluation: the policy's action values by regression on their own one-step targets.

    Q̂ ← argmin_Q Σᵢ γᵗ (rᵢ + γcᵢ Σ_a π(a|s'ᵢ) Q̂(s'ᵢ,a) − Q(sᵢ,aᵢ))²,     V = mean over episodes of Σ_a π(a|s₀) Q̂(s₀,a)

No propensity enters the value. The interval needs them: to first order an episode adds V̂(s₀) plus the errors of Q̂'s
equation, carried to where the policy goes by the state ratio, as in the doubly robust estimator.
Le, Voloshin, Yue (2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from statewise.data.device import RowTable, device_log
from statewise.data.sampling import RowSampler
from statewise.ope.estimators.doubly_robust_state_ratio import corrected
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient, mean_of
from statewise.ops.keys import key_for
from statewise.ops.networks import Network, initial_network
from statewise.parts.learned import Learned, descend_once, start


@dataclass(frozen=True)
class FittedQ:
    """Settings of the network."""

    hidden: tuple[int, ...] = (32, 32)
    learning_rate: float = 1e-3  # falls to 0 over the run
    batch: int = 512
    steps: int = 4000
    target_rate: float = 0.02  # how fast the network that targets come from follows


def fitted_q(case: Case, rewards: Float[np.ndarray, " steps"], settings: FittedQ | None = None) -> Quotient:
    """With Q̂ a network."""
    log = case.prepared
    scaled = log.scaler.scale(log.dataset)
    scale = float(np.std(log.by_episode(log.growth * rewards))) or 1.0
    device = device_log(scaled, log.discount)
    facts = Facts(
        rewards=jnp.asarray(rewards / scale, jnp.float32),
        onward=jnp.asarray(log.onward, jnp.float32),
        policy=jnp.asarray(case.probabilities, jnp.float32),
    )
    key = key_for(jax.random.key(log.seed), "fitted q")
    sampler = device.discounted if log.discount < 1 else device.uniform
    network = _learn(FittedQ() if settings is None else settings, device.rows, sampler, facts, key)
    everything = scale * np.asarray(_all(network, jnp.asarray(scaled.observations, jnp.float32)), np.float64)
    return from_values(case, rewards, everything)


def from_values(
    case: Case, rewards: Float[np.ndarray, " steps"], everything: Float[np.ndarray, "steps actions"]
) -> Quotient:
    """The estimate from Q̂(s,·) on every row."""
    log, values = case.prepared, (everything * case.probabilities).sum(axis=1)
    actions, first = log.dataset.actions[:, None].astype(np.int64), values[log.dataset.starts[:-1]]
    errors = log.targets(rewards, values) - np.take_along_axis(everything, actions, axis=1)[:, 0]
    robust = corrected(case, first, errors)
    return mean_of(first.mean() + robust.influence(), robust)


class Facts(eqx.Module):
    """What each row of the log adds to the regression, by its number."""

    rewards: Float[Array, " steps"]
    onward: Float[Array, " steps"]
    policy: Float[Array, "steps actions"]


@eqx.filter_jit
def _learn(settings: FittedQ, rows: RowTable, sampler: RowSampler, facts: Facts, key: Key[Array, ""]) -> Network:
    rate = optax.adam(optax.linear_schedule(settings.learning_rate, 0.0, settings.steps))
    sizes = (rows.features, *settings.hidden, facts.policy.shape[1])
    network = initial_network(key_for(key, "network"), sizes)
    last = facts.onward.shape[0] - 1

    def step(carry: tuple[Learned, Network], key: Key[Array, ""]) -> tuple[tuple[Learned, Network], None]:
        learned, target = carry
        drawn = rows.take(sampler.draw(key, settings.batch))
        following = jnp.minimum(drawn.index + 1, last)  # an episode's next state is its next row's
        value = jnp.sum(facts.policy[following] * target(drawn.next_state), axis=1)
        wanted = facts.rewards[drawn.index] + facts.onward[drawn.index] * value

        def loss(network: Network) -> Float[Array, ""]:
            given = jnp.take_along_axis(network(drawn.state), drawn.action[:, None], axis=1)[:, 0]
            return jnp.mean((wanted - given) ** 2)

        learned, _ = descend_once(learned, rate, loss)
        return (learned, optax.incremental_update(learned.network, target, settings.target_rate)), None  # pyright: ignore

    keys = jax.random.split(key_for(key, "rows"), settings.steps)
    (_, target), _ = jax.lax.scan(step, (start(network, rate), network), keys)
    return target


@eqx.filter_jit
def _all(network: Network, states: Float[Array, "steps features"]) -> Float[Array, "steps actions"]:
    return network(states)
