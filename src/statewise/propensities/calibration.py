"""Are estimated probabilities right? Calibrates a classifier's predictions, and measures how far off they remain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

BINS = 10
LEAST_SHARE = 1e-4  # of the log's action frequencies in every prediction, so that no action taken gets 0
FITTED_ON = 50_000  # rows, which is plenty for two parameters
DRAWS = 200  # of the bootstrap behind the standard error
SMALL = 0.01  # a calibration error too small to matter


@dataclass(frozen=True)
class Calibrator:
    """p ↦ (1 − share)·p^(1/temperature)/Σ + share·f, with f the action frequencies of the log.

    A temperature above 1 corrects an overconfident classifier, and the share keeps every logged action possible.
    Isotonic regression, the usual alternative, gives probabilities of exactly 0, for which 1/μ(a|s) is infinite.
    """

    temperature: float
    share: float

    def __call__(
        self, probabilities: Float[np.ndarray, "n actions"], frequencies: Float[np.ndarray, "n actions"]
    ) -> Float[np.ndarray, "n actions"]:
        largest = probabilities.max(axis=1, keepdims=True)
        tempered = (probabilities / largest) ** (1 / self.temperature)
        tempered = tempered / tempered.sum(axis=1, keepdims=True)
        return (1 - self.share) * tempered + self.share * frequencies


def fit_calibrator(
    probabilities: Float[np.ndarray, "n actions"],
    frequencies: Float[np.ndarray, "n actions"],
    actions: Int[np.ndarray, " n"],
) -> Calibrator:
    """The temperature and share with the least log loss, on predictions for rows that the classifier has not seen."""
    from scipy.optimize import minimize

    if len(actions) > FITTED_ON:
        rows = np.linspace(0, len(actions) - 1, FITTED_ON).astype(np.int64)
        probabilities, frequencies, actions = probabilities[rows], frequencies[rows], actions[rows]

    def calibrator(point: np.ndarray) -> Calibrator:
        share = LEAST_SHARE + (1 - LEAST_SHARE) / (1 + np.exp(-point[1]))
        return Calibrator(float(np.exp(np.clip(point[0], -3, 3))), float(share))

    def loss(point: np.ndarray) -> float:
        return -float(np.log(taken(calibrator(point)(probabilities, frequencies), actions)).mean())

    return calibrator(minimize(loss, np.array([0.0, -4.0]), method="Nelder-Mead", options={"fatol": 1e-7}).x)


@dataclass(frozen=True)
class Bin:
    """Predictions of about the same size, and how often the predicted action was taken."""

    predicted: float
    observed: float
    standard_error: float  # of the difference
    predictions: int


@dataclass(frozen=True)
class Calibration:
    """How far probabilities are from what was done, on rows that they were not fitted to."""

    reliability: tuple[Bin, ...]
    brier: float  # mean of Σ_a (p(a|s) − 1{a taken})²
    brier_of_frequencies: float  # the same for the overall action frequencies
    error: float  # expected calibration error: mean of |observed − predicted| over the bins
    standard_error: float
    chance: float  # the error that perfect probabilities would show, because of noise in the bins

    @property
    def tolerance(self) -> float:
        """The error that chance alone would seldom exceed."""
        return max(self.chance + 2 * self.standard_error, SMALL)

    @property
    def good(self) -> bool:
        return self.error <= self.tolerance

    @property
    def summary(self) -> str:
        verdict = (
            "They agree with the actions taken."
            if self.good
            else "They do not agree with the actions taken: try another model, or log the probabilities."
        )
        return (
            f"The estimated probabilities are off by {self.error:.3f} ± {self.standard_error:.3f} on average (perfect "
            f"ones would appear off by {self.chance:.3f}, by chance); their Brier score is {self.brier:.3f}, compared "
            f"with {self.brier_of_frequencies:.3f} for the action frequencies alone. {verdict}"
        )


def measure_calibration(
    probabilities: Float[np.ndarray, "steps actions"],
    actions: Int[np.ndarray, " steps"],
    legal: Bool[np.ndarray, "steps actions"] | None,
    group: Int[np.ndarray, " steps"],
    frequencies: Float[np.ndarray, "steps actions"],
    seed: int = 0,
) -> Calibration:
    """Compares every prediction p(a|s) of a legal action with whether a was taken, in bins of equal size.

    Decisions of one episode (or unit) are alike, so standard errors are over `group`s, not rows.
    """
    happened = np.eye(probabilities.shape[1], dtype=bool)[actions]
    possible = np.ones(probabilities.shape, dtype=bool) if legal is None else legal
    predicted, came_true = probabilities[possible], happened[possible]
    of_group = np.broadcast_to(group[:, None], possible.shape)[possible]
    edges = np.quantile(predicted, np.linspace(0, 1, BINS + 1)[1:-1])
    place = np.searchsorted(np.unique(edges), predicted)
    bins, groups = int(place.max()) + 1, int(group.max()) + 1

    def sums(values: np.ndarray) -> Float[np.ndarray, "groups bins"]:
        flat = np.bincount(of_group * bins + place, weights=values, minlength=groups * bins)
        return flat.reshape(groups, bins)

    count, expected, truth = sums(np.ones(len(place))), sums(predicted), sums(came_true.astype(np.float64))
    total = np.maximum(count.sum(axis=0), 1)
    gap = (truth - expected).sum(axis=0) / total
    spread = np.sqrt(((truth - expected - gap * count) ** 2).sum(axis=0)) / total
    share = total / total.sum()
    drawn = np.random.default_rng(seed).multinomial(groups, np.full(groups, 1 / groups), size=DRAWS)
    again = np.abs(drawn @ (truth - expected)).sum(axis=1) / (drawn @ count).sum(axis=1)
    columns = (expected.sum(axis=0) / total, truth.sum(axis=0) / total, spread)
    return Calibration(
        reliability=tuple(
            Bin(*(float(column[b]) for column in columns), predictions=int(total[b])) for b in range(bins)
        ),
        brier=float(((probabilities - happened) ** 2).sum(axis=1).mean()),
        brier_of_frequencies=float(((frequencies - happened) ** 2).sum(axis=1).mean()),
        error=float(share @ np.abs(gap)),
        standard_error=float(again.std(ddof=1)),
        chance=float(share @ spread * np.sqrt(2 / np.pi)),
    )


def taken(probabilities: Float[np.ndarray, "n actions"], actions: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """p(aᵢ|sᵢ)."""
    return np.take_along_axis(probabilities, actions[:, None].astype(np.int64), axis=1)[:, 0]
