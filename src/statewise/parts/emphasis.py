"""Emphatic weights: how much a logged state matters to the values of the states before it (Imani, Graves & White 2018).

Fₜ = iₜ + γ ρₜ₋₁ Fₜ₋₁,  F₀ = i₀,     Mₜ = (1 − λ) iₜ + λ Fₜ

E_μ[F | s] d^μ(s) = Σ_k γᵏ (P_πᵏ)ᵀ (i d^μ): λ = 1 follows the gradient of E_{s~d^μ}[i(s) V^π(s)] for a given interest i
in each state, which is 1 if not told; λ = 0 Off-PAC's.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from statewise.data.device import DeviceLog
from statewise.ops.networks import Network
from statewise.ops.returns import follow_on
from statewise.parts.policy import action_ratio


@dataclass(frozen=True)
class Emphasis:
    """Settings. Products of ρ over whole episodes vary wildly; `clip` bounds each factor."""

    share: float = 1.0  # λ, from 0 (rows count equally) to 1
    clip: float | None = None  # the largest ρ; None: no limit


def of_log(
    settings: Emphasis, policy: Network, log: DeviceLog, interest: Float[Array, " steps"] | None = None
) -> Float[Array, " steps"]:
    """M of every row of the log, for a fixed policy."""
    rows = log.rows.take(jnp.arange(log.rows.table.shape[0]))
    ratio = jax.lax.stop_gradient(action_ratio(policy, rows, settings.clip))
    first = jnp.concatenate([jnp.ones(1, bool), rows.last[:-1] > 0])
    interest = jnp.ones_like(ratio) if interest is None else interest
    return (1 - settings.share) * interest + settings.share * follow_on(ratio, first, log.discount, interest)
