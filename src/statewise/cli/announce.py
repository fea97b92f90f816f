"""What `improve` is about to do, in three lines, before it takes its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from statewise.algorithms import name_of
from statewise.data.dataset import Dataset
from statewise.data.discount import suggested
from statewise.data.horizon import sentence
from statewise.ope.certify import learning_part
from statewise.plan import Plan


def announce(console: Console, logs: Sequence[Dataset], settings: Any, plan: Plan) -> None:
    """The log and its parts, γ and how far the value counts, and the algorithms."""
    for line in announcement(logs, settings, plan):
        console.print(Text(line))


def announcement(logs: Sequence[Dataset], settings: Any, plan: Plan) -> list[str]:
    newest, own = logs[-1], suggested(logs[-1])
    given = settings.discount if plan.discount is None else plan.discount
    discount, because = (own.discount, f"since {own.because}") if given is None else (given, "as given")
    beside = [one if isinstance(one, str) else name_of(one) for one in plan.beside]
    names = list(dict.fromkeys([name_of(settings), *beside]))
    groups = int(newest.groups.max()) + 1
    learning, kind = int(np.rint(learning_part(newest) * groups)), "episodes" if newest.units is None else "units"
    older = f", and {sum(log.episodes for log in logs[:-1]):,} episodes of older logs" if len(logs) > 1 else ""
    estimated = "; the probabilities of actions are estimated" if newest.propensities is None else ""
    return [
        f"log       {len(newest):,} decisions in {newest.episodes:,} episodes{_named(newest)}{estimated}",
        f"γ         {discount:g}, {because}. {sentence(newest, discount)}",
        f"learning  from {learning:,} {kind}{older}, by {', '.join(names)}",
        f"judging   by the other {groups - learning:,} {kind}, kept out of every choice",
    ]


def _named(log: Dataset) -> str:
    """Of which reward and which dates, where the log says so."""
    reward = "" if log.schema is None else f", reward '{log.schema.columns.reward}'"
    dated = log.origin is not None and log.origin.first is not None
    return f"{reward}, {log.origin.first} to {log.origin.last}" if dated and log.origin else reward
