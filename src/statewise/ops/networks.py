"""Small networks: layers of weights and biases with relu between them."""

from functools import reduce
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


class Network(eqx.Module):
    """x ↦ W_L·relu(… relu(x·W_1 + b_1) …) + b_L, for one input or any batch of them."""

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]

    def __call__(self, inputs: Float[Array, "*batch features"]) -> Float[Array, "*batch outputs"]:
        if self.weights[-1].shape[1] == 1 and inputs.ndim > 1:
            return self.outputs_first(inputs)[0][..., None]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            inputs = jax.nn.relu(_affine(inputs, weight, bias))
        return _affine(inputs, self.weights[-1], self.biases[-1])

    def outputs_first(self, inputs: Float[Array, "*batch features"]) -> Float[Array, "outputs *batch"]:
        """The same, computed with one input per column: faster on a CPU for many inputs and few outputs."""
        columns = _laid_out(inputs.reshape(-1, inputs.shape[-1]).T)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            columns = jax.nn.relu(columns) if i > 0 else columns
            columns = _laid_out(weight.T) @ columns + jnp.broadcast_to(bias[:, None], (bias.shape[0], columns.shape[1]))
        return columns.reshape(-1, *inputs.shape[:-1])


class Least(eqx.Module):
    """The least of several networks' outputs: where they disagree for lack of data, the most cautious one counts."""

    networks: tuple[Network, ...]

    def __call__(self, inputs: Float[Array, "*batch features"]) -> Float[Array, "*batch outputs"]:
        return reduce(jnp.minimum, [network(inputs) for network in self.networks])


def members(network: Network | Least) -> tuple[Network, ...]:
    """The networks that it consists of."""
    return network.networks if isinstance(network, Least) else (network,)


def seen_by(network: Network | Least, inputs: Float[Array, "*batch features"]) -> Float[Array, "*batch seen"]:
    """The first columns, as many as the network has inputs: what others see and this one does not comes after them."""
    return inputs[..., : members(network)[0].weights[0].shape[0]]


def _laid_out(matrix: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    """The same, in memory in this order: XLA's CPU code for products of transposed matrices is slow.

    The gradient of 4 x 32 weights on 800 rows took a quarter of a step of the ratio's network.
    """
    return jax.lax.optimization_barrier(matrix) if jax.default_backend() == "cpu" else matrix


def _affine(inputs: Array, weight: Array, bias: Array) -> Array:
    return inputs @ weight + jnp.broadcast_to(bias, (*inputs.shape[:-1], bias.shape[0]))


def initial_network(key: Key[Array, ""], sizes: tuple[int, ...], last_scale: float = 1.0) -> Network:
    """Weights and biases uniform on ±1/√inputs, as in PyTorch; the last layer's times `last_scale`."""
    shapes = list(pairwise(sizes))
    weights, biases = [], []
    for i, (inputs, outputs) in enumerate(shapes):
        weight_key, bias_key = jax.random.split(jax.random.fold_in(key, i))
        bound = inputs**-0.5 * (last_scale if i == len(shapes) - 1 else 1.0)
        weights.append(jax.random.uniform(weight_key, (inputs, outputs), minval=-bound, maxval=bound))
        biases.append(jax.random.uniform(bias_key, (outputs,), minval=-bound, maxval=bound))
    return Network(tuple(weights), tuple(biases))
