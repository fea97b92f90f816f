"""Policies that write logs: uniform, or a policy file mixed with uniform noise; observation in, probabilities out."""

from __future__ import annotations

from importlib.resources import as_file, files

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statewise.domains.cartpole import CARTPOLE
from statewise.domains.hiv import HIV
from statewise.domains.simulate import Act, Domain
from statewise.ops.networks import Network
from statewise.policy_file import Policy

# The paper's μ = .7·π̂ + .3·uniform
LEARNED_SHARE = 0.7


class Uniform(eqx.Module):
    """Every action alike."""

    action_count: int = eqx.field(static=True)

    def __call__(self, observation: Float[Array, " features"]) -> Float[Array, " actions"]:
        return jnp.full(self.action_count, 1 / self.action_count)


class Noisy(eqx.Module):
    """π(·|s) = share · softmax(network((s − mean)/std)) + (1 − share) · uniform."""

    network: Network
    mean: Float[Array, " features"]
    std: Float[Array, " features"]
    share: Float[Array, ""]  # an array, so that policies of any share are one compiled program

    def __call__(self, observation: Float[Array, " features"]) -> Float[Array, " actions"]:
        learned = jax.nn.softmax(self.network((observation - self.mean) / self.std))
        return self.share * learned + (1 - self.share) / learned.shape[0]


def with_noise(policy: Policy, share: float = LEARNED_SHARE) -> Noisy:
    """A policy that keeps to its own choice with probability `share` and acts uniformly otherwise."""

    def single(values: np.ndarray) -> Array:
        return jnp.asarray(values, jnp.float32)

    network = Network(tuple(map(single, policy.weights)), tuple(map(single, policy.biases)))
    return Noisy(network, single(policy.mean), single(policy.std), jnp.asarray(share, jnp.float32))


def shipped(name: str) -> Policy:
    """One of the policies that come with the package: `hiv`, `hiv-weak`."""
    with as_file(files("statewise.domains") / "weights" / f"{name}.safetensors") as path:
        return Policy.load(path)


def domain_and_behaviour(name: str) -> tuple[Domain, Act]:
    """The simulator and the policy behind each log that `statewise collect` writes."""
    if name == "cartpole":
        return CARTPOLE, Uniform(len(CARTPOLE.action_names))
    if name in ("hiv", "hiv-weak"):
        return HIV, with_noise(shipped(name))
    raise ValueError(f"there is no domain '{name}'; there are cartpole, hiv and hiv-weak")


DOMAINS = ("cartpole", "hiv", "hiv-weak")
