"""The one list of measures: each is a way in which an estimate can be wrong without its interval showing it.

The verdict is the worst of them. Report, terminal, JSON and the table in the documentation are made from this list, so
that a verdict always stands among the checks beside it. Some look at what an estimate rests on (`resting_on`), some ask
questions whose answers are known (`known_answers`), some test the propensities (`of_propensities`). Adding a measure is
one entry, here or from outside:

    MEASURES.add("my-measure", Measure(title=…, meaning=…, bounds=(1, 2), value=…, sentence=…))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from statewise.base.registry import Registry
from statewise.ope.prepared import Case, Prepared
from statewise.ope.quotient import Quotient, standard_error
from statewise.ope.support import Support

Outcome = Literal["good", "doubtful", "bad", "not made"]
OUTCOMES: tuple[Outcome, ...] = ("bad", "doubtful", "not made", "good")  # worst first


class Evidence(NamedTuple):
    """What a measure may look at."""

    case: Case
    estimate: Quotient
    support: Support
    gain: Quotient | None = None  # over the behaviour, paired by episode, where the two are compared

    @property
    def log(self) -> Prepared:
        return self.case.prepared

    @property
    def episodes(self) -> int:
        return self.case.prepared.dataset.episodes

    @property
    def error(self) -> float:
        """The estimate's standard error."""
        return standard_error(self.estimate.influence(), self.log.dataset.groups)


@dataclass(frozen=True)
class Measure:
    """How one thing is measured, and what its number says.

    Up to the first bound it is good, up to the second doubtful, beyond it bad; where the first is greater than the
    second, from them on upwards. A value of None says that the measure could not be made. One that does not apply to
    an estimate is left out.
    """

    title: str
    meaning: str  # to someone who has never heard of it
    bounds: tuple[float, float | None]  # None: it is never bad
    value: Callable[[Evidence], float | None]
    sentence: Callable[[Evidence], str]  # what was measured
    missing: str = "it could not be measured"
    remedy: str = ""  # what would help where it is bad, as a sentence without its full stop
    unit: str = ""  # of the bounds, for the documentation
    applies: Callable[[Evidence], bool] = lambda evidence: True
    of: Literal["value", "gain"] = "value"  # the gain over the behaviour is looked at where a decision is made
    allowed_for: bool = False  # whether the interval is wider by what a doubtful value may mean

    def outcome(self, value: float | None) -> Outcome:
        if value is None:
            return "not made"
        good, identified = self.bounds
        sign = -1 if identified is not None and good > identified else 1
        if sign * value <= sign * good:
            return "good"
        if identified is None and value == value:  # what is not a number is beyond every bound
            return "doubtful"
        return "doubtful" if identified is not None and sign * value <= sign * identified else "bad"


@dataclass(frozen=True)
class Measurement:
    """What one measure found."""

    name: str
    title: str
    outcome: Outcome
    sentence: str
    meaning: str
    value: float | None
    bounds: tuple[float, float | None]
    remedy: str = ""
    allowed_for: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "allowed_for"} | {
            "bounds": list(self.bounds)
        }


def measured(evidence: Evidence) -> tuple[Measurement, ...]:
    """Every measure that applies, in the order of the list; of the gain, where there is one, and else of the value."""
    return worst_first(
        _measurement(name, measure, evidence)
        for name, measure in MEASURES.items()
        if (measure.of == "gain") == (evidence.gain is not None) and measure.applies(evidence)
    )


def _measurement(name: str, measure: Measure, evidence: Evidence) -> Measurement:
    value = measure.value(evidence)
    outcome = measure.outcome(value)
    return Measurement(
        name,
        measure.title,
        outcome,
        measure.missing if outcome == "not made" else measure.sentence(evidence),
        measure.meaning,
        value,
        measure.bounds,
        measure.remedy if outcome == "bad" else "",
        measure.allowed_for,
    )


def of_the_gain(results: Iterable[Measurement], evidence: Evidence) -> tuple[Measurement, ...]:
    """The same, with what has another value for the gain over today than for the policy's own value made again."""
    assert evidence.gain is not None
    untried = _share_of_change(evidence)
    own = evidence.gain
    support = replace(
        evidence.support,
        unseen=own.unseen,
        imbalance=own.imbalance,
        unsupported=untried,
        effective_share=max(evidence.support.effective_share, _share_beside_today(own, evidence.estimate)),
    )
    gain = evidence._replace(estimate=own, support=support)
    return worst_first(
        _measurement(one.name, MEASURES[one.name], gain) if one.name in OF_GAIN else one for one in results
    )


def _share_of_change(evidence: Evidence) -> float | None:
    """Of what a policy would do otherwise than today, how much nobody ever did there.

    A small step takes few untried actions, but it takes few other actions at all: what it gains rests on them as much
    as a large step's gain does. What changes is ½ Σ_a |π(a|s) − μ(a|s)|, by the mean of |ρ − 1|.
    """
    untried, case = evidence.support.unsupported, evidence.case
    if not untried:
        return untried
    weight = evidence.log.growth
    changed = (float(weight @ np.abs(case.ratio - 1)) / float(weight.sum()) + untried) / 2
    return min(untried / changed, 1.0)


def _share_beside_today(gain: Quotient, policy: Quotient) -> float:
    """(Σw)²/(Σw²/b · Σb): the effective share where episodes already count unevenly, as b, for what is done today.

    By counts, rows of what was seldom tried weigh more than others whatever the policy; that says nothing of its gain.
    """
    weight, today = gain.weight, gain.base
    if today is policy.base or not (today > 0).all() or not (weight**2).any():
        return 0.0
    return float(weight.sum() ** 2 / (np.sum(weight**2 / today) * today.sum()))


def worst_first(results: Iterable[Measurement]) -> tuple[Measurement, ...]:
    return tuple(sorted(results, key=lambda result: OUTCOMES.index(result.outcome)))


# Which depend on what an estimate is compared with. Agreement does not: that of gains alone misses what observations
# hide on half of the logs of the worlds `history` and `hidden-counter`, where a small step is walked.
OF_GAIN = (
    "tried-actions",
    "visited-states",
    "unseen-situations",
    "known-error",
    "even-weights",
    "negative-ratio",
    "within-reach",
)
HERE = "statewise.ope.measures"
MEASURES: Registry[Measure] = Registry(
    "measure",
    {
        "tried-actions": f"{HERE}.resting_on:TRIED",
        "enough-episodes": f"{HERE}.resting_on:ENOUGH",
        "mean-weight": f"{HERE}.resting_on:MEAN_WEIGHT",
        "negative-ratio": f"{HERE}.resting_on:NEGATIVE",
        "visited-states": f"{HERE}.resting_on:VISITED",
        "within-reach": f"{HERE}.resting_on:REACH",
        "missed-by-ratio": f"{HERE}.resting_on:MISSED",
        "leaning-on-critic": f"{HERE}.resting_on:LEANING",
        "even-weights": f"{HERE}.resting_on:EVEN",
        "known-error": f"{HERE}.resting_on:ERROR",
        "unseen-situations": f"{HERE}.resting_on:UNSEEN",
        "known-length": f"{HERE}.known_answers:LENGTH",
        "attainable": f"{HERE}.known_answers:RANGE",
        "behaviour-itself": f"{HERE}.known_answers:ITSELF",
        "agreement": f"{HERE}.known_answers:AGREEMENT",
        "early-and-late": f"{HERE}.known_answers:DRIFT",
        "record-reaches": f"{HERE}.known_answers:RECORD",
        "logged-propensities": f"{HERE}.of_propensities:LOGGED",
        "estimated-propensities": f"{HERE}.of_propensities:ESTIMATED",
        "mean-ratio": f"{HERE}.of_propensities:MEAN_RATIO",
    },
)
