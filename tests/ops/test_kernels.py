"""The kernel, its bandwidth and its random features, against loops and SciPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import pdist

from statewise.ops.kernels import cosine, fourier_features, median_distance, rbf


def test_rbf_is_the_double_loop():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    right[2] = left[4]
    expected = np.zeros((7, 5))
    for i in range(7):
        for j in range(5):
            expected[i, j] = math.exp(-sum((a - b) ** 2 for a, b in zip(left[i], right[j], strict=True)) / (2 * 0.8**2))
    got = np.asarray(rbf(jnp.asarray(left, jnp.float32), jnp.asarray(right, jnp.float32), 0.8))
    np.testing.assert_allclose(got, expected, rtol=2e-5)
    assert got[4, 2] == pytest.approx(1, abs=1e-5)


def test_rbf_never_exceeds_one_where_points_nearly_coincide():
    points = jnp.asarray(30 + 1e-3 * np.random.default_rng(1).normal(size=(50, 4)), jnp.float32)
    kernel = np.asarray(rbf(points, points, 1.0))
    assert kernel.max() <= 1.0


@pytest.mark.parametrize("shape", [(2, 1), (40, 3), (300, 6)])
def test_median_distance_is_scipys(shape):
    points = np.random.default_rng(2).normal(size=shape)
    assert median_distance(points) == pytest.approx(np.median(pdist(points)), rel=1e-9)


def test_median_distance_of_a_sample_is_close_to_that_of_all():
    points = np.random.default_rng(3).normal(size=(3000, 2)) * [1.0, 5.0]
    sampled = median_distance(points, most=500)
    assert sampled == pytest.approx(np.median(pdist(points)), rel=0.05)
    assert sampled != median_distance(points, most=500, seed=1)


def test_median_distance_of_points_that_do_not_differ_is_one():
    assert median_distance(np.ones((1, 2))) == 1.0
    assert median_distance(np.ones((9, 2))) == 1.0


@pytest.mark.parametrize("size", [50, 5000])
def test_fourier_features_give_one_plus_the_kernel_up_to_chance(size):
    """A pair's product has mean k and, by trigonometry, variance (1 + k⁴/2 − k²)/m: the error falls as m^-1/2."""
    points = jnp.asarray(np.random.default_rng(4).normal(size=(30, 3)), jnp.float32)
    kernel = np.exp(-(pdist(points) ** 2) / (2 * 1.3**2))
    squares = []
    for seed in range(8):
        features = np.asarray(fourier_features(jax.random.key(seed), 3, size, 1.3)(points), np.float64)
        assert features.shape == (30, size + 1)
        products = (features @ features.T)[np.triu_indices(30, k=1)]
        squares.append(np.mean((products - 1 - kernel) ** 2))
    expected = np.mean(1 + kernel**4 / 2 - kernel**2) / size
    assert np.mean(squares) == pytest.approx(expected, rel=0.35)


def test_the_quick_cosine_is_the_cosine_to_single_precision():
    angles = np.linspace(-60, 60, 100_001)
    got = np.asarray(cosine(jnp.asarray(angles, jnp.float32)), np.float64)
    rounding = 60 * 2.0**-24  # of the angles themselves
    assert np.abs(got - np.cos(angles)).max() < 1e-6 + 2 * rounding
    exact = np.float32([0.0, np.pi / 2, np.pi, 2 * np.pi])
    np.testing.assert_allclose(cosine(jnp.asarray(exact)), [1, 0, -1, 1], atol=1e-6)
