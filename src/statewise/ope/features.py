"""Features of state and time together, in which the judge's ratio and critic are linear.

    f(s, t) = turn · (φ(s) ⊗ h(t)),     E_μ[f fᵀ] = I

φ are principal directions of random Fourier features, with a clock at two scales, and of each column by itself. h are
piecewise-linear hats between knots in time: with them w(s, t) and V(s, t) know how much time is left. Without a limit
h ≡ 1, and the stationary equations are what remains.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from statewise.data.augment import Scaler
from statewise.data.dataset import Dataset
from statewise.data.device import after_last
from statewise.data.horizon import beyond
from statewise.ops.clock import hats, joint_moment, knots
from statewise.ops.kernels import FourierFeatures, fourier_features, median_distance
from statewise.ops.keys import key_for
from statewise.parts import ratio_closed_form
from statewise.parts.chain import Chain
from statewise.parts.ratio_closed_form import Basis, ClosedForm

BLOCK = 8192  # rows that features are computed on at a time, so that logs of all sizes share one compiled program
SCALES = (1.0, 0.5)  # of the median distance between states
ROWS = 20  # for every feature and action, at least
WIDEST = (256, 384)  # features of state and time together, at most: where there are `LARGER` times as many rows, more
LARGER = 5
FEWEST, MOST = 8, 96  # features of the state for each knot
FAR = 4.0  # standard deviations, beyond which a column counts as no farther
ALONE = 0.5  # of the constant, which must never be left out
FEW = 4  # columns, which all count alike
CHANCE = 3.0  # standard errors
SMALLEST = 1e-6  # a direction with less of the greatest variance is rounding
MATTERS = 1e-5  # the share of the future beyond the limit from which on time is told
EACH = 12  # steps: a limit up to which every step has a knot of its own
EPISODES = 100  # for every further knot
KNOTS = (3, 8)


class Raw(eqx.Module):
    """Waves of all columns together, and each column by itself with its square: of many columns, few matter."""

    waves: FourierFeatures

    def __call__(self, states: Float[Array, "n inputs"]) -> Float[Array, "n raw"]:
        near = jnp.clip(states, -FAR, FAR)
        return jnp.concatenate([self.waves(states), ALONE * near, ALONE * (near**2 - 1)], axis=1)


class Features(NamedTuple):
    """f of every row's state, and of the state after it at the time after it; single precision."""

    here: Float[np.ndarray, "steps rank"]
    after: Float[np.ndarray, "steps rank"]


def time_knots(dataset: Dataset, discount: float) -> Int[np.ndarray, " knots"] | None:
    """Where the hats stand; None where no time needs to be told."""
    cut_off, steps = dataset.horizon
    assert steps is not None
    reached = beyond(dataset, discount) > MATTERS or (cut_off == "limit" and 2 * dataset.lengths.max() >= steps)
    if steps < 2 or not reached:
        return None
    fewest, most = KNOTS
    count = steps if steps <= EACH else min(max(2 + dataset.episodes // EPISODES, fewest), most)
    return knots(dataset.time[dataset.time < steps], steps, count)


def make_features(
    dataset: Dataset,
    scaler: Scaler,
    chain: Chain,
    clock: Int[np.ndarray, " knots"] | None,
    to_come: Float[np.ndarray, " steps"],
    seed: int,
    settings: ClosedForm,
) -> Features:
    """Those of all rows. `clock` has the knots; `to_come` is what the log earned from each row on."""
    states = scaler(np.asarray(dataset.observations, np.float64))
    relevance = relevance_of(states, to_come, chain.weight)
    states = states * relevance
    sample = np.resize(np.random.default_rng(seed).permutation(len(states)), BLOCK)
    settings = replace(settings, rank=_rank(len(dataset), dataset.action_count, clock, settings))
    scales = SCALES if clock is not None else SCALES[:1]  # with few directions, narrow waves would crowd out wide ones
    bandwidth = (settings.bandwidth or median_distance(states)) * np.resize(scales, settings.features)
    waves = fourier_features(key_for(jax.random.key(seed), "features"), states.shape[1], settings.features, bandwidth)
    weight = chain.weight[sample]
    drawn = np.asarray(Raw(waves)(jnp.asarray(states[sample], jnp.float32)), np.float64)
    basis = ratio_closed_form.turned(settings, Raw(waves), drawn, weight if weight.any() else None)
    phi = _of(basis, states)
    following = np.append(phi[1:], phi[:1], axis=0)
    if chain.kind == "continuing":
        last = dataset.starts[1:] - 1
        following[last] = _of(basis, relevance * scaler(np.asarray(after_last(dataset), np.float64)))
    if clock is None:
        return Features(phi, following)
    now, then = hats(dataset.time, clock), hats(dataset.time + 1, clock)
    turn = _whitening(phi, now, chain.weight)
    return Features(_timed(phi, now, turn), _timed(following, then, turn))


def _rank(rows: int, actions: int, clock: Int[np.ndarray, " knots"] | None, settings: ClosedForm) -> int:
    """How many features of the state the log has rows for; Q̂ fits them for each action."""
    affordable = rows // (ROWS * actions)
    if clock is None:
        return max(min(settings.rank, affordable), FEWEST)
    least, most = WIDEST
    width = max(min(affordable, least), min(affordable // LARGER, most)) // len(clock)
    return min(max(width, FEWEST), MOST)


def relevance_of(
    states: Float[np.ndarray, "n columns"], to_come: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " columns"]:
    """How much each column by itself tells of what is to come, by its correlation or its square's; 1 for the one most.

    Distances between states, and so the waves, follow the columns that matter. Of few, all count alike; of many, none
    counts for less than its share: it may matter together with others, or for where a policy leads.
    """
    share = weight / weight.sum()
    centred = to_come - share @ to_come

    def correlation(values: Float[np.ndarray, "n columns"]) -> Float[np.ndarray, " columns"]:
        values = values - share @ values
        spread = np.sqrt((share @ values**2) * (share @ centred**2))
        return np.abs(np.divide((share * centred) @ values, spread, out=np.zeros(len(spread)), where=spread > 1e-12))

    near = np.clip(states, -FAR, FAR)
    tells = np.maximum(correlation(near), correlation(near**2))
    most = tells.max()
    if most * np.sqrt(len(states)) < CHANCE:
        return np.ones(len(tells))
    return np.clip(tells / most, min((FEW / len(tells)) ** 1.5, 1.0), 1.0)


def _of(basis: Basis, states: Float[np.ndarray, "n inputs"]) -> Float[np.ndarray, "n rank"]:
    """φ of any number of states, in blocks of one size, without the directions that were dropped."""
    kept = np.flatnonzero(np.abs(np.asarray(basis.turn)).max(axis=0) > 0)
    turn = np.zeros((basis.turn.shape[0], MOST), np.float32)
    turn[:, : len(kept)] = np.asarray(basis.turn)[:, kept]
    basis = Basis(basis.features, jnp.asarray(turn), basis.importance)
    out = np.empty((len(states), len(kept)), np.float32)
    for first in range(0, len(states), BLOCK):
        block = np.zeros((BLOCK, states.shape[1]), np.float32)
        part = states[first : first + BLOCK]
        block[: len(part)] = part
        out[first : first + len(part)] = np.asarray(_evaluate(basis, jnp.asarray(block)))[: len(part), : len(kept)]
    return out


@eqx.filter_jit
def _evaluate(basis: Basis, states: Float[Array, "n inputs"]) -> Float[Array, "n rank"]:
    return basis(states)


def _timed(phi: np.ndarray, hat: np.ndarray, turn: np.ndarray) -> Float[np.ndarray, "n rank"]:
    """turn · (φ ⊗ h), a block at a time."""
    out, turn = np.empty((len(phi), turn.shape[1]), np.float32), turn.astype(np.float32)
    for first in range(0, len(phi), BLOCK):
        part = slice(first, first + BLOCK)
        out[part] = _products(phi[part], hat[part]) @ turn
    return out


def _products(phi: np.ndarray, hat: np.ndarray) -> Float[np.ndarray, "n products"]:
    return (hat.astype(np.float32)[:, :, None] * phi[:, None, :]).reshape(len(phi), -1)


def _whitening(phi: np.ndarray, hat: np.ndarray, weight: np.ndarray) -> Float[np.ndarray, "products rank"]:
    """C^(−1/2) of C = E_μ[(φ ⊗ h)(φ ⊗ h)ᵀ], without directions that never occur."""
    size = phi.shape[1] * hat.shape[1]
    variance, directions = np.linalg.eigh(joint_moment(phi, hat, weight / weight.sum()).reshape(size, size))
    kept = variance > SMALLEST * variance[-1]
    return directions[:, kept] / np.sqrt(variance[kept])
