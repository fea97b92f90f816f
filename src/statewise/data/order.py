"""The order of a log's rows: episode by episode, in order of time, with final states set apart from decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from statewise.data.findings import NOT_WHOLE, Findings, rows_that
from statewise.data.rawlog import RawLog

NOT_IN_ORDER = "the rows were not in order and had to be sorted", "Check that the log was exported completely"


@dataclass(frozen=True)
class Layout:
    """Where each episode's rows are, once sorted by time."""

    order: np.ndarray | None  # the source's rows by episode and step; None: they are in that order
    starts: np.ndarray  # the first row of each episode, and at the end the number of rows
    final: np.ndarray  # sorted rows that hold an episode's final state instead of a decision

    def source_rows(self, ordered: np.ndarray) -> np.ndarray:
        """Where sorted rows are in the source, for messages."""
        return ordered if self.order is None else self.order[ordered]


def in_order_of_time(raw: RawLog, findings: Findings) -> tuple[RawLog, Layout]:
    """The log sorted by episode and step, and where its episodes are."""
    step = None if raw.columns.step in raw.unreadable else _whole_steps(raw, findings)
    order = _order(raw.episode, step, len(raw.episode_ids))
    if order is not None:
        findings.warn(raw.columns.step if step is not None else raw.columns.episode, *NOT_IN_ORDER)
        raw = raw.take(order)
        step = None if step is None else step[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(raw.episode)) + 1, [len(raw)]])
    layout = Layout(order, starts, _final_rows(raw, starts))
    if step is not None:
        _check_steps(raw, step, layout, findings)
    return raw, layout


def _whole_steps(raw: RawLog, findings: Findings) -> np.ndarray | None:
    """The step column as whole numbers, or None where rows are taken in the order of the log."""
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
    whole = (np.abs(raw.step) < 2**53) & (raw.step == np.floor(raw.step))  # larger floats skip whole numbers
    bad = np.flatnonzero(~whole)
    if len(bad):
        advice = "Number each episode's decisions 0, 1, 2, …"
        findings.fault(column, rows_that(bad, *NOT_WHOLE), advice, bad)
        return None
    return raw.step.astype(np.int64)


def _order(episode: np.ndarray, step: np.ndarray | None, episodes: int) -> np.ndarray | None:
    """The permutation that sorts rows by episode and step, or None if they are sorted."""
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
    return last[final] if raw.action is not None else last[:0]


def _check_steps(raw: RawLog, step: np.ndarray, layout: Layout, findings: Findings) -> None:
    column = raw.columns.step
    onward = step[1:] > step[:-1]  # differences would overflow where steps are near the ends of what integers hold
    within = np.ones(len(step) - 1, dtype=bool)
    within[layout.starts[1:-1] - 1] = False
    repeated = np.flatnonzero(within & ~onward) + 1
    if len(repeated):
        findings.fault(
            column,
            rows_that(repeated, "repeats a step of its episode", "repeat a step of their episode"),
            "Keep one row for each decision",
            layout.source_rows(repeated),
        )
    skipped = np.flatnonzero(within & onward & (step[1:] - 1 != step[:-1])) + 1
    first = step[layout.starts[:-1]]
    least = int(first.min())
    if least not in (0, 1):
        findings.warn(
            column,
            f"no episode starts before step {least}",
            "Check that no first decisions are missing",
        )
    late = layout.starts[:-1][first != least]
    missing = np.union1d(skipped, late)
    if len(missing):
        findings.fault(
            column,
            rows_that(missing, "has a step whose predecessor is missing"),
            f"Number every episode {least}, {least + 1}, … without gaps: add the missing rows, or drop the "
            "whole episode",
            layout.source_rows(missing),
        )


def _missing(values: np.ndarray) -> np.ndarray:
    if np.issubdtype(values.dtype, np.integer):
        return np.zeros(len(values), dtype=bool)
    return np.isnan(values)


class Decisions:
    """The rows that hold a decision; faults in them are reported by their place in the source."""

    def __init__(self, raw: RawLog, layout: Layout, findings: Findings):
        self.raw, self.layout, self.findings = raw, layout, findings
        self.kept: np.ndarray | None = None  # None: all rows, so that nothing is copied
        if len(layout.final):
            self.kept = np.ones(len(raw), dtype=bool)
            self.kept[layout.final] = False

    def of(self, column: np.ndarray) -> np.ndarray:
        return column if self.kept is None else column[self.kept]

    def fault(self, column: str, bad: Any, singular: str, plural: str | None, advice: str) -> bool:
        """Reports the decisions marked in `bad`, in the words of `rows_that`; returns whether there are any."""
        if not np.any(bad):
            return False
        ordered = np.flatnonzero(bad)
        if self.kept is not None:
            ordered = np.flatnonzero(self.kept)[ordered]
        rows = self.layout.source_rows(ordered)
        self.findings.fault(column, rows_that(rows, singular, plural), advice, rows)
        return True
