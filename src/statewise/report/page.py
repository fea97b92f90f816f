"""The page: one self-contained file that opens without a network, with the answer at the top."""

from __future__ import annotations

import json
import re

from jinja2 import Environment, PackageLoader, StrictUndefined

from statewise.learning.runs import flattened
from statewise.ope.sensitivity import sentence as hidden_reason
from statewise.report import formatting
from statewise.report.advice import UNCHECKED, follows, next_steps
from statewise.report.content import ReportContent
from statewise.report.groups import forests_of, sentences_of
from statewise.report.panels import Panel, all_panels, legend

# CSS class, sign and headline of each answer
ANSWERS = {
    "deploy": ("good", "✓", "Deploy the new policy"),
    "do not deploy": ("bad", "✕", "Do not deploy the new policy"),
    "collect more data": ("doubtful", "?", "Collect more data first"),
    "not evaluated": ("doubtful", "?", "No answer yet"),
}
# sign, word and CSS class of each outcome
OUTCOMES = {
    "good": ("✓", "good", "good"),
    "doubtful": ("?", "doubtful", "doubtful"),
    "bad": ("✕", "not good", "bad"),
    "not made": ("–", "not checked", "open"),
}
ROLES = {
    "current": "what is done today",
    "chosen": "may be deployed",
    "goal": "what was learned",
    "other": "for comparison",
    "gain": "difference",
}
# the sections in order, each a template, and what the contents call them
SECTIONS = {
    "path": "How far the log reaches",
    "change": "What would change",
    "who": "Who gains, who loses",
    "worth": "What it is worth",
    "checks": "Can it be trusted?",
    "made": "How it was made",
    "glossary": "Glossary",
}
FILTERS = (
    "number",
    "percent",
    "interval",
    "value",
    "gain",
    "count",
    "sentence",
    "bounds",
    "action",
    "minus",
    "consequence",
)


def render(content: ReportContent) -> str:
    """The report as HTML."""
    environment = Environment(
        loader=PackageLoader("statewise.report"),
        autoescape=lambda name: name is None or not name.endswith(".css"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {name: getattr(formatting, name) for name in FILTERS} | {"share": formatting.one_decimal}
    kind, sign, headline = ANSWERS[content.answer]
    panels = all_panels(content)
    shown = _sections(content, panels)
    html = environment.get_template("page.html").render(
        content=content,
        kind=kind,
        sign=sign,
        headline=headline,
        hidden_reason="" if content.hidden_reason is None else hidden_reason(content.hidden_reason),
        outcomes=OUTCOMES,
        roles=ROLES,
        sections=shown,
        contents=[(name, SECTIONS[name]) for name in shown],
        steps=next_steps(content),
        follows=follows(content),
        unchecked=UNCHECKED,
        tiles=[worth for worth in map(content.worth, ("current", "chosen", "gain", "goal")) if worth is not None],
        least=_least(content),
        panels=panels,
        forests=forests_of(content),
        said=sentences_of(content),
        legend=legend(content.action_map),
        settings=flattened(content.settings or content.manifest.get("config") or {}),
        manifest=json.dumps({k: v for k, v in content.manifest.items() if k != "config"}, indent=2, ensure_ascii=False),
    )
    return re.sub(r"(\d) %", "\\1\N{NO-BREAK SPACE}%", html)  # no line ends between a number and its sign


def _least(content: ReportContent) -> dict[str, float] | None:
    """What the policy to deploy earns about and at least: what is done today does, and what is gained over it."""
    today, gain = content.worth("current"), content.worth("gain")
    if today is None or today.value is None or gain is None or gain.value is None or gain.low is None:
        return None
    return {"about": today.value + gain.value, "low": today.value + gain.low}


def _sections(content: ReportContent, panels: dict[str, list[Panel]]) -> list[str]:
    """Those that have something to show."""
    shown = {
        "path": panels["path"],
        "change": panels["difference"] or content.agreement or content.rule or content.examples,
        "who": content.subgroups or content.changes or content.periods,
        "worth": content.worths,
        "checks": content.measures or panels["support"],
        "made": True,
        "glossary": content.worths,
    }
    return [name for name in SECTIONS if shown[name]]
