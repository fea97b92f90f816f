"""Questions whose answers are known beforehand: where one is answered wrongly, the estimate is not believed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from statewise.data.horizon import beyond
from statewise.ope.attainable import attainable
from statewise.ope.centred import centred
from statewise.ope.clone import behaviour_by_clone
from statewise.ope.estimators.doubly_robust import weighted_doubly_robust
from statewise.ope.estimators.per_decision import weighted_per_decision
from statewise.ope.estimators.state_ratio import length
from statewise.ope.measures import Evidence, Measure
from statewise.ope.measures.resting_on import ENOUGH, EVEN, UNLIKE, percent
from statewise.ope.quotient import Quotient, standard_error
from statewise.ope.support import support_of

NOISE = 2.0  # standard errors that are chance


def _length(evidence: Evidence) -> tuple[float, float]:
    """The (discounted) length of episodes by the state ratio, and by what share of it that is wrong beyond chance."""
    log, case = evidence.log, evidence.case
    counted = length(case)
    known, error = float(log.discounts.sum()), standard_error(counted.influence(), log.dataset.groups)
    beyond_chance = max(abs(counted.value - known) - NOISE * error, 0.0)
    return counted.value, beyond_chance / known


def _outside(evidence: Evidence) -> float:
    """By how many standard errors the estimate lies outside what can be earned."""
    low, high = attainable(evidence.log)
    value, error = evidence.estimate.value, evidence.error
    outside = max(low - value, value - high, 0.0)
    return 0.0 if outside == 0 else outside / error if error > 0 else float("inf")


def _range_sentence(evidence: Evidence) -> str:
    low, high = attainable(evidence.log)
    outside = _outside(evidence)
    where = "within" if outside == 0 else f"{outside:.1f} standard errors outside"
    between = f"{low:.4g} or more" if high == float("inf") else f"{low:.4g} to {high:.4g}"
    return f"the estimate lies {where} what can be earned, {between}"


def _itself(evidence: Evidence) -> float | None:
    clone = behaviour_by_clone(evidence.log)
    return None if clone is None else clone.deviation


def _itself_sentence(evidence: Evidence) -> str:
    clone = behaviour_by_clone(evidence.log)
    assert clone is not None
    return f"the same method puts what is done today at {clone.value:.4g}; it earned {clone.earned:.4g}"


class Other(NamedTuple):
    """The estimate of one that rests on other assumptions."""

    estimate: Quotient
    apart: float  # from ours, in standard errors of the difference


def _importance_based(evidence: Evidence) -> Other | None:
    """By weighted doubly robust importance sampling, which needs no state that tells all; None if too few carry it."""
    case, log = evidence.case, evidence.log
    if log.objective != "return":
        return None
    # what it rests on is known before its critic is: of long episodes hardly any carries it
    bare = case.remembered("importance weights", lambda: weighted_per_decision(case, log.dataset.rewards))
    support = case.remembered("importance support", lambda: support_of(case, bare))
    beside = evidence._replace(estimate=bare, support=support)
    if ENOUGH.outcome(ENOUGH.value(beside)) != "good":
        return None
    other = case.remembered("importance-based", lambda: centred(weighted_doubly_robust)(case, log.dataset.rewards))
    error = standard_error(evidence.estimate.influence() - other.influence(), log.dataset.groups)
    error *= max(EVEN.value(beside) or 0.0, 1.0) ** 0.25  # where few weights decide, it is less than it seems
    apart = abs(evidence.estimate.value - other.value)
    return Other(other, float(apart / error) if error > 0 else 0.0)


def _agreement(evidence: Evidence) -> float | None:
    other = _importance_based(evidence)
    return None if other is None else other.apart


def _agreement_sentence(evidence: Evidence) -> str:
    other = _importance_based(evidence)
    assert other is not None
    said = f"importance sampling, which does not take that for granted, puts it at {other.estimate.value:.4g}"
    return f"{said}, {other.apart:.1f} standard errors away"


def _drift(evidence: Evidence) -> float:
    """max_k |Σ_{e ≤ k} influence| / (σ √n) of the gain, in the order of the log; beyond 1.63 once in a hundred logs.

    The supremum of a Brownian bridge (Kolmogorov), whatever the moment at which something changed.
    """
    assert evidence.gain is not None
    influence, groups = evidence.gain.influence(), evidence.log.dataset.groups
    if not np.isfinite(influence).all():
        return float("inf")
    first = np.unique(groups, return_index=True)[1]
    sums = np.bincount(groups, influence)[np.argsort(first)]
    sums = sums - sums.mean()
    spread = np.sqrt(np.sum(sums**2))
    return float(np.abs(np.cumsum(sums)).max() / spread) if spread > 0 else 0.0


LENGTH = Measure(
    title="A reward of 1 at every step",
    meaning="All episodes are equally long, so a reward of 1 a step must be worth that length under every policy.",
    bounds=(0.01, 0.05),
    unit="of the length, beyond chance",
    applies=lambda evidence: (
        evidence.support.imbalance is not None and evidence.log.equally_long and len(evidence.log.discounts) > 1
    ),
    value=lambda evidence: _length(evidence)[1],
    remedy=UNLIKE,
    sentence=lambda evidence: (
        f"a reward of 1 a step is put at {_length(evidence)[0]:.4g}; it is worth {evidence.log.discounts.sum():.4g}"
    ),
)
RANGE = Measure(
    title="No more than is possible",
    meaning="No policy earns more than the greatest reward at every step, or less than the least.",
    bounds=(1.0, 3.0),
    unit="standard errors outside",
    remedy=UNLIKE,
    value=_outside,
    sentence=_range_sentence,
)
ITSELF = Measure(
    title="A value that is known",
    meaning="What today's behaviour is worth is known: the log earned it. A model of the behaviour, judged as the "
    "policy is, must come out the same.",
    bounds=(3.0, None),
    unit="standard errors",
    applies=lambda evidence: evidence.estimate.by_states and evidence.log.objective == "return",
    value=_itself,
    sentence=_itself_sentence,
    missing="the behaviour could not be modelled closely enough to be judged",
)
AGREEMENT = Measure(
    title="Estimators that rest on other assumptions",
    meaning="The estimate takes for granted that the observation tells all that matters. Importance sampling does not; "
    "where it is precise enough to tell, both must agree.",
    remedy="Observations that tell more would help, such as what happened before",
    bounds=(2.5, 3.5),
    unit="standard errors apart",
    applies=lambda evidence: evidence.estimate.by_states and len(evidence.log.discounts) > 1,
    value=_agreement,
    sentence=_agreement_sentence,
    missing="importance weights over whole episodes are too uneven to compare with",
)
DRIFT = Measure(
    title="The same early and late",
    meaning="The gain must be the same in the log's early and late episodes, or it is not known what it is now.",
    remedy="Episodes logged after whatever changed would help",
    bounds=(1.63, 1.95),
    unit="Kolmogorov's distance",
    of="gain",
    value=_drift,
    sentence=lambda evidence: (
        f"early and late episodes differ in the gain by {_drift(evidence):.2f}; by chance, seldom by more than 1.36"
    ),
)
RECORD = Measure(
    title="Episodes that are recorded to their end",
    meaning="The share of the episodes that go on beyond the longest records. What they earn there counts, and is not "
    "in the log.",
    remedy="Episodes that are recorded to their end would help, or a horizon that the records reach",
    bounds=(0.05, 0.2),
    unit="of episodes",
    applies=lambda evidence: evidence.log.dataset.horizon.cut_off == "censored",
    value=lambda evidence: beyond(evidence.log.dataset, evidence.log.discount),
    sentence=lambda evidence: (
        f"{percent(beyond(evidence.log.dataset, evidence.log.discount))} of the episodes go on beyond the record"
    ),
)
