"""Walking from what is done today towards another policy, and testing each step against today.

Steps are tested in an order that was fixed before the episodes were looked at, each at the full level, up to the first
that fails. The chance that any step passes which is no better than today is then at most 1 − level, however many steps
there are: for that to happen, the first such step of the order must pass by chance.

The bound of the step that is deployed must hold too, and that step is chosen by it. So each bound is made to hold
together with those of all steps tried: it is as many standard errors wide as the greatest deviation among them seldom
exceeds, by redrawing episodes. Steps of one path are nearly one policy, so that this costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset
from statewise.ope.gate import Decision, compare
from statewise.ope.intervals import pool, redrawn
from statewise.ope.mixture import Mixture
from statewise.ope.prepared import Prepared
from statewise.policies.path import Way, blended

STEPS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.24, 0.28, 0.32, 0.36, 0.4, 0.44, 0.52, 0.6, 0.7, 0.85, 1.0)
FORECAST = (0.02, 0.1, 0.2, 0.36, 0.6, 1.0)  # of these, before the walk
DRAWS = 1000
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
    """A step that was tested: what was found, and the least gain that holds together with those of all steps tried."""

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
    """Tests the steps in their order, up to the first that fails; `level` is that of the whole walk, one-sided."""
    decisions: list[Decision] = []
    for done, step in enumerate(order, start=1):
        decision, _ = compare(ends.at(step), log, level=2 * level - 1, part=part, near=True)
        decisions.append(decision)
        progress(done)
        if decision.answer != "deploy":
            break
    passed = [decision for decision in decisions if decision.answer == "deploy"]
    wider = joint_factor([one.influence for one in passed], log, level)
    steps = []
    for step, one in zip(order, decisions, strict=False):
        low = one.difference - wider * (one.difference - one.low) if one.answer == "deploy" else one.low
        steps.append(Step(step, one, max(low, 0.0) if one.answer == "deploy" else low, one.answer == "deploy"))
    return tuple(steps)


def joint_factor(influences: Sequence[np.ndarray], log: Prepared, level: float) -> float:
    """By how much the bounds of several estimates must be wider than one's own, so that all hold together."""
    if len(influences) < 2:
        return 1.0
    generator = np.random.default_rng(log.seed)
    groups, count = pool(log.dataset.groups, generator)
    sums = np.stack([np.bincount(groups, one, minlength=count) for one in influences], axis=1)
    sums = sums - sums.mean(axis=0)
    spread = np.sqrt((sums**2).sum(axis=0))
    drawn = redrawn(sums / np.where(spread > 0, spread, 1.0), DRAWS, generator)
    joint = float(np.quantile(drawn.max(axis=1), level))
    return max(1.0, joint / NormalDist().inv_cdf(level))


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


def promise(forecasts: Sequence[Forecast], level: float = 0.95) -> float:
    """The greatest bound to be expected of a walk."""
    first = order_by(forecasts, level=level)[0]
    return max((one.bound(level) for one in forecasts if one.identified and one.step >= first), default=-np.inf)
