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
from jaxtyping import Array, Float, Int, Key

from statewise.data.device import DeviceLog, Rows
from statewise.ops.kernels import rbf
from statewise.ops.keys import key_for
from statewise.ops.loops import gathers_ahead, in_turn
from statewise.ops.networks import Network, initial_network, seen_by
from statewise.parts.chain import Kind
from statewise.parts.learned import Learned, descend_once, in_chunks, start

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


class Drawn(eqx.Module):
    """Which rows make batches A and B."""

    rows: Int[Array, "*lead pair batch"]
    fresh: Int[Array, "*lead pair batch"] | None  # first rows of episodes, where chains start anew
    begins: Float[Array, "*lead pair batch"]  # 1: t = −1


class Pairs(eqx.Module):
    """Batches A and B of one step: what w is evaluated on, and the kernel between them."""

    points: Float[Array, "*lead two pair batch features"]  # states, and those that follow: one pass through the network
    ratio: Float[Array, "*lead pair batch"]
    begins: Float[Array, "*lead pair batch"]  # 1: t = −1, and `following` is an initial state
    weight: Float[Array, "*lead pair batch"]  # 0: there is no next state
    kernel: Float[Array, "*lead batch batch"]
    level: Float[Array, "*lead"]  # its mean, by which the loss is divided

    @property
    def state(self) -> Float[Array, "*lead pair batch features"]:
        return self.points[..., 0, :, :, :]

    @property
    def following(self) -> Float[Array, "*lead pair batch features"]:
        return self.points[..., 1, :, :, :]


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
    """`steps` updates of w for a fixed policy; rows are drawn ahead in chunks.

    ρ and kernels, which need no w, are computed ahead too where that saves launches, and in each step on a CPU.
    """
    loss, ahead = discounted_loss if chain == "discounted" else average_loss, gathers_ahead()

    def chunk(learned: Learned, key: Key[Array, ""], count: int) -> Learned:
        drawn = draw(settings, log, chain, count, key)

        def step(learned: Learned, batch: Drawn | Pairs) -> tuple[Learned, Float[Array, ""]]:
            pairs = pairs_of(action_ratio, log, chain, bandwidth, batch) if isinstance(batch, Drawn) else batch
            return descend_once(learned, optimiser(settings), lambda network: loss(network, pairs))

        batches = pairs_of(action_ratio, log, chain, bandwidth, drawn) if ahead else drawn
        return in_turn(step, learned, batches)[0]

    return in_chunks(chunk, learned, steps, CHUNK, key)


def draw(settings: RatioNetwork, log: DeviceLog, chain: Kind, steps: int, key: Key[Array, ""]) -> Drawn:
    """The batches of so many steps."""
    count = steps * 2 * settings.batch
    sampler = log.discounted if chain == "discounted" else log.uniform
    rows, begins, fresh = sampler.draw(key_for(key, "rows"), count), jnp.zeros(count), None
    if chain == "discounted":
        begins = (jax.random.uniform(key_for(key, "begins"), (count,)) < log.first_share).astype(jnp.float32)
    if chain != "continuing":
        fresh = log.draw_first_rows(key_for(key, "renewal" if chain == "renewal" else "initial"), count)
    return Drawn(*jax.tree.map(lambda leaf: leaf.reshape(steps, 2, settings.batch), (rows, fresh, begins)))


def pairs_of(
    action_ratio: ActionRatio, log: DeviceLog, chain: Kind, bandwidth: Float[Array, ""], drawn: Drawn
) -> Pairs:
    """What is needed of the rows, for one step or for several."""
    rows, begins = log.rows.take(drawn.rows), drawn.begins
    following, weight = rows.next_state, rows.usable
    if drawn.fresh is not None:
        anew = rows.last if chain == "renewal" else begins
        following = jnp.where(anew[..., None] > 0, log.rows.take(drawn.fresh).state, following)
        known = 1.0 if chain == "renewal" else rows.usable * (1 - rows.terminated)
        weight = jnp.where(anew > 0, 1.0, known)
    of_points = rbf
    for _ in drawn.rows.shape[:-2]:
        of_points = jax.vmap(of_points, in_axes=(0, 0, None))
    kernel = of_points(following[..., 0, :, :], following[..., 1, :, :], bandwidth)
    level = jnp.mean(kernel, axis=(-2, -1))
    points = jnp.stack([rows.state, following], axis=-4)
    return Pairs(points, action_ratio(rows), begins, weight, kernel, level)


def average_loss(network: Network, pairs: Pairs) -> Float[Array, ""]:
    here, there = state_ratio(network, pairs.points)
    delta = pairs.weight * (here * pairs.ratio - there)
    # δ is divided by mean w of its own batch; the loss by both means, so that δ need not wait for them
    return _quadratic(delta, pairs) / jnp.prod(jnp.mean(here * pairs.weight, axis=-1))


def discounted_loss(network: Network, pairs: Pairs) -> Float[Array, ""]:
    here, there = state_ratio(network, pairs.points)
    delta = pairs.weight * jnp.where(pairs.begins > 0, 1.0 - there, here * pairs.ratio - there)
    return _quadratic(delta, pairs)


def _quadratic(delta: Float[Array, "pair batch"], pairs: Pairs) -> Float[Array, ""]:
    size = delta.shape[-1]
    return delta[0] @ pairs.kernel @ delta[1] / (size**2 * pairs.level)
