"""The trust region's projection against a numerical solution of its programme, state by state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from statewise.ops.networks import Network
from statewise.parts.policy import log_policy
from statewise.parts.trust_region import project


@pytest.mark.parametrize("limit", [0.5, 0.0])
def test_projection_solves_the_quadratic_programme(limit):
    rng = np.random.default_rng(0)
    gradient, away = rng.normal(size=(12, 3)), rng.normal(size=(12, 3))
    got = np.asarray(project(jnp.asarray(gradient, jnp.float32), jnp.asarray(away, jnp.float32), limit))
    bound = (gradient * away).sum(axis=1) > limit
    assert 2 < bound.sum() < 10  # both kinds occur
    for g, k, z in zip(gradient, away, got, strict=True):
        solved = minimize(
            lambda z, g=g: ((g - z) ** 2).sum() / 2,
            np.zeros(3),
            jac=lambda z, g=g: z - g,
            constraints={"type": "ineq", "fun": lambda z, k=k: limit - k @ z, "jac": lambda z, k=k: -k},
            options={"ftol": 1e-12},
        )
        np.testing.assert_allclose(z, solved.x, atol=1e-5)


def test_policies_that_agree_leave_the_gradient_as_it_is():
    gradient = jnp.asarray([[1.0, -2.0]])
    np.testing.assert_array_equal(project(gradient, jnp.zeros((1, 2)), 0.1), gradient)


def test_difference_of_policies_is_the_slope_of_the_divergence_in_the_logits():
    """∂KL(π̄ ‖ softmax θ)/∂θ = π − π̄, which ACER projects along."""
    rng = np.random.default_rng(1)
    average, logits = jax.nn.softmax(rng.normal(size=4)), jnp.asarray(rng.normal(size=4), jnp.float32)

    def divergence(bias):
        chances = log_policy(Network((jnp.zeros((1, 4)),), (bias,)), jnp.zeros(1))
        return jnp.sum(average * (jnp.log(average) - chances))

    np.testing.assert_allclose(jax.grad(divergence)(logits), jax.nn.softmax(logits) - average, atol=1e-6)
