"""From a decision and the evidence for it to the content of a report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from statewise.data.dataset import Dataset
from statewise.data.horizon import sentence
from statewise.ope.estimate import Estimate
from statewise.ope.gate import Decision
from statewise.ope.select import Selection
from statewise.report.compare import action_map, agreement
from statewise.report.content import (
    Calibration,
    Carrier,
    Checkpoint,
    Curve,
    Histogram,
    Place,
    ReportContent,
    Role,
    Worth,
)

NAMES = {"opposd": "OPPOSD", "offpac": "Off-PAC", "behaviour-cloning": "the cloned behaviour"}
SHOWN = 500  # shares of the weight; more could not be distinguished in a figure
EDGES = np.geomspace(0.02, 50, 31)  # of π/μ; values beyond them count in the outermost bins


@dataclass(frozen=True, eq=False)
class Candidate:
    """The best policy of one algorithm."""

    algorithm: str
    selection: Selection
    estimate: Estimate  # on the evaluation episodes
    chosen: bool


def from_decision(
    decision: Decision,
    candidates: tuple[Candidate, ...],
    *,
    log: Dataset,
    judging: Dataset,
    curves: tuple[Curve, ...],
    settings: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> ReportContent:
    """The report's content; `judging` is the part of the log that no choice has seen."""
    best = next(one for one in candidates if one.chosen)
    policy = best.selection.policy
    return ReportContent(
        answer=decision.answer,
        because=_sentence(decision.reason),
        hidden_reason=decision.hidden_reason,
        value_name=_value_name(decision.estimate),
        counted=sentence(judging, decision.estimate.discount),
        level=decision.level,
        worths=_worths(decision, candidates),
        measures=decision.measures,
        overlap=_overlap(judging, policy),
        weight_shares=_shares(decision.estimate),
        calibration=_calibration(judging),
        checkpoints=tuple(row for one in candidates for row in _checkpoints(one)),
        chosen=Place(best.algorithm, best.selection.seed, best.selection.update),
        action_map=action_map(policy, judging),
        agreement=agreement(policy, judging),
        carriers=_carriers(decision.estimate, judging),
        notes=_notes(best, judging) + notes,
        settings=settings | {"log": f"{log.episodes:,} episodes, {len(log):,} decisions"},
        curves=curves,
    )


def _worths(decision: Decision, candidates: tuple[Candidate, ...]) -> tuple[Worth, ...]:
    rows = [_worth("current practice", "current", decision.baseline)]
    for one in candidates:
        name = NAMES.get(one.algorithm, one.algorithm)
        if one.chosen:
            rows.insert(1, _worth(f"the new policy ({name})", "chosen", decision.estimate))
        else:
            rows.append(_worth(name, "other", one.estimate))
    if decision.verdict != "not identified":
        gain = decision.difference, decision.low, decision.high
        rows.append(Worth("gain", "gain", decision.verdict, decision.estimate.estimator, *gain))
    return tuple(rows)


def _worth(name: str, role: Role, estimate: Estimate) -> Worth:
    return replace(Worth.of(name, role, estimate), reason=_sentence(estimate.reason))


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


def _checkpoints(candidate: Candidate) -> list[Checkpoint]:
    rows = []
    for (seed, update), one in candidate.selection.scores.items():
        numbers = (one.value, one.low, one.high) if one.identified else (None, None, None)
        rows.append(Checkpoint(candidate.algorithm, seed, update, one.verdict, *numbers))
    return rows


def _carriers(estimate: Estimate, judging: Dataset) -> tuple[Carrier, ...]:
    returns = dict(zip(map(str, judging.episode_ids), judging.returns(estimate.discount), strict=True))
    carriers = estimate.diagnostics.carriers
    return tuple(Carrier(str(episode), share, float(returns[str(episode)])) for episode, share in carriers)


def _notes(best: Candidate, judging: Dataset) -> tuple[str, ...]:
    notes = [_sentence(f"how the policy was chosen: {best.selection.reason}")]
    if judging.estimated is not None:
        notes.append(judging.estimated.summary)
    return tuple(notes)


def _value_name(estimate: Estimate) -> str:
    return "return of an episode" if estimate.discount == 1 else f"return of an episode (γ = {estimate.discount:g})"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
