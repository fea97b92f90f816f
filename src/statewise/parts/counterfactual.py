"""What a decision adds by changing where the policy leads (Zhang, Boehmer & Whiteson 2019), beside what it earns.

The counterfactual objective counts states as if the policy had taken over from the behaviour a while ago:

    J_γ̂ = Σ_s d_γ̂(s) V^π(s),     d_γ̂ = (1 − γ̂) Σ_k γ̂ᵏ (P_πᵀ)ᵏ d_μ,     c = d_γ̂/d_μ
    ∇J_γ̂ = E_μ[ ρ ∇log π(a|s) (m Q^π(s,a) + γ̂ c(s) U(s,a)) ],     U(sₜ,aₜ) = V(sₜ₊₁) + γ̂ ρₜ₊₁ U(sₜ₊₁,aₜ₊₁)

with m the emphasis of interest c, and P_π the chain on which an episode that ends begins anew. The paper adds up
gradients in a trace forwards; this is the same sum, taken by decisions instead of by the states that they lead to.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from statewise.data.device import DeviceLog, Rows
from statewise.ops.returns import look_ahead
from statewise.parts.ratio_cop_td import Moves


def ahead(
    carry: float,
    share: float,
    rows: Rows,
    ratio: Float[Array, " steps"],
    values: Float[Array, " steps"],
    next_values: Float[Array, " steps"],
    log: DeviceLog,
    moves: Moves,
) -> Float[Array, " steps"]:
    """(1 − λ) V(s') + λ U of all rows of a log, in order; λ is `share`, γ̂ is `carry`, `ratio` is ρ.

    Whatever is the same in all values changes no mean: given without it, sums stay finite as γ̂ goes to 1.
    """
    index, last = rows.index, rows.last > 0
    following = jnp.searchsorted(log.starts, index, side="right") % log.starts.shape[0]
    begins = moves.onward == 0  # with the next episode of the log, which is as good a draw as any
    arrived = jnp.where(begins, values[log.starts[following]], next_values)
    # beyond a record that stops, and after the log's last row, nothing is known
    known = (begins == last) & (index + 1 < log.uniform.steps)
    ratio_then = jnp.concatenate([ratio[1:], jnp.zeros(1, ratio.dtype)])
    return (1 - share) * arrived + share * look_ahead(arrived, jnp.where(known, carry * ratio_then, 0.0))
