"""What a notebook shows of an object: a headline, a sentence, and its picture; without scripts and style sheets."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from statewise.report.formatting import number, percent
from statewise.report.svg import TONES, Dot, Interval, bars, intervals, lines, path

if TYPE_CHECKING:
    from statewise.data.dataset import Dataset
    from statewise.learning.fit import Result
    from statewise.ope.certify import Certificate
    from statewise.ope.estimate import Estimate
    from statewise.ope.gate import Decision

ANSWERS = {"deploy": "good", "do not deploy": "bad", "collect more data": "doubtful"}
VERDICTS = {"supported": "good", "weak": "doubtful", "not identified": "bad"}
MOST = 8  # actions shown
POINTS = 300  # of a curve; more could not be told apart


def dataset(log: Dataset) -> str:
    """How large it is, what it holds, and how often each action was taken."""
    shares = np.bincount(log.actions, minlength=log.action_count) / max(1, len(log))
    order = np.argsort(-shares, kind="stable")[:MOST]
    rows = [(log.action_names[action], float(shares[action])) for action in order]
    more = log.action_count - len(rows)
    names = ", ".join(log.observation_names[:6]) + (", …" if len(log.observation_names) > 6 else "")
    propensities = "not logged" if log.propensities is None else "logged" if log.estimated is None else "estimated"
    returns = log.returns()
    facts = {
        "observations": f"{len(log.observation_names)}: {names}",
        "probabilities": propensities,
        "ends": f"{int(log.terminated.sum()):,} by themselves, {int(log.truncated.sum()):,} cut off",
        "return of an episode": f"{number(float(returns.mean()))} on average, "
        f"from {number(float(returns.min()))} to {number(float(returns.max()))}",
    }
    said = "; ".join(f"{name} {percent(share)}" for name, share in rows)
    caption = "How often each action was taken" + (f"; {more} more are not shown" if more > 0 else "")
    picture = bars(rows, f"How often each action was taken: {said}.")
    return _card(f"Log of {log.episodes:,} episodes, {len(log):,} decisions", "", _facts(facts), picture, caption)


def estimate(one: Estimate) -> str:
    """The value with its interval, or why there is none."""
    headline = "Not identified" if not one.identified else number(one.value)
    known = (one.value, one.low, one.high) if one.identified else (None, None, None)
    row = Interval("value", *known, tone=VERDICTS[one.verdict])
    spoken = f"between {number(one.low)} and {number(one.high)}" if one.identified else "not identified"
    reason = f"{one.verdict}: {one.reason}"
    caption = f"By {one.estimator}, with its {percent(one.level)} interval; γ = {one.discount:g}"
    return _card(headline, reason, "", intervals([row], f"{one.estimator}: {spoken}."), caption, VERDICTS[one.verdict])


def decision(one: Decision) -> str:
    """The answer, why, and today beside the policy."""
    rows = [_row("what is done today", one.baseline, "current"), _row("the policy", one.estimate, "accent")]
    gain = ""
    if one.verdict != "not identified":
        between = f"{percent(one.level)} interval {number(one.low)} to {number(one.high)}"
        gain = _facts({"gain": f"{number(one.difference)} ({between})"})
    alt = "; ".join(f"{row.label}: {'not identified' if row.value is None else number(row.value)}" for row in rows)
    caption = f"The return of an episode, with {percent(one.level)} intervals"
    return _card(one.answer.capitalize(), one.reason, gain, intervals(rows, f"{alt}."), caption, ANSWERS[one.answer])


def certificate(one: Certificate, more: Mapping[str, str] | None = None) -> str:
    """The answer, the step that may be deployed, and the path that was tested."""
    dots = [
        Dot(tried.step, tried.decision.difference, tried.low, "good" if tried.passed else "bad")
        for tried in one.tried
        if tried.identified
    ]
    facts = {"goal": one.candidate or "as given", "log next": one.next.sentence, **(more or {})}
    steps = "; ".join(f"{percent(dot.step)} of the way {number(dot.gain)}, at least {number(dot.low)}" for dot in dots)
    picture = path(dots, f"The gain over today along the way to the goal: {steps}.") if dots else ""
    caption = "What each tested step gains over today (dots), and at least (dashes); green ones passed" if dots else ""
    return _card(one.answer.capitalize(), one.reason, _facts(facts), picture, caption, ANSWERS[one.answer])


def improvement(one: Any) -> str:
    """The certificate, and where everything was written."""
    files = {} if one.policy_file is None else {"policy": str(one.policy_file)}
    files |= {"what was learned": str(one.goal_file), "report": str(one.report)}
    return certificate(one.certificate, files)


def result(one: Result) -> str:
    """What was learned, and how the critic's own estimate went on the way."""
    name, seeds = type(one.config).__name__, len(one.seeds)
    values = np.asarray(one.metrics.get("value", np.zeros((0, 0))), dtype=float)
    updates = values.shape[1] if values.size else 0
    kept = values[:, np.linspace(0, updates - 1, min(POINTS, updates)).astype(int)] if updates else []
    curves = [row.tolist() for row in kept if np.isfinite(row).any()]
    facts = {
        "updates": f"{one.config.updates:,}, with {len(one.checkpoints)} checkpoints",
        "γ": f"{one.config.discount:g}",
        "next": "sw.evaluate(result.policies[0], held_out) estimates what a policy is worth",
    }
    headline = f"{name}, {seeds} seed{'' if seeds == 1 else 's'}"
    if not curves:
        return _card(headline, "", _facts(facts), "", "")
    alt = f"The critic's own estimate, from {number(curves[0][0])} to {number(curves[0][-1])} in the first seed."
    caption = "The critic's own estimate of the value while it learned, which is not evidence"
    return _card(headline, "", _facts(facts), lines(curves, alt), caption)


def _row(label: str, one: Estimate, tone: str) -> Interval:
    known = (one.value, one.low, one.high) if one.identified else (None, None, None)
    return Interval(label, *known, tone=tone)


def _facts(facts: Mapping[str, str]) -> str:
    rows = "".join(
        f'<div style="display:flex;gap:.8em"><span style="flex:none;width:10.5em;color:{TONES["muted"]}">{escape(name)}'
        f'</span><span style="min-width:0;overflow-wrap:anywhere">{escape(text)}</span></div>'
        for name, text in facts.items()
    )
    return f'<div style="margin:.5em 0;font-size:.93em">{rows}</div>'


def _card(headline: str, reason: str, facts: str, picture: str, caption: str, tone: str = "accent") -> str:
    parts = [f'<div style="font-size:1.25em;font-weight:700;color:{TONES[tone]}">{escape(headline)}</div>']
    if reason:
        parts.append(f"<div>{escape(reason[:1].upper() + reason[1:])}</div>")
    parts.append(facts)
    if picture:
        muted = f'<div style="font-size:.85em;color:{TONES["muted"]}">{escape(caption)}</div>'
        parts.append(f'<div style="margin-top:.5em">{picture}{muted}</div>')
    box = f"border-left:.35em solid {TONES[tone]};padding:.2em 0 .2em 1em;margin:.3em 0;max-width:46em;line-height:1.45"
    return f'<div style="{box}">{"".join(parts)}</div>'
