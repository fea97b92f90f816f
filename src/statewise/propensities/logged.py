"""Are logged propensities right? Compares them with the actions really taken, in the whole log and by groups of states.

Right propensities make of every action and group of states a martingale: given all that went before, action a is taken
with probability p(a|s), so that

    x = Σ (1{a taken} − p(a|s))     has mean 0 and variance v = Σ p(a|s) (1 − p(a|s)),

whether rows depend on one another or not (episodes, units). By Bernstein's inequality for martingales |x| seldom
exceeds L/3 + √(L²/9 + 2vL); L is such that in all groups and actions together it does so in one log of a thousand.

Where only the taken action's propensity is logged, p(a|s) of the others is not known, and some may be 0. Still
E[1{a taken}/p(a|s)] is 1 where a is possible and 0 where it is not: never more than 1. Wrong propensities that sum to 1
give some action less than its due, whose mean is then above 1. Of two actions, the other has 1 − p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from statewise.data.dataset import Dataset
from statewise.propensities.similar import Groups, similar_states

ALARMS = 1e-3  # the share of right logs in which something is found to be wrong, at most
SMALL = 0.02  # of an action's share: a difference too small to matter, such as comes from rounding
MOST = 100_000  # rows that are looked at …
NUMBERS = 5_000_000  # … and numbers in their distributions
RAREST = 0.05  # the share of an action's rows in a group, those of least propensity, that count as the next


@dataclass(frozen=True)
class LoggedCalibration:
    """The action and group of states in which logged propensities are furthest from what was done, beyond chance."""

    action: str
    where: str  # the group in words; "" is the whole log
    rows: int  # in the group
    observed: float  # the share of them in which the action was taken
    expected: float  # … and which the log says
    error: float  # how far the two are apart
    standard_error: float
    tolerance: float  # what chance alone would exceed in one log of a thousand

    @property
    def times_chance(self) -> float:
        """How far they are off, in units of what chance alone would seldom exceed: up to 1 is good."""
        return self.error / self.tolerance

    @property
    def good(self) -> bool:
        return self.error <= self.tolerance

    @property
    def problem(self) -> str:
        """The worst difference, in one sentence without its full stop."""
        place = f" where {self.where}" if self.where else ""
        error = f" ± {_percent(self.standard_error)}" if self.standard_error > 0 else ""
        return (
            f"action {self.action} was taken in {_percent(self.observed)} of {self.rows:,} rows{place}, but the logged "
            f"probabilities say {_percent(self.expected)}{error}"
        )

    @property
    def summary(self) -> str:
        if self.good:
            return "The logged probabilities agree with the actions taken."
        return f"The logged probabilities do not agree with the actions taken: {self.problem}."


class _Shares(NamedTuple):
    """By group and action, the last group being the whole log; all but `rows` as shares of these."""

    rows: Float[np.ndarray, "groups actions"]
    observed: Float[np.ndarray, "groups actions"]
    expected: Float[np.ndarray, "groups actions"]
    deviation: Float[np.ndarray, "groups actions"]
    bound: Float[np.ndarray, "groups actions"]


def logged_calibration(dataset: Dataset, similar: Groups | None = None) -> LoggedCalibration | None:
    """How far logged propensities are from the actions taken, where it is furthest beyond chance.

    None where there are none, or where they were estimated: those have a calibration of their own. `similar` are the
    groups of similar states in the whole log, where somebody has them.
    """
    if dataset.propensities is None or dataset.estimated is not None:
        return None
    rows = _some_rows(dataset, min(MOST, max(1000, NUMBERS // dataset.action_count)))
    if similar is None or len(rows) < len(dataset):
        similar = similar_states(dataset.observations[rows])
    groups = similar
    distributions = _distributions(dataset, rows)
    if distributions is None:
        shares = _one_sided(dataset, rows, groups)
        error = np.maximum(shares.observed - shares.expected, 0.0)
    else:
        shares = _two_sided(dataset, distributions, rows, groups)
        error = np.abs(shares.observed - shares.expected)
    score = error / shares.bound
    score = score + 1e-9 * (shares.observed > shares.expected)  # of two, what is done too often is easier to picture
    group, action = (int(place) for place in np.unravel_index(np.argmax(score), score.shape))
    return LoggedCalibration(
        action=dataset.action_names[action],
        where="" if group == len(groups) else groups.describe(group, dataset.observation_names),
        rows=int(shares.rows[group, action]),
        observed=float(shares.observed[group, action]),
        expected=float(shares.expected[group, action]),
        error=float(error[group, action]),
        standard_error=float(shares.deviation[group, action]),
        tolerance=float(shares.bound[group, action]),
    )


def _some_rows(dataset: Dataset, most: int) -> Int[np.ndarray, " rows"]:
    """At most so many of the rows that count, evenly spread."""
    live = None if dataset.live is None else np.flatnonzero(dataset.live)
    count = len(dataset) if live is None else len(live)
    places = np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.int64)
    return places if live is None else live[places]


def _distributions(dataset: Dataset, rows: Int[np.ndarray, " rows"]) -> Float[np.ndarray, "rows actions"] | None:
    """Those that were logged, or follow from the propensity of one of two actions."""
    if dataset.distributions is not None:
        return np.asarray(dataset.distributions[rows], np.float64)
    if dataset.action_count > 2:
        return None
    assert dataset.propensities is not None
    taken = dataset.propensities[rows].astype(np.float64)
    actions = np.arange(dataset.action_count) == dataset.actions[rows][:, None]
    return np.where(actions, taken[:, None], 1 - taken[:, None])


def _two_sided(
    dataset: Dataset,
    distributions: Float[np.ndarray, "rows actions"],
    rows: Int[np.ndarray, " rows"],
    groups: Groups,
) -> _Shares:
    """Counts of each action against the sums of its probabilities."""
    count = _by_cell(dataset, rows, groups)
    expected = _by_group(distributions, groups)
    variance = _by_group(distributions * (1 - distributions), groups)
    size = np.broadcast_to(_by_group(np.ones((len(rows), 1)), groups), count.shape)
    bound = np.maximum(_bernstein(np.maximum(variance, 0), 1.0, 2 * count.size), SMALL * expected)
    return _Shares(size, count / size, expected / size, np.sqrt(np.maximum(variance, 0)) / size, bound / size)


def _one_sided(dataset: Dataset, rows: Int[np.ndarray, " rows"], groups: Groups) -> _Shares:
    """The sums of 1/p over the rows in which each action was taken, against all rows.

    A few tiny propensities would decide everything: 1/p is cut off at that of the action's rarest twentieth, which can
    only make the mean smaller.
    """
    assert dataset.propensities is not None
    propensities = dataset.propensities[rows].astype(np.float64)
    count = _by_cell(dataset, rows, groups)
    legal = np.ones((len(rows), 1)) if dataset.legal is None else dataset.legal[rows].astype(np.float64)
    size = np.maximum(np.broadcast_to(_by_group(legal, groups), count.shape), 1.0)
    total, variance, largest = np.zeros_like(count), np.zeros_like(count), np.ones_like(count)
    for first, of_row in ((0, groups.of_row), (len(groups), np.zeros(len(rows), np.int64))):
        part = slice(first, first + int(of_row.max()) + 1)
        shape = count[part].shape
        cell = of_row * dataset.action_count + dataset.actions[rows]
        heaviest = _heaviest(cell, propensities, count[part].ravel())
        inverse = np.minimum(1 / propensities, heaviest[cell])
        total[part] = np.bincount(cell, inverse, count[part].size).reshape(shape)
        variance[part] = np.bincount(cell, inverse**2 * (1 - propensities), count[part].size).reshape(shape)
        largest[part] = heaviest.reshape(shape)
    bound = np.maximum(_bernstein(variance, largest, count.size), SMALL * size)
    scale = np.divide(count, total, out=np.ones_like(count), where=total > 0) / size
    observed = count / size
    return _Shares(size, observed, observed - (total - size) * scale, np.sqrt(variance) * scale, bound * scale)


def _heaviest(
    cell: Int[np.ndarray, " rows"], propensities: Float[np.ndarray, " rows"], count: Float[np.ndarray, " cells"]
) -> Float[np.ndarray, " cells"]:
    """1/p that all but the rarest rows of each cell do not exceed; 1 in those without rows."""
    order = np.lexsort((propensities, cell))
    first = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.int64)
    place = np.minimum(first + (RAREST * count).astype(np.int64), len(order) - 1)
    return np.where(count > 0, 1 / propensities[order][place], 1.0)


def _bernstein(variance: np.ndarray, largest: np.ndarray | float, tests: int) -> np.ndarray:
    """What a sum of steps up to `largest` exceeds by chance in `ALARMS` of logs, over that many tests together."""
    level = np.log(tests / ALARMS)
    return largest * level / 3 + np.sqrt((largest * level / 3) ** 2 + 2 * variance * level)


def _by_cell(dataset: Dataset, rows: Int[np.ndarray, " rows"], groups: Groups) -> Float[np.ndarray, "groups actions"]:
    """How often each action was taken in each group, and in the whole log."""
    actions = dataset.action_count
    cell = groups.of_row * actions + dataset.actions[rows]
    counts = np.bincount(cell, minlength=len(groups) * actions).reshape(-1, actions).astype(np.float64)
    return np.vstack([counts, counts.sum(axis=0)])


def _by_group(values: Float[np.ndarray, "rows columns"], groups: Groups) -> Float[np.ndarray, "groups columns"]:
    """Their sums in each group, and in the whole log."""
    order = np.argsort(groups.of_row, kind="stable")
    sizes = np.bincount(groups.of_row, minlength=len(groups))
    sums = np.add.reduceat(values[order], np.cumsum(sizes) - sizes, axis=0)
    return np.vstack([sums, sums.sum(axis=0)])


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
