"""The gate: is the policy better than what is done today? Deploy, do not deploy, or collect more data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from statewise.base.drawn import drawn
from statewise.data.dataset import Dataset
from statewise.ope.attainable import attainable
from statewise.ope.estimate import Estimate
from statewise.ope.estimators import USUAL
from statewise.ope.evaluate import Judged, prepare
from statewise.ope.intervals import cautious, seldomer
from statewise.ope.measures import Evidence, Measurement, measured, of_the_gain, worst_first
from statewise.ope.paired import near_today
from statewise.ope.prepared import Prepared
from statewise.ope.quotient import difference, standard_error
from statewise.ope.sensitivity import turning_point
from statewise.ope.verdict import Verdict, verdict_of
from statewise.propensities.widening import widening

Answer = Literal["deploy", "do not deploy", "collect more data"]

POWER = 0.8  # with so many episodes as are said to be needed, this is the chance that they will suffice
CLEAR = 1.1  # standard errors: a smaller difference says nothing of how many episodes would tell
SAME = 1e-9  # of the behaviour's value: a difference that is none


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """What to do with a policy, and why. `low` and `high` bound V(π) − V(μ), paired on the same episodes."""

    answer: Answer
    reason: str
    difference: float
    low: float
    high: float
    standard_error: float
    level: float
    estimate: Estimate  # of the policy
    baseline: Estimate  # of what is done today
    measures: tuple[Measurement, ...]  # of the policy's value and of the gain, the one that decided first
    verdict: Verdict  # the worst of them
    episodes: int
    episodes_needed: int | None  # in all, about; None: none are, or no number would do, or it cannot be said
    hidden_reason: float | None  # Γ: so strong would one have to be to turn *deploy* over; None: it is not *deploy*
    influence: Float[np.ndarray, " episodes"]  # what each episode moves the difference by
    # below and above, how many times as wide as the noise of the episodes alone the interval is
    widened: tuple[float, float] = (1.0, 1.0)

    def __str__(self) -> str:
        return f"{self.answer}: {self.reason}"

    __repr__ = __str__
    _repr_html_ = drawn("statewise.report.notebook:decision")


def gate(
    policy: Any,
    dataset: Dataset | Prepared,
    *,
    estimator: str = USUAL,
    discount: float | None = None,
    level: float = 0.95,
    draws: int = 1000,
    seed: int | None = None,
    part: float = 1.0,
) -> Decision:
    """Compares a policy with the behaviour that wrote the log, on the log.

    Both values move together from one sample of episodes to the next, so their difference is known better than either:
    its interval comes from what each episode adds to V̂(π) − V̂(μ). Where the support is weak, the policy must pass the
    conservative bound instead (`intervals.cautious`); where the log cannot tell its value, it never passes.

    `part` is the share of the whole log that `dataset` is, where the rest was learned from: how many episodes would
    settle it is said of the whole.

    >>> gate(policy, held_out).answer  # doctest: +SKIP
    'deploy'
    """
    log = prepare(dataset, discount=discount, seed=seed)
    decision, judged = compare(policy, log, estimator=estimator, level=level, draws=draws, part=part)
    return with_hidden_reason(decision, judged)


def compare(
    policy: Any,
    log: Prepared,
    *,
    estimator: str = USUAL,
    level: float = 0.95,
    draws: int = 1000,
    part: float = 1.0,
    near: bool = False,
) -> tuple[Decision, Judged]:
    """The decision without its Γ, and the policy as it was judged: for those who compare many.

    With `near`, noise that the estimate shares with today's by the same method is taken out (`ope.paired`): then the
    gain of a policy near today's is known far better than either value. What regularisation takes off the gain remains,
    so that only the lower end of the interval is to be relied upon. And where the support is weak for nothing but
    reasons that widen the interval already, that interval counts: on the way from today to policies learned on
    CartPole, hiv and hiv-weak, of 75 such lower ends at 95 % none lay above what was earned.
    """
    names = (estimator, "behaviour")
    judged = Judged(policy, log, names)
    both = judged.quotient(estimator), judged.quotient("behaviour")
    paired = near_today(*both, log) if near and estimator == USUAL else difference(*both)
    *bounds, bound = judged.intervals("bootstrap", level, draws, beside=(paired,))
    new, current = (judged.estimate(name, own, level) for name, own in zip(names, bounds, strict=True))
    evidence = Evidence(judged.case, judged.quotient(estimator), new.diagnostics, gain=paired)
    measures = worst_first((*new.measures, *measured(evidence)))
    if near:
        measures = of_the_gain(measures, evidence)
    verdict, why = verdict_of(measures)
    error = standard_error(paired.influence(), log.dataset.groups)
    plain = both[0].value - both[1].value
    pairs = zip(judged.refits(estimator), judged.refits("behaviour"), strict=True)
    deviations = [one.value - other.value - plain for one, other in pairs]
    factors = [widening(error, deviations, side) for side in paired.allowance]
    doubts = [measure for measure in measures if measure.outcome == "doubtful"]
    counted = near and all(measure.allowed_for for measure in doubts)
    if verdict == "weak" and not counted:
        bound = cautious(bound, paired, log.dataset.groups, level)
    least, most = attainable(log)
    low, high = (paired.value + factor * (end - paired.value) for factor, end in zip(factors, bound, strict=True))
    # all three: where the estimate itself lies outside of what can be earned, so may both ends
    value = float(np.clip(paired.value, least - current.value, most - current.value))
    low, high = (float(np.clip(end, least - current.high, most - current.low)) for end in (low, high))
    low, high = min(low, value), max(high, value)
    # the side that decides: towards 0
    gain = Gain(value, low, high, factors[0 if value > 0 else 1] * error, level, current.value)
    answer, reason, needed = _decide(gain, verdict, why, log.dataset, part, measures[0].remedy)
    decision = Decision(
        answer=answer,
        reason=reason,
        difference=gain.value,
        low=low,
        high=high,
        standard_error=gain.error,
        level=level,
        estimate=new,
        baseline=current,
        measures=measures,
        verdict=verdict,
        episodes=log.dataset.episodes,
        episodes_needed=needed,
        hidden_reason=None,
        influence=paired.influence(),
        widened=(factors[0], factors[1]),
    )
    return decision, judged


def with_hidden_reason(decision: Decision, judged: Judged) -> Decision:
    """Γ with it, where it says *deploy*."""
    if decision.answer != "deploy":
        return decision
    return replace(decision, hidden_reason=turning_point(judged.case, decision.low))


class Gain(NamedTuple):
    """V(π) − V(μ), and what V(μ) is."""

    value: float
    low: float
    high: float
    error: float
    level: float
    today: float


def _decide(
    gain: Gain, verdict: Verdict, why: str, log: Dataset, part: float, remedy: str = ""
) -> tuple[Answer, str, int | None]:
    (value, low, high, error, level, today), episodes = gain, log.episodes
    if verdict == "not identified" or not np.isfinite([value, low, high, error]).all():
        helps = f". {remedy}" if remedy else ""
        return "collect more data", f"the log cannot tell what the policy is worth: {why}{helps}", None
    interval = f"{100 * level:g} % interval of the difference {low:.4g} to {high:.4g}"
    if verdict == "weak":
        interval += f"; the support is weak ({why}), so the conservative bound counts"
    if max(abs(low), abs(high)) <= SAME * max(abs(today), 1e-300):
        return "do not deploy", "the policy does the same as today", None
    if low > 0:
        return "deploy", f"it earns {value:.4g} more than today's {today:.4g} ({interval})", None
    if high < 0:
        return "do not deploy", f"it earns {-value:.4g} less than today's {today:.4g} ({interval})", None
    needed = episodes_needed(value, error, episodes, seldomer(level) if verdict == "weak" else level)
    needed = None if needed is None else rounded(needed / part)
    if value <= 0:
        how_many = "how many episodes would settle it cannot be said, since on this log it looks no better"
    elif needed is None:
        how_many = "how many episodes would settle it cannot be said: the difference drowns in its own noise"
    else:
        enough, present = f"{needed:,} episodes", f"{round(episodes / part):,}"
        if log.units is not None:  # more episodes of the same units would not do
            units = int(log.groups.max()) + 1
            enough += f" of {rounded(units * needed / episodes):,} units"
            present += f" of {round(units / part):,}"
        how_many = f"about {enough} in all would settle it; the log has {present}"
    return "collect more data", f"it may be better or worse than what is done today ({interval}); {how_many}", needed


def episodes_needed(difference: float, error: float, episodes: int, level: float) -> int | None:
    """n·(z_level + z_power)²s²/(d² − s²): with so many the interval would most likely exclude 0.

    d² − s² is the square of the true difference without bias; d² itself is too large by the variance s², and would ask
    for too few. None where d is not clearly above its standard error s: the answer would be noise.
    """
    if not difference > CLEAR * error:
        return None
    wanted = NormalDist().inv_cdf((1 + level) / 2) + NormalDist().inv_cdf(POWER)
    needed = max(episodes * (wanted * error) ** 2 / (difference**2 - error**2), episodes + 1.0)
    return rounded(needed)


def rounded(episodes: float) -> int:
    """Up, to two digits: more would pretend to be exact."""
    digits = 10 ** max(0, int(np.log10(episodes)) - 1)
    return int(np.ceil(episodes / digits) * digits)
