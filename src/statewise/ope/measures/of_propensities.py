"""Measures of the propensities: whether what was done agrees with what they say."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from statewise.base.column import parts_of
from statewise.ope.measures import Evidence, Measure
from statewise.ope.prepared import Case
from statewise.propensities.logged import LoggedCalibration, logged_calibration

CHANCE = 1e-3  # how often a right log is suspected
FEWEST = 30  # rows of a group of states whose mean is looked at


def _calibration_of_log(evidence: Evidence) -> LoggedCalibration | None:
    log = evidence.log
    return log.remembered("logged calibration", lambda: logged_calibration(log.dataset, log.similar))


def _logged(evidence: Evidence) -> float | None:
    calibration = _calibration_of_log(evidence)
    return None if calibration is None else calibration.error / calibration.tolerance


def _logged_sentence(evidence: Evidence) -> str:
    calibration = _calibration_of_log(evidence)
    if calibration is None:
        return ""
    agrees = "the logged probabilities agree with the actions taken"
    return (
        agrees
        if calibration.good
        else f"the logged probabilities do not match the actions taken: {calibration.problem}"
    )


def _mean_ratio(evidence: Evidence) -> float | None:
    return evidence.case.remembered("mean ratio", lambda: _furthest_mean(evidence.case))


def _furthest_mean(case: Case) -> float | None:
    """The greatest |Σ (ρ − 1)| of a group of similar states, in standard errors, over what chance would show.

    Given the state, ρ has mean 1 if the propensities are right and all that the policy does was tried; a row's ρ − 1
    is then no more likely up than down whatever came before, so that squares add up even within an episode.
    """
    log, ratio = case.prepared, case.ratio
    squared = None if log.dataset.distributions is None else case.squared_ratio
    seen, expected, summed, heaviest, count = np.zeros((5, len(log.similar)))
    for part in parts_of(len(ratio)):  # all at once takes six times as much memory as ρ
        group, live = log.similar.of_row[part], log.growth[part] > 0
        centred = np.where(live, ratio[part] - 1, 0.0)
        for total, values in ((seen, centred**2), (summed, centred), (count, live)):
            total += np.bincount(group, values, len(total))
        if squared is not None:
            expected += np.bincount(group, np.where(live, squared[part] - 1, 0.0), len(expected))
        np.maximum.at(heaviest, group, centred**2)
    seen = np.maximum(seen, expected)
    # one group's variance must not come from a single heavy row
    counted = (count >= FEWEST) & (seen > 0) & (heaviest < 0.1 * seen)
    if not counted.any():
        return None
    deviation = np.abs(summed[counted]) / np.sqrt(seen[counted])
    return float(deviation.max() / NormalDist().inv_cdf(1 - CHANCE / (2 * counted.sum())))


def _calibration(evidence: Evidence) -> float:
    """How far estimated propensities are off, in units of what chance alone would show."""
    calibration = evidence.case.prepared.dataset.estimated.calibration  # pyright: ignore[reportOptionalMemberAccess]
    return calibration.error / calibration.tolerance


ESTIMATED = Measure(
    title="Estimated propensities that agree with what was done",
    meaning="Where propensities were estimated: how far they are from how often each action was taken, in units of "
    "what chance alone would show.",
    bounds=(1.0, None),
    unit="times chance",
    applies=lambda evidence: evidence.case.prepared.dataset.estimated is not None,
    value=_calibration,
    sentence=lambda evidence: evidence.case.prepared.dataset.estimated.summary,  # pyright: ignore
)
LOGGED = Measure(
    title="Logged propensities that agree with what was done",
    meaning="How far the logged probabilities are from how often each action was taken in similar situations, in units "
    "of what chance alone would show.",
    bounds=(1.0, 1.5),
    unit="times chance",
    applies=lambda evidence: evidence.log.dataset.estimated is None and evidence.estimate.reweighted,
    value=_logged,
    remedy="The probabilities with which actions were really taken would help, logged or estimated",
    sentence=_logged_sentence,
    missing="there are too few decisions to compare the logged probabilities with what was done",
)
MEAN_RATIO = Measure(
    title="Ratios with mean 1",
    meaning="In every kind of situation, the policy's probability over the behaviour's has mean 1 over the actions "
    "taken. Where it does not, propensities are wrong, or the policy does what was never tried.",
    bounds=(1.0, None),
    unit="times chance",
    applies=lambda evidence: evidence.estimate.reweighted,
    value=_mean_ratio,
    sentence=lambda evidence: (
        f"in similar situations the mean of π/μ differs from 1 by {_mean_ratio(evidence):.2g} times what chance shows"
    ),
    missing="in every kind of situation a few rows outweigh the others",
)
