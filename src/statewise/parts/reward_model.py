"""What each action would have earned, by ridge regression: for logs in which an episode is one decision.

    Q̂(s,a) = βₐᵀx(s),     βₐ = β₀ + argmin_δ Σ_{rows of a} (r − (β₀ + δ)ᵀx)² + λ‖δ‖²,

where β₀ is fitted to all rows, so that an action with few of them is worth what others are in the same state. Whether x
holds Fourier features of the state beside the state itself, and λ, are chosen by cross-validation; so is, where rewards
take two values, whether their odds are regressed instead (`reward_odds`). The actor then follows Σ_a ∇π(a|s) Q̂(s,a) in
every logged state. One logged reward says little of its action's mean, and ρ multiplies its noise by up to 1/μ;
regression pools what all rows say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from statewise.base.column import like, parts_of
from statewise.data.dataset import Dataset
from statewise.ops.kernels import fourier_features, median_distance
from statewise.parts import reward_odds

WAVES = 64  # Fourier features
FOLDS = 5
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)  # λ, in rows
SHARED_RIDGE = 10.0  # of β₀
CAUTION = 1.0  # standard errors that are taken off, so that what was hardly tried must look better by more than chance
BLOCK = 1 << 18  # rows whose x are held at a time
CHUNK = 100_000  # of which so many are valued at a time

Design = Callable[[np.ndarray], np.ndarray]  # x of states


class Sums(NamedTuple):
    """Sufficient statistics by fold and action, or by action: Σ x xᵀ and Σ r x."""

    gram: Float[np.ndarray, "*folds actions x x"]
    moment: Float[np.ndarray, "*folds actions x"]


def single_decisions(dataset: Dataset) -> bool:
    """Every episode is one decision, after which nothing counts."""
    return int(dataset.lengths.max()) == 1 and dataset.horizon.cut_off in (None, "limit")


def expected_rewards(dataset: Dataset, seed: int = 0) -> Float[np.ndarray, "rows actions"]:
    """Q̂(s,a) − c·se(s,a) for every row and action; observations must be scaled."""
    fold = np.random.default_rng(seed).permutation(len(dataset)) % FOLDS
    designs = [_plain, _with_waves(dataset)]
    fits = [_validated(design, dataset, fold) for design in designs]
    error, ridge, design, sums = min(
        ((error, ridge, design, sums) for design, (error, ridge, sums) in zip(designs, fits, strict=True)),
        key=lambda one: one[0],
    )
    values = like(dataset.rewards, (len(dataset), dataset.action_count))
    log = reward_odds.binary(dataset)
    if log is not None:
        its_error, its_ridge = reward_odds.validated(log, fold, FOLDS)
        if its_error < error:
            return _by_odds(log, its_ridge, values)
    gram, moment = sums.gram.sum(axis=0), sums.moment.sum(axis=0)
    coefficients, inverse = _coefficients(gram, moment, ridge), np.linalg.inv(gram + _penalty(gram, ridge))
    for block, rows in _blocks(design, dataset):
        for first in range(0, len(block), CHUNK):
            x, into = block[first : first + CHUNK], values[rows][first : first + CHUNK]
            for action in range(dataset.action_count):
                variance = np.einsum("ni,ni->n", x @ inverse[action], x)
                into[:, action] = x @ coefficients[action] - CAUTION * np.sqrt(error * variance)
    return values


def _by_odds(
    log: reward_odds.Binary, ridge: float, values: Float[np.ndarray, "rows actions"]
) -> Float[np.ndarray, "rows actions"]:
    odds, rows = reward_odds.fitted(log, np.arange(len(values)), ridge), parts_of(len(values), reward_odds.BLOCK)
    for (x, _, _), into in zip(log.parts(np.arange(len(values))), rows, strict=True):
        for action in range(values.shape[1]):
            values[into][:, action] = log.low + (log.high - log.low) * odds.values(x, action, CAUTION)
    return values


def _blocks(design: Design, dataset: Dataset) -> Iterator[tuple[Float[np.ndarray, "n x"], slice]]:
    """x of some rows after others: of all rows of a long log it would take ten times the memory of the log."""
    for rows in parts_of(len(dataset), BLOCK):
        yield design(np.asarray(dataset.observations[rows], np.float64)), rows


def _plain(states: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n x"]:
    return np.concatenate([np.ones((len(states), 1)), states], axis=1)


def _with_waves(dataset: Dataset) -> Design:
    """The constant, the state, and Fourier features of unit variance or so."""
    width = dataset.observations.shape[1]
    features = fourier_features(jax.random.key(0), width, WAVES, median_distance(dataset.observations))

    def design(states: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n x"]:
        waves = np.asarray(features(jnp.asarray(states, jnp.float32)), np.float64)[:, 1:]
        return np.concatenate([_plain(states), waves * np.sqrt(WAVES / 2)], axis=1)

    return design


def _validated(design: Design, dataset: Dataset, fold: Int[np.ndarray, " n"]) -> tuple[float, float, Sums]:
    """The mean squared error on held-out folds of the best λ, that λ, and the sums."""
    sums = _sums(design, dataset, fold)
    others = [Sums(*(total.sum(axis=0) - total[f] for total in sums)) for f in range(FOLDS)]
    fitted = [[_coefficients(rest.gram, rest.moment, ridge) for ridge in RIDGES] for rest in others]
    errors = np.zeros(len(RIDGES))
    for block, rows in _blocks(design, dataset):
        for f in range(FOLDS):
            held_out = fold[rows] == f
            x, action = block[held_out], dataset.actions[rows][held_out]
            reward = np.asarray(dataset.rewards[rows], np.float64)[held_out]
            for j, coefficients in enumerate(fitted[f]):
                errors[j] += np.sum((reward - np.einsum("ni,ni->n", x, coefficients[action])) ** 2)
    best = int(errors.argmin())
    return errors[best] / len(dataset), RIDGES[best], sums


def _sums(design: Design, dataset: Dataset, fold: Int[np.ndarray, " n"]) -> Sums:
    sums: Sums | None = None
    for block, rows in _blocks(design, dataset):
        if sums is None:
            shape = FOLDS, dataset.action_count, block.shape[1]
            sums = Sums(np.zeros((*shape, block.shape[1])), np.zeros(shape))
        rewards = np.asarray(dataset.rewards[rows], np.float64)
        for f, action in np.ndindex(FOLDS, dataset.action_count):
            chosen = (fold[rows] == f) & (dataset.actions[rows] == action)
            sums.gram[f, action] += block[chosen].T @ block[chosen]
            sums.moment[f, action] += block[chosen].T @ rewards[chosen]
    assert sums is not None
    return sums


def _coefficients(
    gram: Float[np.ndarray, "actions x x"], moment: Float[np.ndarray, "actions x"], ridge: float
) -> Float[np.ndarray, "actions x"]:
    everything = gram.sum(axis=0)
    shared = np.linalg.solve(everything + _penalty(everything, SHARED_RIDGE), moment.sum(axis=0))
    own = np.linalg.solve(gram + _penalty(gram, ridge), (moment - gram @ shared)[..., None])[..., 0]
    return shared + own


def _penalty(gram: Float[np.ndarray, "*actions x x"], ridge: float) -> Float[np.ndarray, "x x"]:
    """λI, but no more than the shared λ for the constant: by how much an action is better everywhere is known best."""
    penalty = np.full(gram.shape[-1], ridge)
    penalty[0] = min(ridge, SHARED_RIDGE)
    return np.diag(penalty)
