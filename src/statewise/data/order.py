"""The order of a log's rows: episodes apart, steps in order of time, final states told from decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from statewise.data.findings import Findings, count
from statewise.data.rawlog import RawLog


@dataclass(frozen=True)
class Layout:
    """Where each episode's rows stand once they are in order of time."""

    order: np.ndarray | None  # rows of the source in order of episode and step; None: they already are
    starts: np.ndarray  # first row of each episode, and the row count at the end
    final: np.ndarray  # ordered rows that hold an episode's final state and no decision

    def source_rows(self, ordered: np.ndarray) -> np.ndarray:
        return ordered if self.order is None else self.order[ordered]


def in_order_of_time(raw: RawLog, findings: Findings) -> tuple[RawLog, Layout]:
    step = None if raw.columns.step in raw.unreadable else _whole_steps(raw, findings)
    order = _order(raw.episode, step, len(raw.episode_ids))
    if order is not None:
        findings.warn(
            raw.columns.step if step is not None else raw.columns.episode,
            "the rows were not in order and had to be sorted",
            "Check that the log was exported whole",
        )
        raw = raw.take(order)
        step = None if step is None else step[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(raw.episode)) + 1, [len(raw)]])
    layout = Layout(order, starts, _final_rows(raw, starts))
    if step is not None:
        _check_steps(raw, step, layout, findings)
    return raw, layout


def _whole_steps(raw: RawLog, findings: Findings) -> np.ndarray | None:
    """The step column as whole numbers, or None where the file's own order must serve."""
    column = raw.columns.step
    if raw.step is None:
        findings.warn(
            column,
            "there is no such column, so rows are taken in the order of the log",
            "Add a column that numbers the decisions of each episode 0, 1, 2, …",
        )
        return None
    if np.issubdtype(raw.step.dtype, np.integer):
        return raw.step
    whole = (np.abs(raw.step) < 2**53) & (raw.step == np.floor(raw.step))  # beyond, floats skip whole numbers
    bad = np.flatnonzero(~whole)
    if len(bad):
        findings.fault(column, f"{count(bad)} not whole numbers", "Number each episode's decisions 0, 1, 2, …", bad)
        return None
    return raw.step.astype(np.int64)


def _order(episode: np.ndarray, step: np.ndarray | None, episodes: int) -> np.ndarray | None:
    """The permutation that sorts rows by episode and step, or None where they are sorted."""
    same = episode[1:] == episode[:-1]
    contiguous = len(episode) - np.count_nonzero(same) == episodes
    if contiguous and (step is None or bool(np.all((step[1:] >= step[:-1]) | ~same))):
        return None
    return np.argsort(episode, kind="stable") if step is None else np.lexsort((step, episode))


def _final_rows(raw: RawLog, starts: np.ndarray) -> np.ndarray:
    last = starts[1:] - 1
    final = last > starts[:-1]
    for column in (raw.action, raw.reward, raw.propensity):
        if column is not None:
            final &= _missing(column[last])
    return last[final] if raw.action is not None and raw.reward is not None else last[:0]


def _check_steps(raw: RawLog, step: np.ndarray, layout: Layout, findings: Findings) -> None:
    column = raw.columns.step
    gap = np.diff(step)
    within = np.ones(len(step) - 1, dtype=bool)
    within[layout.starts[1:-1] - 1] = False
    repeated = np.flatnonzero(within & (gap == 0)) + 1
    if len(repeated):
        findings.fault(
            column,
            f"{count(repeated)} a step that its episode already has",
            "Keep one row for each decision",
            layout.source_rows(repeated),
        )
    skipped = np.flatnonzero(within & (gap > 1)) + 1
    first = step[layout.starts[:-1]]
    if first.min() not in (0, 1):
        findings.warn(column, f"no episode has a step below {first.min()}", "Check that no first decisions are missing")
    late = layout.starts[:-1][first != first.min()]
    missing = np.union1d(skipped, late)
    if len(missing):
        findings.fault(
            column,
            f"{count(missing)} a step whose predecessor is missing",
            f"Every episode must be numbered {first.min()}, {first.min() + 1}, … without gaps; "
            "add the missing rows, or drop the whole episode",
            layout.source_rows(missing),
        )


def _missing(values: np.ndarray) -> np.ndarray:
    if np.issubdtype(values.dtype, np.integer):
        return np.zeros(len(values), dtype=bool)
    return np.isnan(values)


class Decisions:
    """The rows that hold a decision, and faults told by their place in the source."""

    def __init__(self, raw: RawLog, layout: Layout, findings: Findings):
        self.raw, self.layout, self.findings = raw, layout, findings
        self.kept: np.ndarray | None = None  # None: every row, so that nothing need be copied
        if len(layout.final):
            self.kept = np.ones(len(raw), dtype=bool)
            self.kept[layout.final] = False

    def of(self, column: np.ndarray) -> np.ndarray:
        return column if self.kept is None else column[self.kept]

    def fault(self, column: str, bad: Any, what: str, advice: str) -> bool:
        """Reports the decisions marked in `bad`; tells whether there were any."""
        if not np.any(bad):
            return False
        ordered = np.flatnonzero(bad)
        if self.kept is not None:
            ordered = np.flatnonzero(self.kept)[ordered]
        rows = self.layout.source_rows(ordered)
        self.findings.fault(column, f"{count(rows)} {what}", advice, rows)
        return True
