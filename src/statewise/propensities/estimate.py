"""Propensities that were not logged, estimated: a classifier of actions, cross-fitted by episode and calibrated."""

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
    """The log with μ(·|s) estimated; `.estimated` says how far it can be trusted, and `.refits` are other fits.

    `model` is `"boosting"` (gradient-boosted trees), `"logistic"`, or any scikit-learn classifier with `predict_proba`.
    It is fitted to all folds but one and predicts that one, in turn; folds are whole episodes, or units where there
    are any. So no row's distribution comes from a model that saw any row of its episode (or unit). The predictions are
    calibrated on other folds than their own, illegal actions get 0, and an action that was taken never does.

    >>> data = estimate_propensities(log)  # doctest: +SKIP
    >>> print(data.estimated.summary)  # doctest: +SKIP
    >>> result = fit(data, seeds=5)  # doctest: +SKIP
    """
    if dataset.live is not None:
        raise ValueError("this Dataset holds padding that no one decided; estimate propensities before augmenting it")
    groups = int(dataset.groups.max()) + 1
    if groups < 2 or folds < 2:
        kind = "episodes" if dataset.units is None else "units"
        raise ValueError(f"estimating propensities needs 2 {kind} and 2 folds at least, not {groups} and {folds}")
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
