"""How `improve` and `evaluate` show a decision: what would turn it over, and every check it rests on."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from statewise.ope.gate import Decision
from statewise.ope.sensitivity import sentence

SIGNS = {"bad": ("✕", "red"), "doubtful": ("?", "yellow"), "not made": ("–", ""), "good": ("✓", "green")}


def hidden_reason(decision: Decision) -> str:
    """How strong a reason that is not in the log would have to be; empty unless the answer is *deploy*."""
    return "" if decision.hidden_reason is None else sentence(decision.hidden_reason)


def checks_table(decision: Decision) -> Table:
    """Every check, the decisive one first; those that are not good with what they mean."""
    shown = Table(box=None, show_header=False, pad_edge=True)
    for measure in decision.measures:
        sign, colour = SIGNS[measure.outcome]
        text = Text(f"{measure.title}: {measure.sentence}.")
        if measure.outcome != "good":
            text += Text(f" {measure.meaning}")
        shown.add_row(Text(f"{sign} {measure.outcome}", colour), text)
    return shown


def decision_as_json(decision: Decision) -> dict[str, Any]:
    """What was decided; numbers that the log does not identify are None."""
    numbers = ("difference", "low", "high", "standard_error")
    known = decision.verdict != "not identified"
    return {
        "answer": decision.answer,
        "reason": decision.reason,
        "verdict": decision.verdict,
        **{name: getattr(decision, name) if known else None for name in numbers},
        "level": decision.level,
        "episodes_needed": decision.episodes_needed,
        "hidden_reason": decision.hidden_reason,
        "measures": [measure.as_dict() for measure in decision.measures],
    }
