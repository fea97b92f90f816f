"""Policies that write logs: uniform, or a policy file mixed with uniform noise."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import as_file, files
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from statewise.domains.simulate import Act
from statewise.ops.networks import Network
from statewise.policies.files import StoredPolicy
from statewise.policies.network import Policy
from statewise.policies.path import PathPolicy
from statewise.policies.trees import TreePolicy

# The paper's μ = .7·π̂ + .3·uniform
LEARNED_SHARE = 0.7


class Uniform(eqx.Module):
    """Every action with the same probability."""

    action_count: int = eqx.field(static=True)

    def __call__(self, observation: Float[Array, " features"]) -> Float[Array, " actions"]:
        return jnp.full(self.action_count, 1 / self.action_count)


class Noisy(eqx.Module):
    """π(·|s) = share · softmax(network((s − mean)/std)) + (1 − share) · uniform."""

    network: Network
    mean: Float[Array, " features"]
    std: Float[Array, " features"]
    share: Float[Array, ""]  # an array, so that one compiled program serves every share

    def __call__(self, observation: Float[Array, " features"]) -> Float[Array, " actions"]:
        learned = jax.nn.softmax(self.network((observation - self.mean) / self.std))
        return self.share * learned + (1 - self.share) / learned.shape[0]


class NoisyTrees(eqx.Module):
    """π(·|s) = share · trees' own + (1 − share) · uniform; tables are padded, so that few sizes need compiling."""

    feature: Int[Array, " nodes"]
    threshold: Float[Array, " nodes"]
    children: Int[Array, "nodes 2"]
    value: Float[Array, " nodes"]
    roots: Int[Array, "actions trees"]
    depth: Int[Array, ""]
    epsilon: Float[Array, ""]
    share: Float[Array, ""]

    def __call__(self, observation: Float[Array, " features"]) -> Float[Array, " actions"]:
        def down(_, node: Int[Array, "actions trees"]) -> Int[Array, "actions trees"]:
            right = observation[self.feature[node]] > self.threshold[node]
            return jnp.where(right, self.children[node, 1], self.children[node, 0])

        leaves = jax.lax.fori_loop(0, self.depth, down, self.roots)
        actions = self.roots.shape[0]
        greedy = jax.nn.one_hot(jnp.argmax(self.value[leaves].mean(axis=1)), actions)
        own = (1 - self.epsilon) * greedy + self.epsilon / actions
        return self.share * own + (1 - self.share) / actions


def with_noise(policy: StoredPolicy, share: float = LEARNED_SHARE) -> Noisy | NoisyTrees | Blended:
    """A policy that acts by itself with probability `share`, and uniformly otherwise."""
    if isinstance(policy, TreePolicy):
        return _trees_with_noise(policy, share)
    if isinstance(policy, PathPolicy):
        uniform = Uniform(len(policy.action_names))
        return Blended(uniform, as_act(policy), jnp.asarray(share, jnp.float32), geometric=False)
    if not isinstance(policy, Policy):
        raise ValueError(f"expected a network, trees or a step between such, got a {type(policy).__name__}")

    def single(values: np.ndarray) -> Array:
        return jnp.asarray(values, jnp.float32)

    network = Network(tuple(map(single, policy.weights)), tuple(map(single, policy.biases)))
    return Noisy(network, single(policy.mean), single(policy.std), jnp.asarray(share, jnp.float32))


class Blended(eqx.Module):
    """A step of the way between two policies (`policies.path`)."""

    today: Act
    goal: Act
    step: Float[Array, ""]
    geometric: bool = eqx.field(static=True)

    def __call__(self, observation: Float[Array, " features"]) -> Float[Array, " actions"]:
        today, goal = self.today(observation), self.goal(observation)
        if not self.geometric:
            return (1 - self.step) * today + self.step * goal
        product = today ** (1 - self.step) * goal**self.step
        total = product.sum()
        return jnp.where(total > 0, product / jnp.where(total > 0, total, 1.0), today)


class Untraced(eqx.Module):
    """A policy that JAX cannot trace, called from inside the compiled simulator."""

    probabilities: Callable[[np.ndarray], np.ndarray] = eqx.field(static=True)
    action_count: int = eqx.field(static=True)

    def __call__(self, observation: Float[Array, " features"]) -> Float[Array, " actions"]:
        shape = jax.ShapeDtypeStruct((self.action_count,), jnp.float32)
        return jax.pure_callback(self._call, shape, observation, vmap_method="expand_dims")

    def _call(self, observations: np.ndarray) -> np.ndarray:
        rows = np.asarray(observations).reshape(-1, np.shape(observations)[-1])
        probabilities = np.asarray(self.probabilities(rows), np.float32)
        return probabilities.reshape(*np.shape(observations)[:-1], self.action_count)


def as_act(policy: Any) -> Act:
    """A policy as simulators call it, one observation at a time."""
    if isinstance(policy, Policy | TreePolicy):
        return with_noise(policy, share=1.0)
    if isinstance(policy, PathPolicy):
        step = jnp.asarray(policy.step, jnp.float32)
        return Blended(as_act(policy.today), as_act(policy.goal), step, policy.way == "geometric")
    if isinstance(policy, eqx.Module):
        return policy  # pyright: ignore[reportReturnType]
    return Untraced(policy.probabilities, len(policy.action_names))


def _trees_with_noise(policy: TreePolicy, share: float) -> NoisyTrees:
    size = 1 << (len(policy.feature) - 1).bit_length()

    def padded(values: np.ndarray, dtype) -> Array:
        padding = [(0, size - len(values))] + [(0, 0)] * (values.ndim - 1)
        return jnp.asarray(np.pad(values, padding), dtype)

    return NoisyTrees(
        feature=padded(policy.feature, jnp.int32),
        threshold=padded(policy.threshold, jnp.float32),
        children=padded(policy.children, jnp.int32),
        value=padded(policy.value, jnp.float32),
        roots=jnp.asarray(policy.roots),
        depth=jnp.asarray(policy.depth, jnp.int32),
        epsilon=jnp.asarray(policy.epsilon, jnp.float32),
        share=jnp.asarray(share, jnp.float32),
    )


def shipped(name: str) -> Policy:
    """One of the policies in the package: `hiv`, `hiv-weak`."""
    with as_file(files("statewise.domains") / "weights" / f"{name}.safetensors") as path:
        return Policy.load(path)
