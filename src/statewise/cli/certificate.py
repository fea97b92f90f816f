"""How `improve` and `certify` show a certificate: what may be deployed, the goal, and what to log next."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from statewise.cli.terminal import coloured, table
from statewise.ope.certify import Certificate
from statewise.ope.gate import Decision
from statewise.ope.sensitivity import sentence
from statewise.ope.walk import Step


def show_certificate(console: Console, certificate: Certificate) -> None:
    """The answer, the numbers, the steps that were tested, and what to do next."""
    hidden = "" if certificate.hidden_reason is None else sentence(certificate.hidden_reason)
    reason = f"{certificate.reason[:1].upper()}{certificate.reason[1:]}. {hidden}".rstrip()
    console.print(Panel(Text.assemble(coloured(certificate.answer.capitalize()), "\n", reason), width=100))
    numbers = Table.grid(padding=(0, 2, 0, 0))
    numbers.add_row("  today", f"{certificate.decision.baseline.value:.4g}  (mean return of the evaluation episodes)")
    if certificate.policy is not None:
        least = certificate.decision.baseline.value + certificate.low
        numbers.add_row("  deploy this", f"{certificate.value:.4g}, at least {least:.4g}")
    numbers.add_row("  the goal", _goal(certificate.candidate, certificate.goal))
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
        mark = "deploy" if one.passed and one.step == certificate.step else "passed" if one.passed else "failed"
        gain, low = (f"{one.decision.difference:.4g}", f"{one.low:.4g}") if one.identified else ("–", "–")
        steps.add_row(f"{100 * one.step:.3g} %", gain, low, one.decision.verdict, mark)
    console.print(steps)


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


def _goal(name: str, goal: Decision) -> str:
    by = f"{name}: " if name else ""
    estimate = goal.estimate
    if not estimate.identified:
        return f"{by}the log cannot tell what it is worth"
    return f"{by}{estimate.value:.4g}  ({estimate.low:.4g} to {estimate.high:.4g}), {estimate.verdict}"
