"""From a certificate and the evidence for it to the content of a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from statewise.data.dataset import Dataset
from statewise.data.horizon import sentence
from statewise.ope.certify import Certificate
from statewise.ope.estimate import Estimate
from statewise.report.compare import action_map, agreement
from statewise.report.content import (
    Calibration,
    Carrier,
    Curve,
    Histogram,
    NextLog,
    PathStep,
    ReportContent,
    Role,
    Worth,
)

NAMES = {"opposd": "OPPOSD", "offpac": "Off-PAC", "cql": "CQL", "fitted-q": "fitted Q"}
SHOWN = 500  # shares of the weight; more could not be distinguished in a figure
EDGES = np.geomspace(0.02, 50, 31)  # of π/μ; values beyond them count in the outermost bins


def from_certificate(
    certificate: Certificate,
    *,
    log: Dataset,
    judging: Dataset,
    curves: tuple[Curve, ...],
    settings: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> ReportContent:
    """The report's content; `judging` is the part of the log that no choice has seen.

    Of the policy that may be deployed, or of the goal where there is none.
    """
    decision = certificate.decision
    policy = certificate.goal_policy if certificate.policy is None else certificate.policy
    return ReportContent(
        answer=certificate.answer,
        because=_sentence(certificate.reason),
        hidden_reason=certificate.hidden_reason,
        value_name=_value_name(decision.estimate),
        counted=sentence(judging, decision.estimate.discount),
        level=certificate.level,
        worths=_worths(certificate),
        measures=decision.measures,
        path=_path(certificate),
        next_log=_next_log(certificate),
        overlap=_overlap(judging, policy),
        weight_shares=_shares(decision.estimate),
        calibration=_calibration(judging),
        action_map=action_map(policy, judging),
        agreement=agreement(policy, judging),
        carriers=_carriers(decision.estimate, judging),
        notes=_notes(certificate, judging) + notes,
        settings=settings | {"log": f"{log.episodes:,} episodes, {len(log):,} decisions"},
        curves=curves,
    )


def _worths(certificate: Certificate) -> tuple[Worth, ...]:
    decision, goal = certificate.decision, certificate.goal
    rows = [_worth("current practice", "current", decision.baseline)]
    if certificate.policy is not None:
        rows.append(_worth("the policy to deploy", "chosen", decision.estimate))
    rows.append(_worth(f"the goal ({_name(certificate)})", "goal", goal.estimate))
    if certificate.policy is not None:
        least = f"At least {certificate.low:.4g}, with {100 * certificate.level:g} % confidence."
        gain = Worth("gain", "gain", decision.verdict, decision.estimate.estimator, certificate.difference)
        rows.append(replace(gain, low=certificate.low, reason=least))
    return tuple(rows)


def _name(certificate: Certificate) -> str:
    return NAMES.get(certificate.candidate, certificate.candidate or "as given")


def _worth(name: str, role: Role, estimate: Estimate) -> Worth:
    return replace(Worth.of(name, role, estimate), reason=_sentence(estimate.reason))


def _path(certificate: Certificate) -> tuple[PathStep, ...]:
    steps = []
    for one in certificate.tried:
        numbers = (one.decision.difference, one.low) if one.identified else (None, None)
        deployed = one.passed and one.step == certificate.step
        steps.append(PathStep(one.step, one.decision.verdict, *numbers, passed=one.passed, deployed=deployed))
    return tuple(steps)


def _next_log(certificate: Certificate) -> NextLog:
    following = certificate.next
    return NextLog(following.sentence, following.episodes, following.chance, following.situations)


def _overlap(judging: Dataset, policy: Any) -> Histogram:
    assert judging.propensities is not None
    taken = policy.probabilities(judging.observations, judging.legal)[np.arange(len(judging)), judging.actions]
    counts = np.histogram(np.clip(taken / judging.propensities, EDGES[0], EDGES[-1]), EDGES)[0]
    return Histogram(tuple(EDGES.tolist()), tuple((counts / counts.sum()).tolist()))


def _shares(estimate: Estimate) -> tuple[float, ...]:
    """Each episode's share of the weight, heaviest first; where there are many, neighbours are summed."""
    ordered = np.sort(estimate.shares)[::-1]
    if not ordered.sum() > 0:
        return ()
    return tuple(float(part.sum()) for part in np.array_split(ordered, min(len(ordered), SHOWN)))


def _calibration(judging: Dataset) -> Calibration | None:
    if judging.estimated is None:
        return None
    bins = judging.estimated.calibration.reliability
    return Calibration(
        tuple(one.predicted for one in bins),
        tuple(one.observed for one in bins),
        tuple(one.predictions for one in bins),
    )


def _carriers(estimate: Estimate, judging: Dataset) -> tuple[Carrier, ...]:
    returns = dict(zip(map(str, judging.episode_ids), judging.returns(estimate.discount), strict=True))
    carriers = estimate.diagnostics.carriers
    return tuple(Carrier(str(episode), share, float(returns[str(episode)])) for episode, share in carriers)


def _notes(certificate: Certificate, judging: Dataset) -> tuple[str, ...]:
    tested = len(certificate.tried)
    notes = [
        f"The goal was learned by {_name(certificate)}, which the learning episodes found most promising. "
        f"{tested} step{'s' if tested != 1 else ''} towards it {'were' if tested != 1 else 'was'} tested on the other "
        "episodes, in an order that was fixed beforehand, up to the first that failed."
    ]
    if judging.estimated is not None:
        notes.append(judging.estimated.summary)
    return tuple(notes)


def _value_name(estimate: Estimate) -> str:
    return "return of an episode" if estimate.discount == 1 else f"return of an episode (γ = {estimate.discount:g})"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
