"""Policy iteration in an estimated model, with whatever improvement a method allows itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from statewise.domains.tabular import Policy

TOLERANCE = 1e-9
MOST_ITERATIONS = 1000

Improve = Callable[[Float[np.ndarray, "states actions"], Policy], Policy]  # of Q̂ and the policy so far


def action_values(
    model: Float[np.ndarray, "states actions places"],
    rewards: Float[np.ndarray, "states actions"],
    policy: Policy,
    discount: float,
) -> Float[np.ndarray, "states actions"]:
    """Q = r + γ P V with V = (I − γ P_π)⁻¹ r_π; the last state is the end."""
    inner = model[:, :, :-1]
    chain = np.einsum("sa,sat->st", policy, inner)
    values = np.linalg.solve(np.eye(len(chain)) - discount * chain, (policy * rewards).sum(axis=1))
    return rewards + discount * inner @ values


def iterate(
    model: Float[np.ndarray, "states actions places"],
    rewards: Float[np.ndarray, "states actions"],
    start: Policy,
    discount: float,
    improve: Improve,
) -> Policy:
    """Evaluates and improves in turn until the action values no longer change."""
    policy, before = start, np.full(start.shape, np.inf)
    for _ in range(MOST_ITERATIONS):
        now = action_values(model, rewards, policy, discount)
        policy = improve(now, policy)
        if np.linalg.norm(now - before) <= TOLERANCE:
            break
        before = now
    return policy


def greedy(values: Float[np.ndarray, "states actions"]) -> Policy:
    """All probability on the first action of the greatest value."""
    return np.eye(values.shape[1])[values.argmax(axis=1)]
