"""ACER's gradient against exact ones, action by action."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statewise.algorithms import acer
from statewise.domains.tabular import softmax

ACTIONS = 4


@pytest.fixture
def state():
    """One state: logits, Q and μ; one action is illegal."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=ACTIONS)
    logits[3] = -np.inf
    behaviour = np.array([0.05, 0.6, 0.35, 0.0])
    return logits, rng.normal(size=ACTIONS), behaviour


def directions(logits, values, behaviour, returns, truncation):
    """g for each action that may have been taken."""
    chances = np.log(np.maximum(softmax(logits[None]), 1e-300))
    chances = np.where(np.isfinite(logits), chances, -np.inf)
    each = [np.tile(row, (ACTIONS, 1)) for row in (chances, values, behaviour)]
    arguments = (*each, np.eye(ACTIONS), returns)
    return np.asarray(acer.direction(*(jnp.asarray(x, jnp.float32) for x in arguments), truncation), np.float64)


@pytest.mark.parametrize("truncation", [0.5, 1.0, 10.0, 1e6])
def test_mean_over_the_behaviour_is_the_exact_gradient_whatever_the_truncation(state, truncation):
    """With Qʳᵉᵗ = Q the truncation's bias is corrected in full: E_μ[g] = ∂/∂θ Σ_a π_θ(a) Q(a)."""
    logits, values, behaviour = state
    gradients = directions(logits, values, behaviour, values, truncation)[:3]
    exact = jax.grad(lambda theta: jnp.sum(jax.nn.softmax(theta) * values[:3]))(jnp.asarray(logits[:3], jnp.float32))
    np.testing.assert_allclose(behaviour[:3] @ gradients[:, :3], exact, atol=1e-5)
    assert (gradients[:, 3] == 0).all()
    assert np.abs(exact).max() > 0.05


def test_against_the_formula_written_out(state):
    logits, values, behaviour = state
    policy, returns, limit = softmax(logits[None])[0], values + np.array([0.3, -0.2, 0.1, 0.0]), 1.5
    value = policy @ values
    gradients = directions(logits, values, behaviour, returns, limit)
    assert (policy[:3] / behaviour[:3] > limit).any()
    for taken in range(3):
        ratio = policy[taken] / behaviour[taken]
        expected = min(limit, ratio) * (np.eye(ACTIONS)[taken] - policy) * (returns[taken] - value)
        for other in range(3):
            kept = max(0.0, 1 - limit * behaviour[other] / policy[other])
            slope = np.eye(ACTIONS)[other] - policy
            expected = expected + kept * policy[other] * slope * (values[other] - value)
        np.testing.assert_allclose(gradients[taken], expected, atol=1e-5)
