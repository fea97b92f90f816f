"""What is measured in every update."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from statewise.data.device import DeviceLog
from statewise.parts import critic
from statewise.parts.actor import Report
from statewise.parts.critic import Batch, Value
from statewise.parts.learned import Learned

INITIAL_STATES = 256
# In the order of computation: a policy that an earlier update broke spoils everything after it.
PARTS = ("actor", "state ratio", "critic", "actor")


class Metrics(eqx.Module):
    """One number each, NaN where the algorithm has no such part.

    `finite` is for ρ, the ratio, the critic and the actor, in the order of computation.
    """

    value: Float[Array, ""]  # the critic's: mean V̂(s₀)
    reward: Float[Array, ""]  # the state ratio's: Σ wρr / Σ w, per decision
    ratio_ess: Float[Array, ""]  # effective share of the rows, (Σvw)² / Σv Σvw², with v the weight of a row
    ratio_largest: Float[Array, ""]  # the largest w / Σw
    critic_loss: Float[Array, ""]
    entropy: Float[Array, ""]
    advantage_deviation: Float[Array, ""]
    anchor: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    finite: Bool[Array, "4"]


Number = Float[Array, ""] | float


def of_learner(
    value: Number = jnp.nan,
    loss: Number = jnp.nan,
    entropy: Number = jnp.nan,
    *,
    ratio: Any = (),
    critic: Any = (),
    actor: Any = (),
    reward: Number = jnp.nan,
    ratio_ess: Number = jnp.nan,
) -> Metrics:
    """Metrics of a learner without the parts of OPPOSD, which are NaN."""
    numbers = (value, reward, ratio_ess, jnp.nan, loss, entropy, jnp.nan, jnp.nan, jnp.nan)
    finite = jnp.stack([jnp.asarray(True), _finite(ratio), _finite(critic), _finite(actor)])
    return Metrics(*(jnp.asarray(number, jnp.float32) for number in numbers), finite=finite)


def measure(
    batch: Batch,
    weight: Float[Array, "*batch"],
    value: Value,
    loss: Float[Array, ""],
    report: Report,
    log: DeviceLog,
    key: Key[Array, ""],
    ratio: Any,
    actor: Learned,
) -> Metrics:
    total = jnp.sum(weight)
    return Metrics(
        value=critic.initial_value(value.network, log, key, INITIAL_STATES),
        reward=jnp.sum(weight * batch.ratio * batch.rows.reward) / total,
        ratio_ess=total**2 / (jnp.sum(batch.weight) * _second_moment(weight, batch.weight)),
        ratio_largest=jnp.max(weight) / total,
        critic_loss=loss,
        entropy=report.entropy,
        advantage_deviation=report.advantage_deviation,
        anchor=report.anchor,
        gradient_norm=report.gradient_norm,
        finite=jnp.stack([_finite(part) for part in (batch.ratio, ratio, value, actor)]),
    )


def _second_moment(weight: Float[Array, "*batch"], rows: Float[Array, "*batch"]) -> Float[Array, ""]:
    """Σ v w² from vw and v; rows without weight add nothing."""
    return jnp.sum(jnp.where(rows > 0, weight**2 / jnp.where(rows > 0, rows, 1.0), 0.0))


def _finite(tree: Any) -> Bool[Array, ""]:
    leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree) if eqx.is_inexact_array(leaf)]
    return jnp.all(jnp.stack(leaves)) if leaves else jnp.asarray(True)
