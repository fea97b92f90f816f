"""Estimates propensities that were not logged: a classifier of actions, cross-fitted by episode and calibrated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from statewise.data.dataset import Dataset
from statewise.propensities.calibration import measure_calibration
from statewise.propensities.crossfit import Model, action_frequencies, cross_fit, refit
from statewise.propensities.estimated import Estimated, filled


def estimate_propensities(
    dataset: Dataset,
    model: Model | Any = "boosting",
    folds: int = 5,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Dataset:
    """The log with estimates of μ(·|s); its `estimated` says how far they can be trusted, its `refits` are other fits.

    `model` is `"boosting"` (gradient-boosted trees), `"logistic"`, or any scikit-learn classifier with `predict_proba`.
    In turn, it is fitted to all folds but one and predicts that one; folds are whole episodes, or units if there are
    any. So no row's distribution comes from a model that has seen a row of its episode (or unit). Predictions are
    calibrated on folds other than their own; illegal actions get probability 0, and actions taken never do.

    >>> data = estimate_propensities(log)  # doctest: +SKIP
    >>> print(data.estimated.summary)  # doctest: +SKIP
    >>> result = fit(data, seeds=5)  # doctest: +SKIP
    """
    if dataset.live is not None:
        raise ValueError(
            "this Dataset contains padding, which nobody decided; estimate propensities before augmenting it"
        )
    groups = int(dataset.groups.max()) + 1
    if groups < 2 or folds < 2:
        kind = "episodes" if dataset.units is None else "units"
        raise ValueError(f"estimating propensities needs at least 2 {kind} and 2 folds, got {groups} and {folds}")
    folds = min(folds, groups)
    distributions, temperature = cross_fit(dataset, model, folds, seed, progress=progress)
    log, group = filled(dataset, distributions), dataset.groups[dataset.episode_of_step]
    estimated = Estimated(
        calibration=measure_calibration(distributions, log.actions, log.legal, group, action_frequencies(log), seed),
        temperature=temperature,
        model=model,
        folds=folds,
        seed=seed,
        log=log,
        refit=cache(lambda: refit(log, model, folds, seed)),
    )
    return replace(log, estimated=estimated)
