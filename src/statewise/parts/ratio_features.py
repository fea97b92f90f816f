"""φ of the closed form: random Fourier features, rotated and scaled so that E_μ[φφᵀ] = I on the log they are made for.

Where a limit cuts episodes off, φ(s, t) are the principal directions of products of the state's features and of
piecewise-linear functions of time (`ops.clock`).
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from functools import reduce

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from statewise.base.column import parts_of
from statewise.ops.clock import hats, joint_moment, knots, smoothness
from statewise.ops.kernels import FourierFeatures, fourier_features
from statewise.ops.placed import placed


@dataclass(frozen=True)
class ClosedForm:
    """Settings of the closed-form estimator."""

    features: int = 300  # number of random Fourier features
    bandwidth: float | None = None  # bandwidth of the kernel; None: the median distance between logged states
    whiten: bool = True  # False: test functions are weighted by the kernel's spectrum, as in the kernel loss
    rank: int = 64  # principal directions of the features that are kept
    smallest: float = 1e-6  # smallest variance of a kept direction, as a share of the largest
    regularisation: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)  # values of λ to choose from
    clock: bool = True  # estimate w(s, t) where a limit cuts episodes off
    knots: int = 12  # w(s, t) is linear in time between this many steps
    timed_rank: int = 128  # directions of state and time together that are kept
    rows: int = 20_000  # at most this many for each solve during training, drawn anew each time
    clip: float | None = None  # the largest ρ; None: no limit


class Basis(eqx.Module):
    """x ↦ φ(x), features with E_μ[φφᵀ] = I on the log they were made for, and their weights as test functions."""

    features: FourierFeatures | None  # None: the observations themselves
    turn: Float[Array, "raw rank"]
    importance: Float[Array, " tests"]
    knots: Int[Array, " knots"] | None = None  # of φ(s, t); None: of φ(s)
    timed: Float[Array, "knots rank tests"] | None = None

    def __call__(
        self, states: Float[Array, "n inputs"], times: Int[np.ndarray, " n"] | None = None
    ) -> Float[Array, "n tests"]:
        if self.knots is None:
            return _phi(self, states)
        assert times is not None
        return _phi(self, states, jnp.asarray(hats(times, np.asarray(self.knots)), self.turn.dtype))

    @eqx.filter_jit
    def combined(
        self,
        beta: Float[Array, " tests"],
        states: Float[Array, "*n inputs"],
        shares: Float[Array, "*n knots"] | None = None,
    ) -> Float[Array, "*n"]:
        """βᵀφ, without φ itself; with a clock, `shares` are the values of the hats."""
        flat = states.reshape(-1, states.shape[-1])
        by_knot = self.turn @ (beta[:, None] if self.timed is None else (self.timed @ beta).T)
        values = flat @ by_knot if self.features is None else self.features.times(flat, by_knot)
        if self.timed is None:
            return values.reshape(states.shape[:-1])
        assert shares is not None
        return jnp.sum(values.reshape(shares.shape) * shares, axis=-1)


@eqx.filter_jit
def _evaluated(features: FourierFeatures | None, states: Float[Array, "n inputs"]) -> Float[Array, "n raw"]:
    return states if features is None else features(states)


@eqx.filter_jit
def _phi(
    basis: Basis, states: Float[Array, "n inputs"], shares: Float[Array, "n knots"] | None = None
) -> Float[Array, "n tests"]:
    phi = _evaluated(basis.features, states) @ basis.turn
    if shares is None or basis.timed is None:
        return phi
    return reduce(jnp.add, [shares[:, j, None] * (phi @ turn) for j, turn in enumerate(basis.timed)])


def make_basis(
    settings: ClosedForm,
    states: Float[np.ndarray, "n inputs"],
    bandwidth: float | np.ndarray,
    key: Key[Array, ""],
    weight: Float[np.ndarray, " n"] | None = None,
    times: Int[np.ndarray, " n"] | None = None,
    limit: int | None = None,
    quick: bool = False,
) -> Basis:
    """Fourier features, rotated to their principal directions on the log and scaled to second moment 1.

    `weight` is γᵗ of each row, where the equations weight rows so. ‖β‖² must be a second moment under the same weights
    under which aᵀβ = 1 is the mean: only then does λ pull w towards 1, its value where policy and behaviour agree.
    `quick` is for features that are evaluated in every update.
    """
    features = fourier_features(key, states.shape[1], settings.features, bandwidth, quick)
    values = Evaluated(features, states)
    if times is None or limit is None:
        return turned(settings, features, values, weight)
    return turned_together(settings, features, values, weight, times, limit)


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Features of states, as an array of which only the rows that are asked for exist."""

    features: FourierFeatures
    states: Float[np.ndarray, "n inputs"]

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, rows: slice) -> Float[np.ndarray, "n raw"]:
        return np.asarray(_evaluated(self.features, jnp.asarray(self.states[rows], jnp.float32)), np.float64)


def turned(
    settings: ClosedForm,
    features: FourierFeatures | None,
    values: Float[np.ndarray, "n raw"] | Evaluated,
    weight: Float[np.ndarray, " n"] | None = None,
) -> Basis:
    directions, size = _principal(_second_moment(values, _shares(values, weight)), settings.rank, settings.smallest)
    importance = np.ones(len(size)) if settings.whiten else size
    return Basis(features, placed(directions / size, jnp.float32), placed(importance, jnp.float32))


def turned_together(
    settings: ClosedForm,
    features: FourierFeatures | None,
    values: Float[np.ndarray, "n raw"] | Evaluated,
    weight: Float[np.ndarray, " n"] | None,
    times: Int[np.ndarray, " n"],
    limit: int,
) -> Basis:
    """φ(s, t): the principal directions of products of the state's and of smooth functions of time."""
    share = _shares(values, weight)
    states, _ = _principal(_second_moment(values, share), settings.rank, settings.smallest)
    at = knots(times, limit, settings.knots)
    smooth = smoothness(at)
    parts = (joint_moment(values[some] @ states, hats(times[some], at), share[some]) for some in parts_of(len(values)))
    moment = reduce(np.add, parts)
    moment = np.einsum("jm,jrks,kn->mrns", smooth, moment, smooth, optimize=True)
    count, rank = moment.shape[:2]
    joint, size = _principal(moment.reshape(count * rank, -1), settings.timed_rank, settings.smallest)
    timed = np.einsum("jm,mrq->jrq", smooth, (joint / size).reshape(count, rank, -1))
    importance = np.ones(len(size)) if settings.whiten else size
    return Basis(
        features,
        turn=placed(states, jnp.float32),
        importance=placed(importance, jnp.float32),
        knots=placed(at, jnp.int32),
        timed=placed(timed, jnp.float32),
    )


def _shares(values: Sized, weight: Float[np.ndarray, " n"] | None) -> Float[np.ndarray, " n"]:
    return np.full(len(values), 1 / len(values)) if weight is None else weight / weight.sum()


def _second_moment(
    values: Float[np.ndarray, "n raw"] | Evaluated, share: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "raw raw"]:
    def of(some: slice) -> Float[np.ndarray, "raw raw"]:
        part = values[some]
        return part.T @ (share[some, None] * part)

    return reduce(np.add, map(of, parts_of(len(values))))


def _principal(
    moment: Float[np.ndarray, "raw raw"], rank: int, smallest: float
) -> tuple[Float[np.ndarray, "raw rank"], Float[np.ndarray, " rank"]]:
    """The directions of largest variance, and their deviations."""
    variance, directions = np.linalg.eigh(moment)
    variance, directions = variance[-rank:], directions[:, -rank:]
    kept = variance > smallest * variance[-1]
    # a direction that is dropped becomes a feature that is 0 everywhere, so that shapes are the same for every log
    return directions * kept, np.sqrt(np.where(kept, variance, 1.0))
