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

Where a limit cuts episodes off, w is a function of state and time together, w(s, t) = βᵀφ(s, t): the renewal chain of
pairs (s, t), in which the last step before the limit leads to a fresh start. Its features are products of those of the
state and of piecewise-linear functions of time (`ops.clock`), rotated and scaled together. With every state and every
step a feature of its own, w(s, t) = d^π_t(s)/d^μ_t(s) exactly, up to scale. What changes slowly with time is hard to
tell from what does not change, so that two things are different there. ρ, whose mean is 1 in every state, also stands
before ψ(s): the noise is then that of changes from one step to the next. And ‖Mβ‖² becomes Mβ · (BBᵀ + ε²I)⁻¹Mβ, with B
the M of the behaviour itself: an imbalance counts by how long the chain remembers it, up to about 1/ε steps.

λ is chosen on the data. The log is cut into three folds by episode; w is solved on one, and its loss measured on the
other two as the product (Mβ)₂·(Mβ)₃: like the paper's two batches, this is free of the noise that a square would add.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from statewise.data.clock import has_clock
from statewise.data.dataset import Dataset
from statewise.data.device import after_last
from statewise.ops.clock import hats, joint_moment, knots, smoothness
from statewise.ops.kernels import fourier_features
from statewise.parts.chain import Chain

FOLDS = 3
FORGETTING = 0.1  # ε


@dataclass(frozen=True)
class ClosedForm:
    """Settings of the closed-form estimator."""

    features: int = 300
    bandwidth: float | None = None  # None: the median distance between logged states
    whiten: bool = True  # False: test functions are weighted by the kernel's spectrum, as in the kernel loss
    rank: int = 64  # how many principal directions of the features are kept …
    smallest: float = 1e-6  # … if their variance is at least this share of the largest one's
    regularisation: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)  # to choose from; with one, λ is fixed
    clock: bool = True  # it is w(s, t) where a limit cuts episodes off …
    knots: int = 12  # … linear in time between so many steps …
    timed_rank: int = 128  # … and how many directions of state and time together are kept
    rows: int = 20_000  # at most so many per solve in the training loop, drawn afresh each time
    clip: float | None = None


class Basis(eqx.Module):
    """x ↦ φ(x), features with E_μ[φφᵀ] = I on the log they were made for, and their weights as test functions."""

    features: Callable[[Array], Array] | None  # Fourier features, or others; None: the observations themselves
    turn: Float[Array, "raw rank"]
    importance: Float[Array, " tests"]
    knots: Int[Array, " knots"] | None = None  # of φ(s, t); None: of φ(s)
    timed: Float[Array, "knots rank tests"] | None = None

    def __call__(
        self, states: Float[Array, "n inputs"], times: Int[np.ndarray, " n"] | None = None
    ) -> Float[Array, "n tests"]:
        phi = (states if self.features is None else self.features(states)) @ self.turn
        if self.knots is None or self.timed is None:
            return phi
        assert times is not None
        shares = jnp.asarray(hats(times, np.asarray(self.knots)), phi.dtype)
        return reduce(jnp.add, [shares[:, j, None] * (phi @ turn) for j, turn in enumerate(self.timed)])


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
    memory: Float[Array, "rank rank"] | None = None  # (BBᵀ + ε²I)^−½ where there is a limit


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
    times: Int[np.ndarray, " n"] | None = None,
    limit: int | None = None,
) -> Basis:
    """Fourier features, rotated to their principal directions on the log and scaled to second moment 1.

    `weight` is γᵗ of each row, where the equations weight rows so. ‖β‖² must be a second moment under the same weights
    under which aᵀβ = 1 is the mean: only then does λ pull w towards 1, its value where policy and behaviour agree.
    """
    features = fourier_features(key, states.shape[1], settings.features, bandwidth)
    values = np.asarray(features(jnp.asarray(states, jnp.float32)), np.float64)
    if times is None or limit is None:
        return turned(settings, features, values, weight)
    return turned_together(settings, features, values, weight, times, limit)


def turned(
    settings: ClosedForm,
    features: Callable[[Array], Array] | None,
    values: Float[np.ndarray, "n raw"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> Basis:
    share = np.full(len(values), 1 / len(values)) if weight is None else weight / weight.sum()
    directions, size = _principal(values.T @ (share[:, None] * values), settings.rank, settings.smallest)
    importance = np.ones(len(size)) if settings.whiten else size
    return Basis(features, jnp.asarray(directions / size, jnp.float32), jnp.asarray(importance, jnp.float32))


def turned_together(
    settings: ClosedForm,
    features: Callable[[Array], Array] | None,
    values: Float[np.ndarray, "n raw"],
    weight: Float[np.ndarray, " n"] | None,
    times: Int[np.ndarray, " n"],
    limit: int,
) -> Basis:
    """φ(s, t): the principal directions of products of the state's and of smooth functions of time."""
    share = np.full(len(values), 1 / len(values)) if weight is None else weight / weight.sum()
    states, _ = _principal(values.T @ (share[:, None] * values), settings.rank, settings.smallest)
    at = knots(times, limit, settings.knots)
    smooth = smoothness(at)
    moment = joint_moment(values @ states, hats(times, at), share)
    moment = np.einsum("jm,jrks,kn->mrns", smooth, moment, smooth, optimize=True)
    count, rank = moment.shape[:2]
    joint, size = _principal(moment.reshape(count * rank, -1), settings.timed_rank, settings.smallest)
    timed = np.einsum("jm,mrq->jrq", smooth, (joint / size).reshape(count, rank, -1))
    importance = np.ones(len(size)) if settings.whiten else size
    return Basis(
        features,
        turn=jnp.asarray(states, jnp.float32),
        importance=jnp.asarray(importance, jnp.float32),
        knots=jnp.asarray(at, jnp.int32),
        timed=jnp.asarray(timed, jnp.float32),
    )


def _principal(
    moment: Float[np.ndarray, "raw raw"], rank: int, smallest: float
) -> tuple[Float[np.ndarray, "raw rank"], Float[np.ndarray, " rank"]]:
    """The directions of largest variance, and their deviations."""
    variance, directions = np.linalg.eigh(moment)
    variance, directions = variance[-rank:], directions[:, -rank:]
    kept = variance > smallest * variance[-1]
    # a direction that is dropped becomes a feature that is 0 everywhere, so that shapes are the same for every log
    return directions * kept, np.sqrt(np.where(kept, variance, 1.0))


def make_flow(basis: Basis, dataset: Dataset, chain: Chain, seed: int = 0) -> Flow:
    """Evaluates the features on every state, once for all policies, and cuts the log into folds by episode."""
    if dataset.episodes < FOLDS:
        raise ValueError(f"a state ratio needs at least {FOLDS} episodes, the log has {dataset.episodes}")
    steps, last = len(dataset), dataset.starts[1:] - 1
    states, times = np.concatenate([dataset.observations, after_last(dataset)]), None
    if has_clock(dataset):
        states, times = states[:, :-1], np.concatenate([dataset.time, dataset.lengths])
    phi = basis(jnp.asarray(states, jnp.float32), times)
    following = np.arange(1, steps + 1)
    following[last] = steps + np.arange(dataset.episodes)
    fold = np.random.default_rng(seed).permutation(dataset.episodes)[dataset.episode_of_step] % FOLDS
    rows = [np.flatnonzero(fold == f) for f in range(FOLDS)]
    longest = max(map(len, rows))
    flow = Flow(
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
    return remembering(flow) if chain.timed else flow


def remembering(flow: Flow) -> Flow:
    """With imbalances weighted by how long the behaviour's chain of states and times remembers them."""
    rows, weight = draw_rows(flow, flow.folds.size, jax.random.key(0))
    here, arrived = _moves(flow, rows)
    own = np.asarray(_moment(arrived - here, weight, here).mean(axis=0), np.float64)
    variance, directions = np.linalg.eigh(own @ own.T)
    memory = directions / np.sqrt(np.maximum(variance, 0.0) + FORGETTING**2) @ directions.T
    return replace(flow, memory=jnp.asarray(memory, flow.phi.dtype))


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
    here, arrived = _moves(flow, rows)
    mean = jnp.einsum("fn,fnr->fr", weight, here)
    if flow.memory is not None:
        imbalance = flow.memory @ _moment(arrived - here, weight * ratio, here)
    elif flow.continuing:  # balanced where rows lead: a truncated trajectory need not end where it began
        imbalance = _moment(arrived, weight * ratio, here) - _moment(arrived, weight, arrived)
    else:
        imbalance = _moment(ratio[..., None] * arrived - here, weight, here)
    imbalance = imbalance * flow.importance[None, :, None]
    return choose(settings, imbalance, mean)


def _moves(
    flow: Flow, rows: Int[Array, "folds rows"]
) -> tuple[Float[Array, "folds rows rank"], Float[Array, "folds rows rank"]]:
    """φ of where rows are, and of where they lead."""
    here, there = flow.phi[rows], flow.phi[flow.following[rows]]
    onward = flow.onward[rows][..., None]
    return here, onward * there + (1 - onward) * flow.fresh[None, None, :]


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
