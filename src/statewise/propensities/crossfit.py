"""μ(·|s) from a classifier of actions: each fold is predicted by a model of the others, and calibrated on those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from statewise.data.dataset import Dataset
from statewise.data.threads import each
from statewise.propensities.calibration import fit_calibrator

Model = Literal["boosting", "logistic"]
REFITS = 5


def cross_fit(
    dataset: Dataset,
    model: Model | Any,
    folds: int,
    seed: int,
    rng: np.random.Generator | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Float[np.ndarray, "steps actions"], float]:
    """Cross-fitted, calibrated distributions, and the mean temperature."""
    groups = int(dataset.groups.max()) + 1
    fold_of_group = np.random.default_rng(seed).permutation(groups) % folds
    fold = fold_of_group[dataset.groups[dataset.episode_of_step]]
    predicted = legal_only(out_of_fold(dataset, model, fold, seed, rng, progress), dataset)
    frequencies = action_frequencies(dataset)
    distributions, temperatures = np.empty_like(predicted), []
    for k in range(folds):
        own = fold == k
        calibrate = fit_calibrator(predicted[~own], frequencies[~own], dataset.actions[~own])
        distributions[own] = calibrate(predicted[own], frequencies[own])
        temperatures.append(calibrate.temperature)
    return distributions, float(np.mean(temperatures))


def refit(
    dataset: Dataset, model: Model | Any, folds: int, seed: int
) -> tuple[Float[np.ndarray, "steps actions"], ...]:
    """Distributions refitted to bootstrap resamples of the log's episodes (or units)."""
    seeds = [np.random.default_rng([seed, b + 1]) for b in range(REFITS)]
    return tuple(cross_fit(dataset, model, folds, seed, rng)[0] for rng in seeds)


def action_frequencies(dataset: Dataset) -> Float[np.ndarray, "steps actions"]:
    """How often each action is taken in the log, among those legal in the row; above 0 for the action taken."""
    counts = np.bincount(dataset.actions, minlength=dataset.action_count).astype(np.float64)
    return legal_only(np.broadcast_to(counts / counts.sum(), (len(dataset), len(counts))), dataset)


def legal_only(
    probabilities: Float[np.ndarray, "steps actions"], dataset: Dataset
) -> Float[np.ndarray, "steps actions"]:
    """The probabilities of legal actions, scaled to sum to 1; equal for all of them where they had none."""
    if dataset.legal is None:
        return probabilities
    masked = np.where(dataset.legal, probabilities, 0.0)
    total = masked.sum(axis=1, keepdims=True)
    masked = np.where(total > 0, masked, dataset.legal)
    return masked / masked.sum(axis=1, keepdims=True)


def out_of_fold(
    dataset: Dataset,
    model: Model | Any,
    fold: Int[np.ndarray, " steps"],
    seed: int = 0,
    rng: np.random.Generator | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Float[np.ndarray, "steps actions"]:
    """Predicts each row by a model fitted to the other folds or, given `rng`, to a resample of their groups."""
    from threadpoolctl import threadpool_limits

    predicted = np.zeros((len(dataset), dataset.action_count))
    group = dataset.groups[dataset.episode_of_step]
    done: list[int] = []

    def seen_by(k: int) -> Int[np.ndarray, " seen"]:
        rows = np.flatnonzero(fold != k)
        if rng is None:
            return rows
        kept = np.unique(group[rows])
        times = np.bincount(rng.choice(kept, size=len(kept)), minlength=int(group.max()) + 1)
        return np.repeat(rows, times[group[rows]])

    def predict(task: tuple[int, np.ndarray]) -> None:
        k, rows = task
        asked = np.flatnonzero(fold == k)
        known = np.unique(dataset.actions[rows])
        if len(known) == 1:
            predicted[asked, known[0]] = 1.0
        else:
            fitted = classifier(model, seed).fit(dataset.observations[rows], dataset.actions[rows])
            predicted[np.ix_(asked, fitted.classes_)] = fitted.predict_proba(dataset.observations[asked])
        done.append(k)
        progress(len(done))

    tasks = [(k, seen_by(k)) for k in range(int(fold.max()) + 1)]
    # one thread per fold: threads within a fit wait for one another, a hundred times longer on a busy machine
    with threadpool_limits(1):
        each(predict, tasks)
    return predicted


def classifier(model: Model | Any, seed: int = 0) -> Any:
    """An unfitted scikit-learn classifier."""
    from sklearn.base import clone
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if model == "boosting":
        # small trees, stopped early: propensities are smoother than what boosting is usually used for
        return HistGradientBoostingClassifier(
            learning_rate=0.06,
            max_iter=300,
            max_leaf_nodes=8,
            l2_regularization=1.0,
            early_stopping=True,  # pyright: ignore[reportArgumentType]
            random_state=seed,
        )
    if model == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if hasattr(model, "fit") and hasattr(model, "predict_proba"):
        return clone(model)
    raise ValueError(f"expected 'boosting', 'logistic' or a scikit-learn classifier as the model, got {model!r}")
