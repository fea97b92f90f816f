"""The page: one self-contained file that opens without a network, with the answer at the top."""

from __future__ import annotations

import json
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from statewise.learning.runs import flattened
from statewise.ope.sensitivity import sentence
from statewise.report.content import ReportContent
from statewise.report.formatting import interval, number, one_decimal, percent, value
from statewise.report.panels import all_panels, legend

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
    "other": "also considered",
    "gain": "difference",
}


def render(content: ReportContent) -> str:
    """The report as HTML."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "number": number,
        "percent": percent,
        "interval": interval,
        "share": one_decimal,
        "value": value,
    }
    template = environment.from_string((files("statewise.report") / "template.html").read_text(encoding="utf-8"))
    kind, sign, headline = ANSWERS[content.answer]
    return template.render(
        content=content,
        kind=kind,
        sign=sign,
        headline=headline,
        hidden_reason="" if content.hidden_reason is None else sentence(content.hidden_reason),
        outcomes=OUTCOMES,
        roles=ROLES,
        tiles=[worth for worth in map(content.worth, ("current", "chosen", "gain", "goal")) if worth is not None],
        panels=all_panels(content),
        legend=legend(content.action_map),
        settings=flattened(content.settings or content.manifest.get("config") or {}),
        manifest=json.dumps({k: v for k, v in content.manifest.items() if k != "config"}, indent=2, ensure_ascii=False),
    )
