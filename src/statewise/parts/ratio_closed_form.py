"""w(s) = d^π(s)/d^μ(s) in closed form: the stationarity equations, solved over all rows in kernel features.

On the renewal chain (an episode that ends, or is discounted away, starts again) w satisfies, for every test function ψ,

    E_μ[w(s) ρ(s,a) (γc ψ(s') + (1 − γc) ψ̄₀)] = E_μ[w(s) ψ(s)],     E_μ[w(s)] = 1,

with c = 0 where the episode ends, ψ̄₀ the mean of ψ over initial states, and E_μ over rows weighted by γᵗ. On a
continuing chain c = 1, and w is balanced at the states that rows lead to. With w = βᵀφ this is Mβ = 0, aᵀβ = 1, where M
and a are sums over rows:

    β = argmin ‖Mβ‖² + λ‖β‖²  subject to  aᵀβ = 1,     β ∝ (MᵀM + λI)⁻¹a.

Features are random Fourier features of the RBF kernel, rotated and scaled so that E_μ[φφᵀ] = I: ‖β‖² is then the second
moment of w. They are the test functions too, with equal weights; `whiten=False` weights them by the kernel's spectrum
instead, which is exactly the kernel loss and shrinks w far more.

λ is chosen on the data. The log is cut into three folds by episode; w is solved on one, and its loss measured on the
other two as the product (Mβ)₂·(Mβ)₃: like the paper's two batches, this is free of the noise that a square would add.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from statewise.data.dataset import Dataset
from statewise.data.device import after_last
from statewise.ops.kernels import fourier_features
from statewise.parts.chain import Chain

FOLDS = 3


@dataclass(frozen=True)
class ClosedForm:
    """Settings of the closed-form estimator."""

    features: int = 300
    bandwidth: float | None = None  # None: the median distance between logged states
    whiten: bool = True  # False: test functions are weighted by the kernel's spectrum, as in the kernel loss
    rank: int = 64  # how many principal directions of the features are kept …
    smallest: float = 1e-6  # … if their variance is at least this share of the largest one's
    regularisation: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)  # to choose from; with one, λ is fixed
    rows: int = 20_000  # at most so many per solve in the training loop, drawn afresh each time
    clip: float | None = None


class Basis(eqx.Module):
    """x ↦ φ(x), features with E_μ[φφᵀ] = I on the log they were made for, and their weights as test functions."""

    features: Callable[[Array], Array] | None  # Fourier features, or others; None: the observations themselves
    turn: Float[Array, "raw rank"]
    importance: Float[Array, " rank"]

    def __call__(self, states: Float[Array, "n inputs"]) -> Float[Array, "n rank"]:
        return (states if self.features is None else self.features(states)) @ self.turn


class Flow(eqx.Module):
    """What the equations need from the log, whatever the policy."""

    phi: Float[Array, "states rank"]  # φ of every decision's state, then of the states in which episodes ended
    following: Int[Array, " steps"]  # which of them each row leads to …
    onward: Float[Array, " steps"]  # … with probability γc; otherwise the episode restarts
    weight: Float[Array, " steps"]  # γᵗ; 0 where the next state is unknown
    fresh: Float[Array, " rank"]  # φ̄₀
    folds: Int[Array, "folds rows"]  # the rows of each fold, padded …
    sizes: Int[Array, " folds"]  # … and how many of them are real
    importance: Float[Array, " rank"]
    continuing: bool = eqx.field(static=True)


class Solution(eqx.Module):
    """w = βᵀφ, and how far to trust it."""

    beta: Float[Array, " rank"]
    regularisation: Float[Array, ""]
    residual: Float[Array, ""]  # held-out loss of the chosen λ: 0 for the true w, up to noise


def make_basis(
    settings: ClosedForm,
    states: Float[np.ndarray, "n inputs"],
    bandwidth: float | np.ndarray,
    key: Key[Array, ""],
    weight: Float[np.ndarray, " n"] | None = None,
) -> Basis:
    """Fourier features, rotated to their principal directions on the log and scaled to second moment 1.

    `weight` is γᵗ of each row, where the equations weight rows so. ‖β‖² must be a second moment under the same weights
    under which aᵀβ = 1 is the mean: only then does λ pull w towards 1, its value where policy and behaviour agree.
    """
    features = fourier_features(key, states.shape[1], settings.features, bandwidth)
    return turned(settings, features, np.asarray(features(jnp.asarray(states, jnp.float32)), np.float64), weight)


def turned(
    settings: ClosedForm,
    features: Callable[[Array], Array] | None,
    values: Float[np.ndarray, "n raw"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> Basis:
    share = np.full(len(values), 1 / len(values)) if weight is None else weight / weight.sum()
    variance, directions = np.linalg.eigh(values.T @ (share[:, None] * values))
    variance, directions = variance[-settings.rank :], directions[:, -settings.rank :]
    kept = variance > settings.smallest * variance[-1]
    # a direction that is dropped becomes a feature that is 0 everywhere, so that shapes are the same for every log
    size = np.sqrt(np.where(kept, variance, 1.0))
    importance = np.ones(len(size)) if settings.whiten else size
    return Basis(features, jnp.asarray(directions * kept / size, jnp.float32), jnp.asarray(importance, jnp.float32))


def make_flow(basis: Basis, dataset: Dataset, chain: Chain, seed: int = 0) -> Flow:
    """Evaluates the features on every state, once for all policies, and cuts the log into folds by episode."""
    if dataset.episodes < FOLDS:
        raise ValueError(f"a state ratio needs at least {FOLDS} episodes, the log has {dataset.episodes}")
    steps, last = len(dataset), dataset.starts[1:] - 1
    states = np.concatenate([dataset.observations, after_last(dataset)])
    phi = basis(jnp.asarray(states, jnp.float32))
    following = np.arange(1, steps + 1)
    following[last] = steps + np.arange(dataset.episodes)
    fold = np.random.default_rng(seed).permutation(dataset.episodes)[dataset.episode_of_step] % FOLDS
    rows = [np.flatnonzero(fold == f) for f in range(FOLDS)]
    longest = max(map(len, rows))
    return Flow(
        phi=phi,
        following=jnp.asarray(following, jnp.int32),
        onward=jnp.asarray(chain.onward, jnp.float32),
        weight=jnp.asarray(chain.weight, jnp.float32),
        fresh=phi[jnp.asarray(dataset.starts[:-1])].mean(axis=0),
        folds=jnp.asarray(np.stack([np.resize(one, longest) for one in rows]), jnp.int32),
        sizes=jnp.asarray([len(one) for one in rows], jnp.int32),
        importance=basis.importance,
        continuing=chain.kind == "continuing",
    )


def draw_rows(
    flow: Flow, most: int, key: Key[Array, ""]
) -> tuple[Int[Array, "folds rows"], Float[Array, "folds rows"]]:
    """All rows by fold, or a fresh draw of `most` of them, and their weights, which sum to 1 in each fold."""
    longest = flow.folds.shape[1]
    if longest * FOLDS <= most + FOLDS:
        rows = flow.folds
        real = jnp.arange(longest)[None, :] < flow.sizes[:, None]
        weight = flow.weight[rows] * real
    else:
        place = jax.random.randint(key, (FOLDS, most // FOLDS), 0, flow.sizes[:, None])
        rows = jnp.take_along_axis(flow.folds, place, axis=1)
        weight = flow.weight[rows]
    return rows, weight / jnp.sum(weight, axis=1, keepdims=True)


def solve(
    settings: ClosedForm,
    flow: Flow,
    rows: Int[Array, "folds rows"],
    weight: Float[Array, "folds rows"],
    ratio: Float[Array, "folds rows"],
) -> Solution:
    """β for the policy with these values of ρ (`ratio`) on those rows."""
    here, there = flow.phi[rows], flow.phi[flow.following[rows]]
    onward = flow.onward[rows][..., None]
    arrived = onward * there + (1 - onward) * flow.fresh[None, None, :]
    mean = jnp.einsum("fn,fnr->fr", weight, here)
    if flow.continuing:  # balanced where rows lead: a truncated trajectory need not end where it began
        imbalance = _moment(arrived, weight * ratio, here) - _moment(arrived, weight, arrived)
    else:
        imbalance = _moment(ratio[..., None] * arrived - here, weight, here)
    imbalance = imbalance * flow.importance[None, :, None]
    return choose(settings, imbalance, mean)


def _moment(
    left: Float[Array, "folds rows rank"], weight: Float[Array, "folds rows"], right: Float[Array, "folds rows rank"]
) -> Float[Array, "folds rank rank"]:
    return jnp.einsum("fnr,fns->frs", left, weight[..., None] * right)


def choose(
    settings: ClosedForm, imbalance: Float[Array, "folds tests rank"], mean: Float[Array, "folds rank"]
) -> Solution:
    """The solution on all folds, with the λ that does best on held-out folds."""
    choices = jnp.asarray(settings.regularisation)
    losses = jax.vmap(lambda choice: held_out_loss(imbalance, mean, choice))(choices)
    best = jnp.argmin(losses)
    beta = constrained(imbalance.mean(axis=0), mean.mean(axis=0), choices[best])
    return Solution(beta, choices[best], losses[best])


def constrained(
    imbalance: Float[Array, "tests rank"], mean: Float[Array, " rank"], regularisation: Float[Array, ""]
) -> Float[Array, " rank"]:
    """β = argmin ‖Mβ‖² + λ‖β‖² subject to aᵀβ = 1."""
    normal = imbalance.T @ imbalance + regularisation * jnp.eye(mean.shape[0])
    beta = jax.scipy.linalg.solve(normal, mean, assume_a="pos")
    return beta / (mean @ beta)


def held_out_loss(
    imbalance: Float[Array, "folds tests rank"],
    mean: Float[Array, "folds rank"],
    regularisation: Float[Array, ""],
    tests: int | None = None,
) -> Float[Array, ""]:
    """Σ_f (M_g β_f)·(M_h β_f) over the folds f, with g and h the other two; only of the first `tests` rows of M."""

    def tested(f: Int[Array, ""]) -> Float[Array, ""]:
        beta = constrained(imbalance[f], mean[f], regularisation)
        one, other = (f + 1) % FOLDS, (f + 2) % FOLDS
        left = imbalance[one, :tests] @ beta / (mean[one] @ beta)
        return left @ (imbalance[other, :tests] @ beta) / (mean[other] @ beta)

    return jnp.sum(jax.vmap(tested)(jnp.arange(FOLDS)))
