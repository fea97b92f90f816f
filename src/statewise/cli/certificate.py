"""How `improve` and `certify` show a certificate: what may be deployed, the goal, and what to log next."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from statewise.cli.decision import SIGNS
from statewise.cli.terminal import coloured, table
from statewise.ope.certify import Certificate
from statewise.ope.gate import Decision
from statewise.ope.sensitivity import sentence
from statewise.ope.walk import Step

WIDTH = 100


def show_certificate(console: Console, certificate: Certificate) -> None:
    """The answer, the numbers, where it differs from today, the steps that were tested, and what to do next."""
    hidden = "" if certificate.hidden_reason is None else sentence(certificate.hidden_reason)
    _show_panel(console, certificate, hidden)
    numbers = _numbers(certificate)
    numbers.add_row("  the goal", Text(_goal(certificate.candidate, certificate.goal)))
    numbers.add_row("  log this next", Text(certificate.next.sentence))
    console.print(numbers)
    console.print()
    if certificate.policy is not None and certificate.next.situations:
        console.print(Text("  Where it differs most from today:"))
        differences = Table.grid(padding=(0, 1, 0, 0))
        for one in certificate.next.situations:
            often = f"{100 * one.then:.0f} % of the time instead of {100 * one.today:.0f} %"
            differences.add_row("  ·", Text(f"{one.where}: action {one.action}, {often}"))
        console.print(differences)
        console.print()
    console.print(Text("  Steps from today towards the goal, in the order in which they were tested:"))
    steps = table(("of the way", "gain", "at least", "support", ""), left=("support", ""))
    for one in certificate.tried:
        gain, low = (f"{one.decision.difference:.4g}", f"{one.low:.4g}") if one.identified else ("–", "–")
        steps.add_row(f"{100 * one.step:.3g} %", gain, low, one.decision.verdict, _mark(one, certificate))
    console.print(steps)


def show_summary(console: Console, certificate: Certificate) -> None:
    """The same on less than a screen, for where a report says the rest."""
    _show_panel(console, certificate)
    numbers = _numbers(certificate)
    beaten = next(iter(certificate.beside), "")
    why = f"which got further than {beaten}" if beaten else "chosen for what the learning episodes promise"
    numbers.add_row("  the goal", Text(_goal(certificate.candidate, certificate.goal, f", {why}")))
    tested = (f"{100 * one.step:.3g} % {_mark(one, certificate)}" for one in certificate.tried)
    numbers.add_row("  tested", Text(f"{', '.join(tested)}, on the way to the goal"))
    numbers.add_row("  log this next", Text(certificate.next.sentence))
    if certificate.hidden_reason is not None:
        numbers.add_row("  take care", Text(sentence(certificate.hidden_reason)))
    measures = certificate.decision.measures
    for measure in measures:
        if measure.outcome in ("bad", "doubtful"):
            sign, colour = SIGNS[measure.outcome]
            shown = Text.assemble((f"{sign} {measure.outcome}  ", colour), f"{measure.title}: {measure.sentence}.")
            numbers.add_row("  check", shown)
    good, missing = (sum(measure.outcome == outcome for measure in measures) for outcome in ("good", "not made"))
    left = f", – {missing} not made" if missing else ""
    numbers.add_row("  checks", Text.assemble((f"✓ {good} good", "green"), f"{left}; the report has all of them"))
    console.print(numbers)


def show_answer(console: Console, certificate: Certificate) -> None:
    """The answer and what to do next, a sentence each."""
    reason = f"{certificate.reason[:1].upper()}{certificate.reason[1:]}."
    console.print(Text.assemble(coloured(certificate.answer.capitalize()), f". {reason}"))
    console.print(Text(f"  next    {certificate.next.sentence}"))


def _show_panel(console: Console, certificate: Certificate, more: str = "") -> None:
    reason = f"{certificate.reason[:1].upper()}{certificate.reason[1:]}. {more}".rstrip()
    console.print(Panel(Text.assemble(coloured(certificate.answer.capitalize()), "\n", reason), width=WIDTH))


def _numbers(certificate: Certificate) -> Table:
    """What is done today earns, and what the policy to deploy does."""
    numbers = Table.grid(padding=(0, 2, 0, 0))
    numbers.add_row("  today", f"{certificate.decision.baseline.value:.4g}  (mean return of the evaluation episodes)")
    if certificate.policy is not None:
        least = certificate.decision.baseline.value + certificate.low
        numbers.add_row("  deploy this", f"{certificate.value:.4g}, at least {least:.4g}")
    return numbers


def _mark(one: Step, certificate: Certificate) -> str:
    return "deploy" if one.passed and one.step == certificate.step else "passed" if one.passed else "failed"


def certificate_as_json(certificate: Certificate) -> dict[str, Any]:
    """What was certified; numbers that the log does not identify are None."""
    following = certificate.next
    known = certificate.decision.verdict != "not identified"
    return {
        "answer": certificate.answer,
        "because": certificate.reason,
        "verdict": certificate.decision.verdict,
        "step": certificate.step,
        "today": certificate.decision.baseline.value,
        "gain": {"difference": certificate.difference, "at_least": certificate.low} if known else None,
        "level": certificate.level,
        "hidden_reason": certificate.hidden_reason,
        "candidate": certificate.candidate,
        "tried": [_step(one) for one in certificate.tried],
        "next": {
            "sentence": following.sentence,
            "episodes": following.episodes,
            "chance": following.chance,
            "step": following.step,
            "situations": [vars(one) for one in following.situations],
        },
        "measures": [measure.as_dict() for measure in certificate.decision.measures],
    }


def _step(one: Step) -> dict[str, Any]:
    gain = (
        {"gain": one.decision.difference, "at_least": one.low} if one.identified else {"gain": None, "at_least": None}
    )
    return {"step": one.step, "verdict": one.decision.verdict, "passed": one.passed, **gain}


def _goal(name: str, goal: Decision, why: str = "") -> str:
    """What the goal is worth; `why` it is this one and no other."""
    by = f"{name}{why}: " if name else ""
    estimate = goal.estimate
    if not estimate.identified:
        return f"{by}the log cannot tell what it is worth"
    return f"{by}{estimate.value:.4g}  ({estimate.low:.4g} to {estimate.high:.4g}), {estimate.verdict}"
