"""Networks against NumPy, their start, and the keys they are drawn with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statewise.ops.keys import key_for
from statewise.ops.networks import Least, initial_network, members


@pytest.fixture(scope="module")
def network():
    return initial_network(jax.random.key(0), (4, 16, 8, 3))


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_network_is_layers_of_dot_products_with_relu_between(network, batch):
    inputs = jnp.asarray(np.random.default_rng(0).normal(size=(*batch, 4)), jnp.float32)
    got = np.asarray(network(inputs))
    assert got.shape == (*batch, 3)
    weights = [np.asarray(w, np.float64) for w in network.weights]
    biases = [np.asarray(b, np.float64) for b in network.biases]
    for place in np.ndindex(batch):
        hidden = [float(x) for x in inputs[place]]
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            out = [bias[j] + sum(x * weight[i, j] for i, x in enumerate(hidden)) for j in range(len(bias))]
            hidden = [max(x, 0.0) for x in out] if layer < 2 else out
        np.testing.assert_allclose(got[place], hidden, rtol=1e-5, atol=1e-6)


def test_initial_network_is_uniform_within_one_over_the_root_of_its_inputs():
    network = initial_network(jax.random.key(1), (100, 400, 50), last_scale=0.01)
    for layer, bound in enumerate([0.1, 0.01 * 400**-0.5]):
        weight, bias = np.asarray(network.weights[layer]), np.asarray(network.biases[layer])
        assert bound * 0.99 < np.abs(weight).max() <= bound
        assert np.abs(bias).max() <= bound
        # a uniform variable's deviation is its bound / √3; 5 deviations of the estimate from n draws
        assert weight.std() == pytest.approx(bound / np.sqrt(3), rel=5 / np.sqrt(weight.size))
        assert abs(weight.mean()) < 5 * bound / np.sqrt(3 * weight.size)
    assert not np.array_equal(network.weights[0][0, :50], network.biases[0][:50])


def test_keys_differ_by_name_and_by_seed():
    names = ["actor", "critic", "ratio", "clone", "anchor", "rows", "warm critic", "warm ratio", ""]
    drawn = {
        tuple(np.asarray(jax.random.key_data(key_for(jax.random.key(seed), name)))) for name in names for seed in (0, 1)
    }
    assert len(drawn) == 2 * len(names)


@pytest.mark.parametrize(("name", "number"), [("critic", 0xC9E2F7F1), ("actor", 0x447556F9), ("anchor", 0x6751117D)])
def test_a_name_means_the_same_number_in_every_process(name, number):
    """CRC-32 of the name, written out: a run resumed elsewhere draws what it would have drawn here."""
    expected = jax.random.fold_in(jax.random.key(7), number)
    got = key_for(jax.random.key(7), name)
    np.testing.assert_array_equal(jax.random.key_data(got), jax.random.key_data(expected))


@pytest.mark.parametrize("outputs", [1, 3])
def test_outputs_first_is_the_same_in_another_order(outputs):
    network = initial_network(jax.random.key(0), (4, 8, 6, outputs))
    inputs = jax.random.normal(jax.random.key(1), (2, 5, 4))
    expected = np.stack([[np.asarray(network(one)) for one in row] for row in inputs])
    np.testing.assert_allclose(network(inputs), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(network.outputs_first(inputs), np.moveaxis(expected, -1, 0), rtol=1e-5, atol=1e-6)


def test_least_of_several_networks_is_the_smallest_of_their_outputs():
    one, other = (initial_network(jax.random.key(seed), (3, 8, 2)) for seed in (0, 1))
    inputs = jax.random.normal(jax.random.key(2), (50, 3))
    both = Least((one, other))
    np.testing.assert_array_equal(both(inputs), np.minimum(one(inputs), other(inputs)))
    assert members(both) == (one, other)
    assert members(one) == (one,)
