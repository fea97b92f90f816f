"""Off-policy returns: λ-returns, Retrace, and traces along the rows of a log."""

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


def retrace_returns(
    rewards: Float[Array, " steps"],
    next_values: Float[Array, " steps"],
    next_action_values: Float[Array, " steps"],
    next_traces: Float[Array, " steps"],
    ends: Bool[Array, " steps"],
    discount: Float[Array, ""] | float,
) -> Float[Array, " steps"]:
    """Qʳᵉᵗ(sₜ,aₜ) = rₜ + γ [V(sₜ₊₁) + c(sₜ₊₁,aₜ₊₁) (Qʳᵉᵗ(sₜ₊₁,aₜ₊₁) − Q(sₜ₊₁,aₜ₊₁))],  c = λ min(1, ρ).

    Munos et al. (2016). `next_values` is 0 after a terminal step; where `ends`, nothing is known beyond it.
    """

    def backwards(following: Float[Array, ""], step):
        reward, value, action_value, trace, end = step
        onward = jnp.where(end, value, value + trace * (following - action_value))
        result = reward + discount * onward
        return result, result

    steps = (rewards, next_values, next_action_values, next_traces, ends)
    return jax.lax.scan(backwards, jnp.zeros((), rewards.dtype), steps, reverse=True)[1]


def follow_on(
    ratios: Float[Array, " rows"],
    first: Bool[Array, " rows"],
    discount: Float[Array, ""] | float,
    interest: Float[Array, " rows"],
) -> Float[Array, " rows"]:
    """Fₜ = iₜ + γ ρₜ₋₁ Fₜ₋₁ along the rows of all episodes, restarted where an episode begins (`first`)."""
    before = jnp.concatenate([jnp.zeros(1, ratios.dtype), ratios[:-1]])
    factors = jnp.where(first, 0.0, discount * before)
    return jax.lax.associative_scan(_after, (factors, interest))[1]


def look_ahead(gains: Float[Array, " rows"], factors: Float[Array, " rows"]) -> Float[Array, " rows"]:
    """Uₜ = gₜ + fₜ Uₜ₊₁ along the rows of a log; 0 comes after the last."""
    return jax.lax.associative_scan(_after, (factors, gains), reverse=True)[1]


def _after(early: tuple[Array, Array], late: tuple[Array, Array]) -> tuple[Array, Array]:
    """x ↦ ax + b, one after another: composed so, a recursion is computed in parallel."""
    return early[0] * late[0], late[0] * early[1] + late[1]
