"""w(s) = d^π(s)/d^μ(s) as a network, trained on the kernel minimax loss of Liu et al. (2018), Algorithms 1 and 2.

The loss is ‖E[δ k(x,·)]‖², estimated without bias from two independent batches A and B:

    D = 1/(nm) Σ_{i∈A, j∈B} δᵢ δⱼ k(xᵢ, xⱼ) / mean k

- average case (γ = 1): x = s', δ = (w(s)ρ − w(s')) / mean w;
- discounted: with probability ∝ γᵗ⁺¹ over t = −1, 0, 1, …: at t = −1 x = s₀ and δ = 1 − w(s₀); later x = sₜ₊₁ and
  δ = w(sₜ)ρₜ − w(sₜ₊₁).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from statewise.data.device import DeviceLog, Rows
from statewise.ops.kernels import rbf
from statewise.ops.keys import key_for
from statewise.ops.networks import Network, initial_network, seen_by
from statewise.parts.chain import Kind
from statewise.parts.learned import Learned, descend, in_chunks, start

CHUNK = 250  # steps whose pairs are drawn at once: 40 MB of kernels between two batches of 200
ActionRatio = Callable[[Rows], Float[Array, "*batch"]]  # ρ(s,a) of the policy whose w is fitted


@dataclass(frozen=True)
class RatioNetwork:
    """Settings of the network estimator."""

    hidden: tuple[int, ...] = (32,)  # layers of w
    learning_rate: float = 1e-3  # step size of Adam
    weight_decay: float = 1e-5  # decoupled: inside Adam it would drown the small gradient of the kernel loss
    batch: int = 200  # rows in each step
    steps: int = 50  # steps before each update of the policy
    warm_steps: int = 500  # steps before the first update of the policy
    bandwidth: float | None = None  # bandwidth of the kernel; None: the median distance between logged states
    clip: float | None = None  # the largest ρ; None: no limit
    clock: bool = True  # estimate w(s, t) where a limit cuts episodes off


class Pairs(eqx.Module):
    """Batches A and B of one step: what w is evaluated on, and the kernel between them."""

    state: Float[Array, "*lead pair batch features"]
    following: Float[Array, "*lead pair batch features"]
    ratio: Float[Array, "*lead pair batch"]
    begins: Float[Array, "*lead pair batch"]  # 1: t = −1, and `following` is an initial state
    weight: Float[Array, "*lead pair batch"]  # 0: there is no next state
    kernel: Float[Array, "*lead batch batch"]
    level: Float[Array, "*lead"]  # its mean, by which the loss is divided


def optimiser(settings: RatioNetwork) -> optax.GradientTransformation:
    return optax.adamw(settings.learning_rate, weight_decay=settings.weight_decay)


def initial(settings: RatioNetwork, features: int, key: Key[Array, ""]) -> Learned:
    return start(initial_network(key, (features, *settings.hidden, 1)), optimiser(settings))


def state_ratio(network: Network, states: Float[Array, "*batch features"]) -> Float[Array, "*batch"]:
    """w(s) = softplus(network(s)) > 0."""
    return jax.nn.softplus(network(seen_by(network, states))[..., 0])


def fit(
    settings: RatioNetwork,
    learned: Learned,
    action_ratio: ActionRatio,
    log: DeviceLog,
    chain: Kind,
    bandwidth: Float[Array, ""],
    steps: int,
    key: Key[Array, ""],
) -> Learned:
    """`steps` updates of w for a fixed policy. Rows, ρ and kernels, which need no w, are computed ahead in chunks."""
    loss = discounted_loss if chain == "discounted" else average_loss

    def chunk(learned: Learned, key: Key[Array, ""], count: int) -> Learned:
        pairs = draw_pairs(settings, action_ratio, log, chain, bandwidth, count, key)
        return descend(learned, optimiser(settings), loss, pairs)[0]

    return in_chunks(chunk, learned, steps, CHUNK, key)


def draw_pairs(
    settings: RatioNetwork,
    action_ratio: ActionRatio,
    log: DeviceLog,
    chain: Kind,
    bandwidth: Float[Array, ""],
    steps: int,
    key: Key[Array, ""],
) -> Pairs:
    count = steps * 2 * settings.batch
    rows = log.draw(key_for(key, "rows"), count, discounted=chain == "discounted")
    ratio = action_ratio(rows)
    begins, weight = jnp.zeros(count), rows.usable
    if chain == "renewal":
        following, weight = log.renewed(key_for(key, "renewal"), rows), jnp.ones(count)
    elif chain == "continuing":
        following = rows.next_state
    else:
        begins = (jax.random.uniform(key_for(key, "begins"), (count,)) < log.first_share).astype(jnp.float32)
        fresh = log.draw_initial(key_for(key, "initial"), count)
        following = jnp.where(begins[:, None] > 0, fresh, rows.next_state)
        weight = jnp.where(begins > 0, 1.0, rows.usable * (1 - rows.terminated))

    def shaped(values: Array) -> Array:
        return values.reshape(steps, 2, settings.batch, *values.shape[1:])

    points = shaped(following)
    kernel = jax.vmap(rbf, in_axes=(0, 0, None))(points[:, 0], points[:, 1], bandwidth)
    level = jnp.mean(kernel, axis=(1, 2))
    return Pairs(shaped(rows.state), points, shaped(ratio), shaped(begins), shaped(weight), kernel, level)


def average_loss(network: Network, pairs: Pairs) -> Float[Array, ""]:
    here, there = _both(network, pairs)
    scale = jnp.mean(here * pairs.weight, axis=-1, keepdims=True)
    delta = pairs.weight * (here * pairs.ratio - there) / scale
    return _quadratic(delta, pairs)


def discounted_loss(network: Network, pairs: Pairs) -> Float[Array, ""]:
    here, there = _both(network, pairs)
    delta = pairs.weight * jnp.where(pairs.begins > 0, 1.0 - there, here * pairs.ratio - there)
    return _quadratic(delta, pairs)


def _both(network: Network, pairs: Pairs) -> tuple[Float[Array, "pair batch"], Float[Array, "pair batch"]]:
    """w at the states and at those that follow, in one pass through the network."""
    stacked = state_ratio(network, jnp.stack([pairs.state, pairs.following]))
    return stacked[0], stacked[1]


def _quadratic(delta: Float[Array, "pair batch"], pairs: Pairs) -> Float[Array, ""]:
    size = delta.shape[-1]
    return delta[0] @ pairs.kernel @ delta[1] / (size**2 * pairs.level)
