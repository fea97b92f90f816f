"""What each action would have earned, by ridge regression: for logs in which an episode is one decision.

    Q̂(s,a) = βₐᵀx(s),     βₐ = β₀ + argmin_δ Σ_{rows of a} (r − (β₀ + δ)ᵀx)² + λ‖δ‖²,

where β₀ is fitted to all rows, so that an action with few of them is worth what others are in the same state. Whether x
holds Fourier features of the state beside the state itself, and λ, are chosen by cross-validation. The actor then
follows Σ_a ∇π(a|s) Q̂(s,a) in every logged state. One logged reward says little of its action's mean, and ρ multiplies
its noise by up to 1/μ; regression pools what all rows say.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from statewise.data.dataset import Dataset
from statewise.ops.kernels import fourier_features, median_distance

WAVES = 64  # Fourier features
FOLDS = 5
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)  # λ, in rows
SHARED_RIDGE = 10.0  # of β₀
CAUTION = 1.0  # standard errors that are taken off, so that what was hardly tried must look better by more than chance
CHUNK = 100_000  # rows at a time


class Sums(NamedTuple):
    """Sufficient statistics by fold and action: Σ x xᵀ and Σ r x."""

    gram: Float[np.ndarray, "folds actions x x"]
    moment: Float[np.ndarray, "folds actions x"]


def single_decisions(dataset: Dataset) -> bool:
    """Every episode is one decision, after which nothing counts."""
    return int(dataset.lengths.max()) == 1 and dataset.horizon.cut_off in (None, "limit")


def expected_rewards(dataset: Dataset, seed: int = 0) -> Float[np.ndarray, "rows actions"]:
    """Q̂(s,a) − c·se(s,a) for every row and action; observations must be scaled."""
    states = np.asarray(dataset.observations, np.float64)
    rewards, actions = np.asarray(dataset.rewards, np.float64), np.asarray(dataset.actions)
    fold = np.random.default_rng(seed).permutation(len(states)) % FOLDS
    designs = [_plain(states), _with_waves(states)]
    fits = [_validated(design, actions, rewards, fold, dataset.action_count) for design in designs]
    error, ridge, design, sums = min(
        ((error, ridge, design, sums) for design, (error, ridge, sums) in zip(designs, fits, strict=True)),
        key=lambda one: one[0],
    )
    gram, moment = sums.gram.sum(axis=0), sums.moment.sum(axis=0)
    coefficients, inverse = _coefficients(gram, moment, ridge), np.linalg.inv(gram + _penalty(gram, ridge))
    values = np.empty((len(states), dataset.action_count))
    for first in range(0, len(states), CHUNK):
        x = design[first : first + CHUNK]
        for action in range(dataset.action_count):
            variance = np.einsum("ni,ni->n", x @ inverse[action], x)
            values[first : first + CHUNK, action] = x @ coefficients[action] - CAUTION * np.sqrt(error * variance)
    return values


def _plain(states: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n x"]:
    return np.concatenate([np.ones((len(states), 1)), states], axis=1)


def _with_waves(states: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n x"]:
    """The constant, the state, and Fourier features of unit variance or so."""
    features = fourier_features(jax.random.key(0), states.shape[1], WAVES, median_distance(states))
    waves = np.asarray(features(jnp.asarray(states, jnp.float32)), np.float64)[:, 1:]
    return np.concatenate([_plain(states), waves * np.sqrt(WAVES / 2)], axis=1)


def _validated(
    design: Float[np.ndarray, "n x"],
    actions: Int[np.ndarray, " n"],
    rewards: Float[np.ndarray, " n"],
    fold: Int[np.ndarray, " n"],
    action_count: int,
) -> tuple[float, float, Sums]:
    """The mean squared error on held-out folds of the best λ, that λ, and the sums."""
    width = design.shape[1]
    sums = Sums(np.zeros((FOLDS, action_count, width, width)), np.zeros((FOLDS, action_count, width)))
    for f, action in np.ndindex(FOLDS, action_count):
        rows = (fold == f) & (actions == action)
        sums.gram[f, action] = design[rows].T @ design[rows]
        sums.moment[f, action] = design[rows].T @ rewards[rows]
    errors = np.zeros(len(RIDGES))
    for f in range(FOLDS):
        gram, moment = (total.sum(axis=0) - total[f] for total in sums)
        x, action, reward = design[fold == f], actions[fold == f], rewards[fold == f]
        for j, ridge in enumerate(RIDGES):
            coefficients = _coefficients(gram, moment, ridge)
            errors[j] += np.sum((reward - np.einsum("ni,ni->n", x, coefficients[action])) ** 2)
    best = int(errors.argmin())
    return errors[best] / len(design), RIDGES[best], sums


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
