"""The off-policy λ-return."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def lambda_returns(
    rewards: Float[Array, " steps"],
    next_values: Float[Array, " steps"],
    next_ratios: Float[Array, " steps"],
    ends: Bool[Array, " steps"],
    discount: Float[Array, ""] | float,
    trace: float,
) -> Float[Array, " steps"]:
    """Rλ(sₜ,aₜ) = rₜ + γ[(1−λ) V(sₜ₊₁) + λ ρ(sₜ₊₁,aₜ₊₁) Rλ(sₜ₊₁,aₜ₊₁)].

    The ratio belongs to the *next* pair: Rλ(s,a) conditions on a, so that only later actions need correcting, and
    E_μ[ρ(s',a') Rλ(s',a')] = E_π[Rλ(s',a')]. `next_values` is 0 after a terminal step. At an episode's last step
    (`ends`) there is no next pair and the return bootstraps from the value alone, whatever λ is.
    """

    def backwards(following: Float[Array, ""], step):
        reward, value, ratio, end = step
        onward = jnp.where(end, value, (1 - trace) * value + trace * ratio * following)
        result = reward + discount * onward
        return result, result

    steps = (rewards, next_values, next_ratios, ends)
    return jax.lax.scan(backwards, jnp.zeros((), rewards.dtype), steps, reverse=True)[1]
