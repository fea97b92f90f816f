"""Walking from what is done today towards another policy, and testing each step against today.

Steps are tested in an order that was fixed before the episodes were looked at, each at the full level, up to the first
that fails. The chance that any step passes which is no better than today is then at most 1 − level, however many steps
there are: for that to happen, the first such step of the order must pass by chance.

The bound of the step that is deployed must hold too, and that step is chosen by it. So bounds are made to hold
together, for all steps that were tried on the way to every candidate: they are as wide as the greatest deviation among
them seldom exceeds, by redrawing episodes. Steps of one path are nearly one policy, and all were tried on the same
episodes, so that this costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset
from statewise.ope.gate import Decision, compare
from statewise.ope.intervals import pool, redrawn, seldomer
from statewise.ope.mixture import Mixture
from statewise.ope.prepared import Prepared
from statewise.policies.path import Way, blended

STEPS = (
    0.02, 0.05, 0.1, 0.15, 0.2, 0.24, 0.28, 0.32, 0.36, 0.4, 0.44, 0.48, 0.52, 0.56, 0.6, 0.65, 0.7, 0.77, 0.85, 1.0
)  # fmt: skip
FORECAST = (0.02, 0.1, 0.2, 0.36, 0.6, 1.0)  # of these, before the walk
DRAWS = 4000  # a level shared among candidates asks for 99 % of them
CHANCE = 0.9  # with which the first step should pass, as far as the learning episodes tell


@dataclass(frozen=True, eq=False)
class OnRows:
    """A policy known on the rows of one log alone."""

    probabilities_there: Float[np.ndarray, "steps actions"]
    mixture: Mixture | None = None  # the path that it is a step of

    def on(self, dataset: Dataset) -> Float[np.ndarray, "steps actions"]:
        return self.probabilities_there


@dataclass(frozen=True, eq=False)
class Ends:
    """A path on the rows of one log: the probabilities of what is done today, and of the goal."""

    today: Float[np.ndarray, "steps actions"]
    goal: Float[np.ndarray, "steps actions"]
    way: Way = "mixture"

    def at(self, step: float) -> OnRows:
        mixture = Mixture(self.today, self.goal, step) if self.way == "mixture" else None
        return OnRows(blended(self.today, self.goal, step, self.way), mixture)


@dataclass(frozen=True, eq=False)
class Step:
    """A step that was tested: what was found, and the least gain: its own, or one that holds together with others'."""

    step: float
    decision: Decision
    low: float
    passed: bool

    @property
    def identified(self) -> bool:
        """Whether the log tells what it gains; otherwise no number of it is shown."""
        return self.decision.verdict != "not identified"


def walk(
    ends: Ends,
    log: Prepared,
    order: Sequence[float],
    *,
    level: float = 0.95,
    part: float = 1.0,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Step, ...]:
    """Tests the steps in their order, up to the first that fails, each with a one-sided bound of its own at `level`."""
    steps: list[Step] = []
    for done, step in enumerate(order, start=1):
        decision, _ = compare(ends.at(step), log, level=2 * level - 1, part=part, near=True)
        steps.append(Step(step, decision, decision.low, decision.answer == "deploy"))
        progress(done)
        if not steps[-1].passed:
            break
    return tuple(steps)


def together(
    walks: Sequence[tuple[Step, ...]], aims: Sequence[float], log: Prepared, level: float
) -> list[tuple[Step, ...]]:
    """The same walks, with bounds that hold for all of their steps at once, with the one-sided `level`.

    Those of steps before a walk's aim are to miss more seldom, so that they leave most of the level to the others.
    """
    known = [(step, aim) for steps, aim in zip(walks, aims, strict=True) for step in steps if step.identified]
    if not known:
        return list(walks)
    tested = [(1 + step.decision.level) / 2 for step, _ in known]  # one-sided
    wanted = [own if step.step >= aim else seldomer(own) for own, (step, aim) in zip(tested, known, strict=True)]
    factors = joint_factors([step.decision.influence for step, _ in known], tested, wanted, log, level)
    wider = {id(step): factor for (step, _), factor in zip(known, factors.tolist(), strict=True)}

    def bounded(step: Step) -> Step:
        value = step.decision.difference
        return replace(step, low=max(value - wider[id(step)] * (value - step.low), 0.0)) if step.passed else step

    return [tuple(map(bounded, steps)) for steps in walks]


def joint_factors(
    influences: Sequence[np.ndarray], tested: Sequence[float], wanted: Sequence[float], log: Prepared, level: float
) -> Float[np.ndarray, " estimates"]:
    """By how much estimates' one-sided bounds, of the levels `tested`, must be wider to hold together at `level`.

    The level's quantile, over redrawn groups, of the greatest deviation, each in units of its own quantile at the level
    `wanted`: for estimates that move together it is 1, however long their tails, which each one's own bound allows for.
    """
    generator = np.random.default_rng(log.seed)
    groups, count = pool(log.dataset.groups, generator)
    sums = np.stack([np.bincount(groups, one, minlength=count) for one in influences], axis=1)
    drawn = redrawn(sums - sums.mean(axis=0), DRAWS, generator)
    unit, own = (np.array([np.quantile(*one) for one in zip(drawn.T, at, strict=True)]) for at in (wanted, tested))
    varies = (unit > 0) & (own > 0)
    greatest = np.quantile((drawn / np.where(varies, unit, np.inf)).max(axis=1), level)
    return np.where(varies, greatest * unit / np.where(varies, own, 1.0), 1.0)


@dataclass(frozen=True)
class Forecast:
    """What other episodes say beforehand of a step: its gain, and its error on the episodes that will judge it."""

    step: float
    gain: float
    error: float
    identified: bool

    def bound(self, level: float) -> float:
        return self.gain - NormalDist().inv_cdf(level) * self.error


def forecast(
    ends: Ends, log: Prepared, judging: int, steps: Sequence[float] = FORECAST, level: float = 0.95
) -> tuple[Forecast, ...]:
    """Of each step, from the learning episodes; `judging` is how many episodes will judge."""
    scale = np.sqrt(log.dataset.episodes / judging)
    found = []
    for step in steps:
        decision, _ = compare(ends.at(step), log, level=2 * level - 1, draws=200, near=True)
        # where the support is weak the bound is wider than the standard error says
        half = (decision.difference - decision.low) / NormalDist().inv_cdf(level)
        known = decision.verdict != "not identified" and np.isfinite([decision.difference, half]).all()
        found.append(Forecast(step, decision.difference, max(half, decision.standard_error) * scale, bool(known)))
        if not known:
            break
    return tuple(found)


def order_by(forecasts: Sequence[Forecast], steps: Sequence[float] = STEPS, level: float = 0.95) -> tuple[float, ...]:
    """Where to begin, and the steps beyond: the first that will most likely pass, or else the likeliest."""
    known = [one for one in forecasts if one.identified and one.error > 0]
    if not known:
        return (*steps,)
    bar = NormalDist().inv_cdf(level) + NormalDist().inv_cdf(CHANCE)
    likely = [one for one in known if one.gain > bar * one.error]
    first = likely[0] if likely else max(known, key=lambda one: one.gain / one.error)
    return tuple(step for step in steps if step >= first.step)


def aim(forecasts: Sequence[Forecast], level: float = 0.95) -> float:
    """The least step that may well be the one to deploy: no other promises less than half of the most."""
    most = promise(forecasts, level)
    less = [one.step for one in forecasts if one.identified and one.bound(level) < most / 2]
    return next((step for step in STEPS if step > max(less, default=0.0)), STEPS[-1])


def promise(forecasts: Sequence[Forecast], level: float = 0.95) -> float:
    """The greatest bound to be expected of a walk."""
    first = order_by(forecasts, level=level)[0]
    return max((one.bound(level) for one in forecasts if one.identified and one.step >= first), default=-np.inf)
