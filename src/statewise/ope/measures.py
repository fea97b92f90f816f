"""The one list of measures: each is a way in which an estimate can be wrong without its interval showing it.

The verdict is the worst of them. Report, terminal, JSON and the table in the documentation are made from this list, so
that a verdict always stands among the checks beside it. Adding a measure is one entry, here or from outside:

    MEASURES.add("my-measure", Measure(title=…, meaning=…, bounds=(1, 2), value=…, sentence=…))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from statewise.base.registry import Registry
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient
from statewise.ope.support import Support

Outcome = Literal["good", "doubtful", "bad", "not made"]
OUTCOMES: tuple[Outcome, ...] = ("bad", "doubtful", "not made", "good")  # worst first


class Evidence(NamedTuple):
    """What a measure may look at."""

    case: Case
    estimate: Quotient
    support: Support

    @property
    def episodes(self) -> int:
        return self.case.prepared.dataset.episodes

    @property
    def effective(self) -> float:
        return self.support.effective_share * self.episodes


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
    unit: str = ""  # of the bounds, for the documentation
    applies: Callable[[Evidence], bool] = lambda evidence: True

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

    def as_dict(self) -> dict[str, Any]:
        return vars(self) | {"bounds": list(self.bounds)}


def measured(evidence: Evidence) -> tuple[Measurement, ...]:
    """Every measure that applies, the worst first, otherwise in the order of the list."""
    results = []
    for name, measure in MEASURES.items():
        if not measure.applies(evidence):
            continue
        value = measure.value(evidence)
        outcome = measure.outcome(value)
        sentence = measure.missing if outcome == "not made" else measure.sentence(evidence)
        results.append(Measurement(name, measure.title, outcome, sentence, measure.meaning, value, measure.bounds))
    return tuple(sorted(results, key=lambda result: OUTCOMES.index(result.outcome)))


def percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def _skewness(evidence: Evidence) -> float:
    """skewness²/n, as an interval from a standard error misses its level by something like it.

    The weights' own skewness is seen only once the rare heavy episode has come; the effective share s tells it earlier:
    for log-normal weights, as products of ratios are nearly, skewness² = (1/s + 2)² (1/s − 1).
    """
    inverse = 1 / max(evidence.support.effective_share, 1e-12)
    return (inverse + 2) ** 2 * (inverse - 1) / evidence.episodes


def _calibration(evidence: Evidence) -> float:
    """How far estimated propensities are off, in units of what chance alone would show."""
    calibration = evidence.case.prepared.dataset.estimated.calibration  # pyright: ignore[reportOptionalMemberAccess]
    return calibration.error / calibration.tolerance


MEASURES: Registry[Measure] = Registry("measure")
MEASURES.add(
    "tried-actions",
    Measure(
        title="Actions that were tried",
        meaning="What the new policy would do although nobody ever did it there: the log cannot say what comes of it.",
        bounds=(0.01, 0.05),
        unit="of decisions",
        applies=lambda evidence: evidence.estimate.reweighted,
        value=lambda evidence: evidence.support.unsupported,
        sentence=lambda evidence: (
            f"{percent(evidence.support.unsupported or 0.0)} of the policy's decisions are ones that the log's "
            "behaviour never takes"
        ),
        missing="the log holds the probability of the taken action alone, so what was never tried cannot be known",
    ),
)
MEASURES.add(
    "enough-episodes",
    Measure(
        title="Enough episodes",
        meaning="How many episodes really carry the estimate. With fewer than 30 its error is not known well.",
        bounds=(30.0, 10.0),
        unit="effective episodes, at least",
        value=lambda evidence: evidence.effective,
        sentence=lambda evidence: f"{_count(evidence.effective)} of {evidence.episodes:,} episodes carry it",
    ),
)
MEASURES.add(
    "mean-weight",
    Measure(
        title="Weights that add up",
        meaning="Importance weights have mean 1. A mean far from it says that the log lacks much of what the policy "
        "does, or that a few episodes outweigh all.",
        bounds=(0.2, 0.5),
        unit="away from 1",
        value=lambda evidence: abs(evidence.support.mass - 1),
        sentence=lambda evidence: f"importance weights have mean {evidence.support.mass:.2g} instead of 1",
    ),
)
# A closed-form ratio that is negative, or misses its equations on held-out episodes by more than their noise. Measured
# on CartPole, policies of all distances: beyond the second bounds estimates were off by an eighth to three quarters and
# far outside their intervals; within the first they were inside.
MEASURES.add(
    "negative-ratio",
    Measure(
        title="A ratio that is one",
        meaning="The share of the state ratio that had to be cut off at 0. No true ratio is negative: where this one "
        "is, the new policy reaches situations that the log hardly contains.",
        bounds=(0.0005, 0.02),
        unit="of the ratio",
        applies=lambda evidence: evidence.support.negative is not None,
        value=lambda evidence: evidence.support.negative,
        sentence=lambda evidence: f"{percent(evidence.support.negative or 0.0)} of the state ratio is negative",
    ),
)
MEASURES.add(
    "visited-states",
    Measure(
        title="States that were visited",
        meaning="The new policy leads to other situations than the log's. This is how far the log fails to account for "
        "where it would lead, on episodes kept aside.",
        bounds=(0.03, 0.065),
        unit="unexplained",
        applies=lambda evidence: evidence.support.imbalance is not None,
        value=lambda evidence: evidence.support.imbalance,
        sentence=lambda evidence: (
            f"the state ratio misses its equations by {percent(evidence.support.imbalance or 0.0)} on held-out episodes"
        ),
    ),
)
# Where health changes slowly, as on HIV, a ratio stays near 1, all else looks well, and estimates are 30 to 90 % too
# low; a critic finds 1.5 to 80 standard errors missing, on other domains a tenth of one.
MEASURES.add(
    "missed-by-ratio",
    Measure(
        title="Rewards that are reached",
        meaning="What a critic finds missing from the estimate: the state ratio does not follow the policy to where "
        "the rewards are.",
        bounds=(1.0, 4.0),
        unit="standard errors",
        applies=lambda evidence: evidence.support.missed is not None,
        value=lambda evidence: evidence.support.missed,
        sentence=lambda evidence: f"a critic finds {evidence.support.missed:.1f} standard errors missing",
    ),
)
MEASURES.add(
    "leaning-on-critic",
    Measure(
        title="Not by the critic alone",
        meaning="How far the critic corrects the state ratio. Where it is far, the estimate rests on the critic, whose "
        "own error no interval holds.",
        bounds=(2.0, None),
        unit="standard errors",
        applies=lambda evidence: evidence.support.leaning is not None,
        value=lambda evidence: evidence.support.leaning,
        sentence=lambda evidence: (
            f"the critic corrects the state ratio by {evidence.support.leaning:.1f} standard errors"
        ),
    ),
)
MEASURES.add(
    "even-weights",
    Measure(
        title="No single episode decides",
        meaning="Where a few episodes outweigh the others, another log could tell another story.",
        bounds=(0.05, 0.5),
        unit="skewness² / episodes",
        value=_skewness,
        sentence=lambda evidence: (
            f"few episodes outweigh the others: {evidence.episodes:,} count for about {_count(evidence.effective)}"
        ),
    ),
)
MEASURES.add(
    "estimated-propensities",
    Measure(
        title="Propensities that agree with what was done",
        meaning="Where propensities were estimated: how far they are from how often each action was taken, in units of "
        "what chance alone would show.",
        bounds=(1.0, None),
        unit="times chance",
        applies=lambda evidence: evidence.case.prepared.dataset.estimated is not None,
        value=_calibration,
        sentence=lambda evidence: evidence.case.prepared.dataset.estimated.summary,  # pyright: ignore
    ),
)
