"""What was looked at: the log, its size and dates, what is counted and how, and what became of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from statewise.data.dataset import Dataset
from statewise.data.discount import suggested
from statewise.data.horizon import recorded_weight
from statewise.data.rawlog import Columns

ARRAYS = "a log of arrays"


@dataclass(frozen=True)
class LogFacts:
    """What the logs are, for the first screen."""

    names: tuple[str, ...]  # of the files, the newest last
    decisions: int
    episodes: int
    discount: float
    discount_reason: str
    reward: str = "reward"  # the name of its column
    episode: str = "episode"  # likewise
    unit: str = ""  # likewise; "": there are none
    units: int | None = None
    first: str | None = None  # dates; None: the log has none
    last: str | None = None


@dataclass(frozen=True)
class FlowStep:
    """How many are left after a step on the way from the file to the answer."""

    count: str
    what: str
    note: str = ""


def facts_of(logs: Sequence[Dataset], discount: float) -> LogFacts:
    """Of all logs together, as the newest names its columns."""
    newest = logs[-1]
    columns = Columns() if newest.schema is None else newest.schema.columns
    origins = [log.origin for log in logs if log.origin is not None]
    firsts = [origin.first for origin in origins if origin.first is not None]
    lasts = [origin.last for origin in origins if origin.last is not None]
    own = suggested(newest)
    return LogFacts(
        names=tuple(log.origin.name if log.origin is not None and log.origin.name else ARRAYS for log in logs),
        decisions=sum(len(log) for log in logs),
        episodes=sum(log.episodes for log in logs),
        discount=discount,
        discount_reason=own.because if own.discount == discount else "as it was given",
        reward=columns.reward,
        episode=columns.episode,
        unit=columns.unit if newest.units is not None else "",
        units=_units(logs),
        first=min(firsts, default=None),
        last=max(lasts, default=None),
    )


def flow_of(logs: Sequence[Dataset], learning: Dataset, judging: Dataset, effective: float) -> tuple[FlowStep, ...]:
    """From the rows of the files to the episodes that carry the answer."""
    decisions, units, steps = sum(len(log) for log in logs), _units(logs), []
    rows = [log.origin.rows for log in logs if log.origin is not None]
    if len(rows) == len(logs):
        others = sum(rows) - decisions
        note = f"{others:,} more only say where an episode ended" if others > 0 else ""
        steps.append(FlowStep(f"{sum(rows):,}", "rows in the log" if len(logs) == 1 else f"rows in {len(logs)} logs"))
        steps.append(FlowStep(f"{decisions:,}", "decisions", note))
    else:
        steps.append(FlowStep(f"{decisions:,}", "decisions"))
    steps.append(
        FlowStep(f"{sum(log.episodes for log in logs):,}", f"episodes{'' if units is None else f' of {units:,} units'}")
    )
    older = sum(log.episodes for log in logs[:-1])
    note = f"{older:,} of older logs among them" if older else ""
    steps.append(FlowStep(f"{learning.episodes + older:,}", "episodes to learn from and to choose by", note))
    steps.append(FlowStep(f"{judging.episodes:,}", "episodes to judge by, kept out of every choice"))
    used = float((recorded_weight(judging) > 0).mean())
    if used < 1:
        steps.append(FlowStep(f"{100 * used:.3g} %", "of their decisions count", "the others lie beyond the record"))
    kind = "episodes" if judging.units is None else "units"
    if np.isfinite(effective):
        note = "those that resemble what the policy would do count more"
        steps.append(FlowStep(f"{effective:,.0f}", f"equally weighted {kind} would tell as much", note))
    return tuple(steps)


def _units(logs: Sequence[Dataset]) -> int | None:
    """How many there are in all logs together; None where they have none."""
    names = [log.units for log in logs if log.units is not None]
    return len(np.unique(np.concatenate(names))) if names else None
