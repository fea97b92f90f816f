"""`certify`: the best policy between what is done today and another that this log can vouch for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from statewise.base.drawn import drawn
from statewise.data.dataset import Dataset
from statewise.data.loggers import by_logger
from statewise.data.schema import Schema
from statewise.learning.today import model_of_today, shown_by
from statewise.ope.evaluate import Judged, prepare
from statewise.ope.gate import Answer, Decision, compare, gate
from statewise.ope.next_log import NextLog, beyond, more_of_today, situations
from statewise.ope.sensitivity import turning_point
from statewise.ope.verdict import verdict_of
from statewise.ope.walk import (
    FORECAST,
    STEPS,
    Ends,
    Forecast,
    Step,
    aim,
    forecast,
    order_by,
    promise,
    together,
    walk,
)
from statewise.policies.external import as_target
from statewise.policies.path import PathPolicy, Way
from statewise.policies.probabilities import probabilities_of

COMFORTABLE = 0.975  # chance with which a first step passes, from which on the level may be shared
BESIDE = 0.2  # of 1 − level: for a candidate that was not learned, where that will do
FEW, EVEN = 50, 0.5  # learning episodes that are too few to say whether it will do, and what it then gets
CLOSE = 0.05  # of the greatest promise: a candidate that is preferred may promise so much less
ORDERING = 1 / 3  # of the episodes, to model what is done today and to choose the order, where no others are given
LEARNING = (0.3, 0.5)  # the least and the greatest share of a log to learn from
JUDGES = 15  # episodes or units that should be left to judge: nothing is identified by fewer than ten effective ones


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """The step that may be deployed, and at least how much more than today it earns.

    `low` bounds V(π) − V(μ) from below at the one-sided `level`, whatever number of steps were tried.
    """

    answer: Answer
    reason: str
    step: float  # 0: none passed
    policy: Any  # to deploy; None where no step passed
    difference: float
    low: float
    high: float
    level: float
    tried: tuple[Step, ...]  # in the order they were tested
    forecast: tuple[Forecast, ...]  # what the learning episodes said of them beforehand
    decision: Decision  # of the step that may be deployed, or of the first one tested, with two-sided intervals
    goal: Decision  # of the whole way, as the same episodes judge it
    hidden_reason: float | None  # Γ; None where no step passed
    next: NextLog  # what to log, and what that would show
    candidate: str  # the name of the policy that the path leads to, where there were several
    goal_policy: Any
    today: Any  # the policy where the path begins
    way: Way = "mixture"  # how the policies between the two are made
    beside: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)  # walks towards others, which came less far
    judged: Judged | None = None  # what `decision` was made of, for those who ask more of the same log; large

    @property
    def value(self) -> float:
        """What the policy to deploy is worth, as far as the log tells: today's value and the gain."""
        return self.decision.baseline.value + self.difference

    def as_card(self) -> dict[str, Any]:
        """What the policy's file says of it."""
        names = ("difference", "low", "level", "step")
        numbers = {name: getattr(self, name) for name in names} | {"today": self.decision.baseline.value}
        return {"certified": numbers, "discount": self.decision.estimate.discount}

    def __str__(self) -> str:
        return f"{self.answer}: {self.reason}"

    __repr__ = __str__
    _repr_html_ = drawn("statewise.report.notebook:certificate")
    plot = drawn("statewise.report.plots:certificate", "Draws the path that was tested on matplotlib's axes `ax`.")


def certify(
    policy: Any,
    held_out: Dataset,
    *,
    learning: Dataset | None = None,
    today: Any = None,
    simple: Collection[str] = (),
    unlearned: Collection[str] = (),
    discount: float | None = None,
    level: float = 0.95,
    way: Way | None = None,
    seed: int = 0,
    part: float = 1.0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Certificate:
    """Walks from what is done today towards `policy`, and returns the step with the greatest certain gain.

    `policy` gives probabilities, or is a mapping of several such by name, the preferred first: then the learning
    episodes choose the one that promises most. It is tested at the full level, or shares it with the preferred one
    where both will most likely pass. A name in `simple` is a rule so simple that it is taken where it promises about as
    much as the best. One in `unlearned` was not learned from these episodes, and is taken where they tell nothing.

    `learning` are the episodes that the policy was learned from; they also choose the order of the steps. Without them
    a third of `held_out` does so. `today` is what is done today, as a policy; where it is not given, a model of the
    logged probabilities is. `way` is how policies between the two are made; None: as the learning episodes promise more
    (`policies.path`). Of a log whose column `logger` names several, the newest logger's episodes count.

    >>> certificate = certify(policy, held_out, learning=train)  # doctest: +SKIP
    >>> certificate.answer, certificate.low  # doctest: +SKIP
    >>> certificate.policy.save("deploy.safetensors")  # doctest: +SKIP
    """
    if not 0.5 < level < 1:
        raise ValueError(f"level: expected a number between 0.5 and 1, got {level}")
    held_out = by_logger(held_out)[-1]
    if learning is None:
        learning, held_out = held_out.split(ORDERING, seed=seed)
    learning = by_logger(learning)[-1]
    start = model_of_today(shown_by(learning, held_out), seed) if today is None else as_target(today)
    candidates = {name: as_target(one) for name, one in _named(policy).items()}
    ranking = len(FORECAST) * len(candidates)
    total = ranking + len(STEPS)
    known = prepare(learning, discount=discount, seed=seed)
    today_learning, today_judging = probabilities_of(start, learning), probabilities_of(start, held_out)

    goals = {name: probabilities_of(candidate, learning) for name, candidate in candidates.items()}

    def foreseen(name: str, way: Way) -> tuple[Forecast, ...]:
        return forecast(Ends(today_learning, goals[name], way), known, held_out.episodes, level=level)

    forecasts: dict[str, tuple[Forecast, ...]] = {}
    for name in candidates:
        forecasts[name] = foreseen(name, way or "mixture")
        progress(len(FORECAST) * len(forecasts), total)
    log = prepare(held_out, discount=known.discount, seed=seed)
    shares = worth_testing(forecasts, level, simple, unlearned, few=bool(learning.groups.max() + 1 < FEW))
    walks = {}
    for name, share in shares.items():
        taken = way or "mixture"
        if way is None and name not in simple:  # the geometric way to a rule without chance is the rule at once
            other = foreseen(name, "geometric")
            if promise(other, level) > promise(forecasts[name], level) or not _known(forecasts[name]):
                forecasts[name], taken = other, "geometric"
        ends = Ends(today_judging, probabilities_of(candidates[name], held_out), taken)
        steps = walk(ends, log, order_by(forecasts[name], level=level), level=1 - share * (1 - level), part=part)
        walks[name] = Walk(name, ends, steps)
        progress(ranking + len(STEPS) * len(walks) // len(shares), total)
    aims = [aim(forecasts[name], level) for name in walks]
    bounded = together([one.steps for one in walks.values()], aims, log, level)
    walks = {name: replace(one, steps=steps) for (name, one), steps in zip(walks.items(), bounded, strict=True)}
    found = max(walks.values(), key=lambda one: one.bound)
    chosen, ends = found.chosen, found.ends
    now = chosen.step if chosen.passed else 0.0
    further = [step for step in STEPS if step > now]
    goal = candidates[found.candidate]
    # steps are tested on one side; what is shown has two
    shown, judged = compare(ends.at(chosen.step), log, level=level, part=part, near=True)
    if chosen.passed:
        tried = {one.step: one.decision for one in found.steps}
        following = beyond(ends, log, shown, judged.case, further, level, part, tried)
    else:
        following = more_of_today(chosen.decision, further[0], log, level, part)
    differs = situations(ends.today, ends.at(chosen.step).probabilities_there, log)
    progress(total, total)
    return Certificate(
        answer=chosen.decision.answer,
        reason=_reason(chosen, level),
        step=now,
        policy=PathPolicy(start, goal, now, ends.way, Schema.stated(held_out.schema)) if chosen.passed else None,
        difference=shown.difference,
        low=chosen.low,
        high=shown.high,
        level=level,
        tried=found.steps,
        forecast=forecasts[found.candidate],
        decision=shown,
        goal=gate(ends.at(1.0), log, level=level, part=part),
        hidden_reason=turning_point(judged.case, chosen.low) if chosen.passed else None,
        next=replace(following, situations=differs),
        candidate=found.candidate,
        goal_policy=goal,
        today=start,
        way=ends.way,
        beside={name: one.steps for name, one in walks.items() if name != found.candidate},
        judged=judged,
    )


def learning_part(log: Dataset) -> float:
    """The share of a log to learn from while the rest judges: half, or less where too few would be left to judge."""
    groups = int(log.groups.max()) + 1
    return float(np.clip(1 - JUDGES / groups, *LEARNING))


@dataclass(frozen=True, eq=False)
class Walk:
    """A walk towards one candidate."""

    candidate: str
    ends: Ends
    steps: tuple[Step, ...]

    @property
    def chosen(self) -> Step:
        """The step with the greatest bound of those that passed, or else the first."""
        passed = [step for step in self.steps if step.passed]
        return max(passed, key=lambda step: step.low) if passed else self.steps[0]

    @property
    def bound(self) -> float:
        return self.chosen.low if self.chosen.passed else -np.inf


def worth_testing(
    forecasts: Mapping[str, tuple[Forecast, ...]],
    level: float,
    simple: Collection[str],
    unlearned: Collection[str] = (),
    few: bool = False,
) -> dict[str, float]:
    """The most promising candidate, those that are worth a test beside it, and each one's share of 1 − level.

    What the learning episodes promise is too good for candidates that fit them too closely. So one that was not learned
    from them is tested too, where it will most likely pass at `BESIDE` of the level; and the first learned one, where
    it and the most promising will most likely pass at half of the rest. A `few` learning episodes promise too much of
    what was learned from them, and too little of what was not: then both get half.
    """
    best = most_promising(forecasts, level, simple, unlearned)

    def sure(name: str, share: float) -> bool:
        bar = NormalDist().inv_cdf(1 - share * (1 - level)) + NormalDist().inv_cdf(COMFORTABLE)
        return any(one.identified and one.error > 0 and one.gain > bar * one.error for one in forecasts[name])

    share = EVEN if few else BESIDE
    others = (name for name in forecasts if name in unlearned and name != best)
    beside = next((name for name in others if few or sure(name, share)), None)
    rest = 1.0 if beside is None else 1 - share
    first = next((name for name in forecasts if name not in simple and name not in unlearned), best)
    both = first != best and sure(best, rest / 2) and sure(first, rest / 2)
    shares = {best: rest / 2, first: rest / 2} if both else {best: rest}
    return shares if beside is None else {**shares, beside: share}


def most_promising(
    forecasts: Mapping[str, tuple[Forecast, ...]],
    level: float,
    simple: Collection[str] = (),
    unlearned: Collection[str] = (),
) -> str:
    """The candidate that promises the greatest bound; of those that promise hardly less, a simple or an early one.

    Where the learning episodes are too few to promise anything, they are too few to learn from.
    """
    promises = {name: promise(found, level) for name, found in forecasts.items()}
    greatest = max(promises.values())
    if not np.isfinite(greatest):
        usual = next((name for name in promises if name not in simple), next(iter(promises)))
        return next((name for name in promises if name in unlearned), usual)
    close = [name for name, bound in promises.items() if bound >= greatest - CLOSE * abs(greatest)]
    return next((name for name in close if name in simple), close[0])


def _known(forecasts: Collection[Forecast]) -> bool:
    return any(one.identified for one in forecasts)


def _named(policy: Any) -> dict[str, Any]:
    if not isinstance(policy, Mapping):
        return {"": policy}
    if not policy:
        raise ValueError("policy: expected one or more, got none")
    return dict(policy)


def _reason(step: Step, level: float) -> str:
    decision, sure = step.decision, f"{100 * level:g} % confidence"
    value, today = decision.difference, decision.baseline.value
    way = "the whole way to the goal" if step.step == 1 else f"{100 * step.step:.3g} % of the way to the goal"
    if step.passed:
        return (
            f"{way}, it earns about {value:.4g} more than today's {today:.4g}, and at least {step.low:.4g} more, "
            f"with {sure}"
        )
    if decision.verdict == "not identified":
        return f"the log cannot tell what even the first step, {way}, is worth: {verdict_of(decision.measures)[1]}"
    if decision.high < 0:
        return f"even the first step, {way}, earns less than today's {today:.4g}, with {sure}"
    if decision.answer == "do not deploy":
        return f"the first step, {way}, does the same as today"
    return (
        f"the first step, {way}, may be better or worse than today's {today:.4g}: as far as the log can tell, it "
        f"gains {value:.4g}, and at least {step.low:.4g} with {sure}"
    )
