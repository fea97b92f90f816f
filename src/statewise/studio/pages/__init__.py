"""The templates of the studio's pages."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from statewise.base.memory import in_words
from statewise.report.formatting import interval, number, percent, value


def page(name: str, **values: Any) -> str:
    """A page, or a part of one, as HTML."""
    return _environment().get_template(name).render(**({"error": ""} | values))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("statewise.studio", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {"number": number, "percent": percent, "interval": interval, "value": value, "bytes": in_words}
    environment.filters |= {**filters, "when": _when}
    return environment


def _when(time: str) -> str:
    """`2026-11-16T09:30:00` as `16 November, 09:30`."""
    moment = datetime.fromisoformat(time)
    return f"{moment.day} {moment:%B}, {moment:%H:%M}"
