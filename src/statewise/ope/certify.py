"""`certify`: the best policy between what is done today and another that this log can vouch for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from statewise.data.dataset import Dataset
from statewise.data.schema import Schema
from statewise.learning.today import model_of_today
from statewise.ope.evaluate import prepare
from statewise.ope.gate import Answer, Decision, compare, gate
from statewise.ope.next_log import NextLog, plan, situations
from statewise.ope.prepared import Prepared
from statewise.ope.sensitivity import turning_point
from statewise.ope.verdict import verdict_of
from statewise.ope.walk import (
    FORECAST,
    STEPS,
    Ends,
    Forecast,
    OnRows,
    Step,
    forecast,
    order_by,
    probabilities_on,
    promise,
    walk,
)
from statewise.policies.external import as_target
from statewise.policies.path import PathPolicy, Way

CLOSE = 0.05  # of the greatest promise: a candidate that is preferred may promise so much less
ORDERING = 1 / 3  # of the episodes, to model what is done today and to choose the order, where no others are given


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
    decision: Decision  # of the step that may be deployed, or of the first one tested
    goal: Decision  # of the whole way, as the same episodes judge it
    hidden_reason: float | None  # Γ; None where no step passed
    next: NextLog  # what to log, and what that would show
    candidate: str  # the name of the policy that the path leads to, where there were several
    goal_policy: Any
    today: Any  # the policy where the path begins

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


def certify(
    policy: Any,
    held_out: Dataset,
    *,
    learning: Dataset | None = None,
    today: Any = None,
    simple: Collection[str] = (),
    discount: float | None = None,
    level: float = 0.95,
    way: Way = "mixture",
    seed: int = 0,
    part: float = 1.0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Certificate:
    """Walks from what is done today towards `policy`, and returns the step with the greatest certain gain.

    `policy` gives probabilities, or is a mapping of several such by name, the preferred first: then the learning
    episodes choose the one that promises most, and that one is tested at the full level. A name in `simple` is a rule
    so simple that it is taken where it promises about as much as the best.

    `learning` are the episodes that the policy was learned from; they also choose the order of the steps. Without them
    a third of `held_out` does so. `today` is what is done today, as a policy; where it is not given, a model of the
    logged probabilities is.

    >>> certificate = certify(policy, held_out, learning=train)  # doctest: +SKIP
    >>> certificate.answer, certificate.low  # doctest: +SKIP
    >>> certificate.policy.save("deploy.safetensors")  # doctest: +SKIP
    """
    if not 0.5 < level < 1:
        raise ValueError(f"level: expected a number between 0.5 and 1, got {level}")
    if learning is None:
        learning, held_out = held_out.split(ORDERING, seed=seed)
    start = model_of_today(learning, seed) if today is None else as_target(today)
    candidates = {name: as_target(one) for name, one in _named(policy).items()}
    total, ranking = len(FORECAST) * len(candidates) + len(STEPS), len(FORECAST) * len(candidates)
    known = prepare(learning, discount=discount, seed=seed)
    before = probabilities_on(start, learning)
    forecasts: dict[str, tuple[Forecast, ...]] = {}
    for name, candidate in candidates.items():
        ends = Ends(before, probabilities_on(candidate, learning), way)
        forecasts[name] = forecast(ends, known, held_out.episodes, level=level)
        progress(len(FORECAST) * len(forecasts), total)
    best = most_promising(forecasts, level, simple)
    order = order_by(forecasts[best], level=level)

    log = prepare(held_out, discount=known.discount, seed=seed)
    ends = Ends(probabilities_on(start, held_out), probabilities_on(candidates[best], held_out), way)
    steps = walk(ends, log, order, level=level, part=part, progress=lambda tried: progress(ranking + tried, total))
    passed = [step for step in steps if step.passed]
    chosen = max(passed, key=lambda step: step.low) if passed else steps[0]
    now = chosen.step if passed else 0.0
    further = [step for step in order if step > now]
    following = plan(ends, log, now, further, chosen.decision, level, part)
    differs = situations(ends.today, ends.at(chosen.step).probabilities_there, held_out)
    progress(total, total)
    return Certificate(
        answer=chosen.decision.answer,
        reason=_reason(chosen, level),
        step=now,
        policy=PathPolicy(start, candidates[best], now, way, Schema.stated(held_out.schema)) if passed else None,
        difference=chosen.decision.difference,
        low=chosen.low,
        high=chosen.decision.high,
        level=level,
        tried=steps,
        forecast=forecasts[best],
        decision=chosen.decision,
        goal=gate(ends.at(1.0), log, level=level, part=part),
        hidden_reason=_hidden_reason(ends.at(now), log, chosen.low) if passed else None,
        next=replace(following, situations=differs),
        candidate=best,
        goal_policy=candidates[best],
        today=start,
    )


def most_promising(forecasts: Mapping[str, tuple[Forecast, ...]], level: float, simple: Collection[str] = ()) -> str:
    """The candidate that promises the greatest bound; of those that promise hardly less, a simple or an early one."""
    promises = {name: promise(found, order_by(found, level=level), level) for name, found in forecasts.items()}
    greatest = max(promises.values())
    if not np.isfinite(greatest):
        return next(name for name in (*promises,) if name not in simple or len(simple) == len(promises))
    close = [name for name, bound in promises.items() if bound >= greatest - CLOSE * abs(greatest)]
    return next((name for name in close if name in simple), close[0])


def _named(policy: Any) -> dict[str, Any]:
    if not isinstance(policy, Mapping):
        return {"": policy}
    if not policy:
        raise ValueError("policy: expected one or more, got none")
    return dict(policy)


def _hidden_reason(policy: OnRows, log: Prepared, low: float) -> float:
    return turning_point(compare(policy, log, draws=10)[1].case, low)


def _reason(step: Step, level: float) -> str:
    decision, sure = step.decision, f"{100 * level:g} % confidence"
    value, today = decision.difference, decision.baseline.value
    way = "the whole way to the goal" if step.step == 1 else f"{100 * step.step:.3g} % of the way to the goal"
    if step.passed:
        return (
            f"{way}, it earns about {value:.4g} more than the {today:.4g} of today, and at least {step.low:.4g} more, "
            f"with {sure}"
        )
    if decision.verdict == "not identified":
        return f"the log cannot tell what even the first step, {way}, is worth: {verdict_of(decision.measures)[1]}"
    if decision.high < 0:
        return f"even the first step, {way}, earns less than the {today:.4g} of today, with {sure}"
    if decision.answer == "do not deploy":
        return f"the first step, {way}, does what is done today"
    return (
        f"the first step, {way}, may be better or worse than the {today:.4g} of today: as far as the log tells it "
        f"earns {value:.4g} more, and at least {step.low:.4g} more with {sure}"
    )
