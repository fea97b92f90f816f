"""Features of state and time together, in which the judge's ratio and critic are linear.

    f(s, t) = turn · (φ(s) ⊗ h(t)),     E_μ[f fᵀ] = I

φ are principal directions of random Fourier features, with a clock at two scales, and of each column by itself. h are
piecewise-linear hats between knots in time: with them w(s, t) and V(s, t) know how much time is left. Without a limit
h ≡ 1, and the stationary equations are what remains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Float, Int

from statewise.base.column import like, parts_of
from statewise.data.augment import Scaler
from statewise.data.dataset import Dataset
from statewise.data.device import after_last
from statewise.data.horizon import beyond
from statewise.ope.order import Order
from statewise.ope.rows import Rows
from statewise.ops.clock import knots
from statewise.ops.kernels import FourierFeatures, fourier_features, median_distance
from statewise.ops.keys import key_for
from statewise.parts import ratio_features
from statewise.parts.chain import Chain
from statewise.parts.ratio_closed_form import ClosedForm

SAMPLE = 8192  # rows that principal directions come from
HALF = 2**28  # numbers from which on features are kept in half precision, and are then what that makes of them
PART = 2048  # rows that features are computed on at a time: what lies between fits into a cache
SCALES = (1.0, 0.5)  # of the median distance between states
ROWS = 20  # for every feature and action, at least
WIDEST = (320, 384)  # features of state and time together, at most: where there are `LARGER` times as many rows, more
LARGER = 5
FEWEST, MOST = 8, 96  # features of the state for each knot
FAR = 4.0  # standard deviations, beyond which a column counts as no farther
ALONE = 0.5  # of the constant, which must never be left out
FEW = 4  # columns, which all count alike
CHANCE = 2.0  # standard errors
POOLS = 1024  # of episodes: what they add varies as they do
SMALLEST = 1e-6  # a direction with less of the greatest variance is rounding
MATTERS = 1e-5  # the share of the future beyond the limit from which on time is told
EACH = 12  # steps: a limit up to which every step has a knot of its own
EPISODES = 100  # for every further knot
KNOTS = (3, 8)
FINER = (5, 48)  # knots at least, where rows suffice for so many features of the state each


@dataclass(frozen=True, eq=False)
class States:
    """A log's states as features see them: scaled, and stretched by how much each column matters."""

    observations: Float[np.ndarray, "n columns"]
    scaler: Scaler
    relevance: Float[np.ndarray, " columns"] | float = 1.0

    def __len__(self) -> int:
        return len(self.observations)

    def __getitem__(self, rows: slice | Int[np.ndarray, " some"]) -> Float[np.ndarray, "some columns"]:
        return self.scaler(np.asarray(self.observations[rows], np.float64)) * self.relevance


@dataclass(frozen=True, eq=False)
class Waves:
    """Waves of all columns together, and each column by itself with its square: of many columns, few matter.

    In single precision, and by NumPy: the log's size would make XLA compile anew.
    """

    frequencies: Float[np.ndarray, "columns waves"]
    phases: Float[np.ndarray, " waves"]

    @classmethod
    def of(cls, features: FourierFeatures) -> Waves:
        return cls(np.asarray(features.frequencies), np.asarray(features.phases))

    def __call__(self, states: Float[np.ndarray, "n columns"]) -> Float[np.ndarray, "n raw"]:
        states = states.astype(np.float32)
        waves = states @ self.frequencies
        waves += self.phases
        np.cos(waves, out=waves)
        waves *= np.float32(np.sqrt(2 / len(self.phases)))
        near, alone = np.clip(states, -FAR, FAR), np.float32(ALONE)
        return np.concatenate([np.ones_like(waves[:, :1]), waves, alone * near, alone * (near**2 - 1)], axis=1)


def time_knots(dataset: Dataset, discount: float) -> Int[np.ndarray, " knots"] | None:
    """Where the hats stand; None where no time needs to be told."""
    cut_off, steps = dataset.horizon
    assert steps is not None
    reached = beyond(dataset, discount) > MATTERS or (cut_off == "limit" and 2 * dataset.lengths.max() >= steps)
    if steps < 2 or not reached:
        return None
    (fewest, most), (finer, each) = KNOTS, FINER
    if _affordable(len(dataset), dataset.action_count) >= finer * each:
        fewest = finer
    count = steps if steps <= EACH else min(max(2 + dataset.episodes // EPISODES, fewest), most)
    return knots(dataset.time[dataset.time < steps], steps, count)


def make_features(
    dataset: Dataset,
    scaler: Scaler,
    chain: Chain,
    order: Order,
    clock: Int[np.ndarray, " knots"] | None,
    to_come: Callable[[], Float[np.ndarray, " steps"]],
    seed: int,
    settings: ClosedForm,
) -> Rows:
    """Those of all rows, in `order`. `clock` has the knots; `to_come` gives what the log earned from each row on."""
    states = States(dataset.observations, scaler)
    if dataset.observations.shape[1] > FEW:
        group = lambda part: dataset.groups[dataset.episode_of_step[part]]  # noqa: E731
        states = replace(states, relevance=relevance_of(states, to_come(), chain.weight, group))
    sample = np.resize(np.random.default_rng(seed).permutation(len(states)), SAMPLE)
    settings = replace(settings, rank=_rank(len(dataset), dataset.action_count, clock, settings))
    scales = SCALES if clock is not None else SCALES[:1]  # with few directions, narrow waves would crowd out wide ones
    bandwidth = (settings.bandwidth or _distance(states)) * np.resize(scales, settings.features)
    columns = dataset.observations.shape[1]
    waves = Waves.of(fourier_features(key_for(jax.random.key(seed), "features"), columns, settings.features, bandwidth))
    weight = chain.weight[sample]
    drawn = waves(states[sample]).astype(np.float64)
    basis = ratio_features.turned(settings, None, drawn, weight if weight.any() else None)
    turn = np.asarray(basis.turn)
    turn = turn[:, np.abs(turn).max(axis=0) > 0]  # without the directions that were dropped
    phi = _of(waves, turn, states, order.rows)
    if clock is not None:
        return _timed(phi, order, clock, dataset.time, chain.weight)
    if chain.kind != "continuing":
        return Rows(order, phi)
    after = replace(states, observations=np.asarray(after_last(dataset)))
    return Rows(order, phi, beyond=_of(waves, turn, after, order.episodes))


def _rank(rows: int, actions: int, clock: Int[np.ndarray, " knots"] | None, settings: ClosedForm) -> int:
    """How many features of the state the log has rows for; Q̂ fits them for each action."""
    affordable = _affordable(rows, actions)
    if clock is None:
        return max(min(settings.rank, affordable), FEWEST)
    least, most = WIDEST
    width = max(min(affordable, least), min(affordable // LARGER, most)) // len(clock)
    return min(max(width, FEWEST), MOST)


def _affordable(rows: int, actions: int) -> int:
    return rows // (ROWS * actions)


def relevance_of(
    states: States | Float[np.ndarray, "n columns"],
    to_come: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    group: Callable[[slice], Int[np.ndarray, " some"]],
) -> Float[np.ndarray, " columns"]:
    """How much each column by itself tells of what is to come, by its correlation or its square's; 1 for the one most.

    Distances between states, and so the waves, follow the columns that matter. Of few, all count alike; of many, none
    counts for less than its share: it may matter together with others, or for where a policy leads. What chance alone
    tells is taken off, `CHANCE` standard errors over groups of rows (episodes or units): twenty columns of noise that
    each told a little would together drown the three that matter.
    """
    share = weight / weight.sum()
    centred = to_come - share @ to_come
    parts = [slice(a, a + PART) for a in range(0, len(share), PART)]

    def looked_at(part: slice) -> Float[np.ndarray, "n twice"]:
        near = np.clip(states[part], -FAR, FAR)
        return np.concatenate([near, near**2], axis=1)

    mean = np.sum([share[part] @ looked_at(part) for part in parts], axis=0)
    variance, together = np.zeros_like(mean), np.zeros((POOLS, len(mean)))
    for part in parts:
        values = looked_at(part) - mean
        variance += share[part] @ values**2
        pool, added = group(part) % POOLS, (share[part] * centred[part])[:, None] * values
        together += np.stack([np.bincount(pool, column, POOLS) for column in added.T], axis=1)
    beyond = np.maximum(together.sum(axis=0) ** 2 - CHANCE**2 * np.sum(together**2, axis=0), 0.0)
    spread = variance * float(share @ centred**2)
    tells = np.sqrt(np.divide(beyond, spread, out=np.zeros(len(spread)), where=spread > 1e-24))
    tells = tells.reshape(2, -1).max(axis=0)
    if not tells.any():
        return np.ones(len(tells))
    return np.clip(tells / tells.max(), min((FEW / len(tells)) ** 1.5, 1.0), 1.0)


def _distance(states: States, most: int = 1000) -> float:
    """The median distance between states, over a sample."""
    some = np.arange(len(states))
    some = some if len(some) <= most else np.random.default_rng(0).choice(len(states), most, replace=False)
    return median_distance(states[some], most)


def _of(
    waves: Waves, turn: Float[np.ndarray, "raw rank"], states: States, order: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n rank"]:
    """φ of the states, in that order."""
    size = (len(order), turn.shape[1])
    out = like(states.observations, size, np.float16 if size[0] * size[1] > HALF else np.float32)
    for part in parts_of(len(order), PART):
        out[part] = waves(states[order[part]]) @ turn
    return out


def _timed(
    phi: Float[np.ndarray, "n features"],
    order: Order,
    at: Int[np.ndarray, " knots"],
    time: Int[np.ndarray, " steps"],
    weight: Float[np.ndarray, " steps"],
) -> Rows:
    """With hats in time, turned by C^(−1/2) of C = E_μ[(φ ⊗ h)(φ ⊗ h)ᵀ], without directions that never occur."""
    each, knots = phi.shape[1], len(at)
    share, moment = weight / weight.sum(), np.zeros((knots * each, knots * each))

    def parts() -> Iterator[tuple[slice, int, Float[np.ndarray, "n each"], Float[np.ndarray, "n 1"]]]:
        """Rows between two knots, the first of them, φ, and the hat of the second."""
        for block in order.blocks:
            for span, part in block.spans:
                rows = slice(block.part.start + part.start, block.part.start + part.stop)
                later = np.clip((time[order.rows[rows]] - at[span]) / (at[span + 1] - at[span]), 0.0, 1.0)
                yield rows, span, phi[rows].astype(np.float64), later[:, None]

    for rows, span, values, later in parts():
        both, place = (
            np.concatenate([(1 - later) * values, later * values], axis=1),
            slice(span * each, (span + 2) * each),
        )
        both *= np.sqrt(share[order.rows[rows], None])
        moment[place, place] += both.T @ both
    variance, directions = np.linalg.eigh(moment)
    kept = variance > SMALLEST * variance[-1]
    turn = directions[:, kept] / np.sqrt(variance[kept])
    # each knot's own part, white by itself as far as that is more than rounding
    size, own = np.linalg.eigh(np.stack([moment[j : j + each, j : j + each] for j in range(0, len(moment), each)]))
    size = np.sqrt(np.maximum(size, SMALLEST / 10 * variance[-1]))
    whitened, features = own / size[:, None, :], like(phi, (len(phi), 2 * each), np.float32)
    for rows, span, values, later in parts():
        features[rows, :each] = (1 - later) * (values @ whitened[span])
        features[rows, each:] = later * (values @ whitened[span + 1])
    back = size[:, :, None] * np.swapaxes(own, 1, 2)
    return Rows(order, features, np.concatenate([back[j] @ turn[j * each : (j + 1) * each] for j in range(knots)]))
