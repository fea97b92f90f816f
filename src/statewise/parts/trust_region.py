"""ACER's trust region: removes the part of a gradient that would leave the average policy too fast."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def project(
    gradient: Float[Array, "*batch statistics"], away: Float[Array, "*batch statistics"], limit: float
) -> Float[Array, "*batch statistics"]:
    """argmin_z ½‖g − z‖² subject to kᵀz ≤ δ, which is z = g − max(0, (kᵀg − δ)/‖k‖²) k. Wang et al. (2017), eq. 12.

    `away` is k = ∇KL(π̄ ‖ π) in the policy's statistics (here its logits), for each state separately.
    """
    along = jnp.sum(away * gradient, axis=-1, keepdims=True)
    length = jnp.sum(away**2, axis=-1, keepdims=True)
    # where the policies agree there is nothing to limit
    excess = jnp.where(length > 0, jnp.maximum(along - limit, 0.0) / jnp.where(length > 0, length, 1.0), 0.0)
    return gradient - excess * away
