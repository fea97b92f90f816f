"""From a certificate and the evidence for it to the content of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from statewise.data.dataset import Dataset
from statewise.data.horizon import sentence
from statewise.data.readable import columns_of
from statewise.ope.beside import by_all_estimators, values_of_simple_rules
from statewise.ope.certify import Certificate
from statewise.ope.estimate import Estimate
from statewise.ope.examples import examples_of
from statewise.ope.subgroups import by_first_state, by_period, gains_of, named_columns, sensible_columns
from statewise.ope.walk import OnRows
from statewise.ope.who_loses import changes_of
from statewise.policies.importance import importance_of
from statewise.policies.probabilities import probabilities_of
from statewise.policies.rule import rule_of
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
from statewise.report.facts import facts_of, flow_of

NAMES = {"opposd": "OPPOSD", "offpac": "Off-PAC", "cql": "CQL", "fitted-q": "fitted Q"}
COLUMNS = 5  # of an example: those on which the goal depends most
SHOWN = 500  # shares of the weight; more could not be distinguished in a figure
EDGES = np.geomspace(0.02, 50, 31)  # of π/μ; values beyond them count in the outermost bins


def from_certificate(
    certificate: Certificate,
    *,
    logs: Sequence[Dataset],
    learning: Dataset,
    judging: Dataset,
    curves: tuple[Curve, ...],
    subgroups: Sequence[str] | None = None,
    settings: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> ReportContent:
    """The report's content; `judging` is the part of the newest log that no choice has seen.

    Of the policy that may be deployed, or of the goal where there is none. `subgroups` are the columns by which the
    gain is shown, or None for sensible ones.
    """
    decision, estimate = certificate.decision, certificate.decision.estimate
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
        facts=facts_of(logs, estimate.discount),
        step=certificate.step or certificate.tried[0].step,
        way=certificate.way,
        goal_name=_name(certificate),
        rule=rule_of(certificate.goal_policy, learning, judging),
        flow=flow_of(logs, learning, judging, estimate.effective_sample_size),
        **_beside(certificate, judging, subgroups),
        overlap=_overlap(judging, policy),
        weight_shares=_shares(decision.estimate),
        calibration=_calibration(judging),
        action_map=action_map(policy, judging),
        agreement=agreement(policy, judging),
        carriers=_carriers(decision.estimate, judging),
        notes=_notes(certificate, judging) + notes,
        settings=settings,
        curves=curves,
    )


def _beside(certificate: Certificate, judging: Dataset, subgroups: Sequence[str] | None) -> dict[str, Any]:
    """What the judged episodes say beyond the answer: who gains, early and late, other estimators, examples."""
    decision, judged, goal = certificate.decision, certificate.judged, certificate.goal_policy
    columns = columns_of(judging)
    importance = importance_of(goal, judging, [column.features for column in columns])
    ranked = [columns[i] for i in np.argsort(-importance, kind="stable")]
    today = probabilities_of(certificate.today, judging)
    shown = sorted(ranked[:COLUMNS], key=lambda column: column.first)
    found: dict[str, Any] = {"examples": examples_of(judging, probabilities_of(goal, judging), today, shown)}
    if judged is None or decision.verdict == "not identified":
        return found
    weights = dict(zip((column.name for column in columns), importance.tolist(), strict=True))
    asked = sensible_columns(judging, weights) if subgroups is None else named_columns(judging, subgroups)
    policy = OnRows(judged.case.probabilities)
    return found | {
        "subgroups": gains_of(decision, judging, by_first_state(judging, asked)),
        "changes": changes_of(decision, judged, today),
        "periods": gains_of(decision, judging, by_period(judging)),
        "estimators": tuple(
            _worth(name, "other", one) for name, one in by_all_estimators(policy, judged.log, certificate.level).items()
        ),
    }


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
    if certificate.judged is not None:
        simple = values_of_simple_rules(certificate.judged.log, certificate.level)
        rows += [_worth(name, "other", estimate) for name, estimate in simple.items()]
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
        f"The goal ({_name(certificate)}) is the candidate that the learning episodes found most promising. "
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
