"""The border: every check that a log must pass to become a Dataset. All faults are collected and reported together."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from statewise.data.choices import (
    are_probabilities,
    check_actions,
    check_distribution,
    check_legal,
    check_propensities,
)
from statewise.data.findings import NOT_FINITE, Findings, no_observations, rows_that
from statewise.data.order import Decisions, Layout, in_order_of_time
from statewise.data.rawlog import RawLog
from statewise.data.threads import each

# Learning runs in single precision, where the squares of larger numbers overflow.
LARGEST = 1e18
TOO_LARGE = f"is beyond ±{LARGEST:g}"


def check(raw: RawLog) -> tuple[RawLog, Layout | None, Findings]:
    """Checks a log; returns it sorted by time, its layout (None if there are no rows), and all findings."""
    findings = Findings(raw.row_names)
    if len(raw) == 0:
        findings.fault("log", "there are no rows", "Give one row for each decision")
        return raw, None, findings
    missing = no_observations(raw.columns.observation_prefix)
    if raw.observations.shape[1] == 0 and missing.column not in raw.unreadable:
        findings.items.append(missing)
    _check_widths(raw, findings)
    ordered, layout = in_order_of_time(raw, findings)
    _check_observations(ordered, layout, findings)
    decisions = Decisions(ordered, layout, findings)
    _check_rewards(decisions)
    check_propensities(decisions)
    actions = check_actions(decisions)
    check_distribution(decisions, actions)
    if raw.target is not None and raw.columns.target_prefix is not None:
        are_probabilities(decisions, ordered.target, raw.columns.target_prefix)
    check_legal(decisions, actions)
    _check_ends(decisions)
    _check_units(ordered, layout, findings)
    _check_loggers(ordered, layout, findings)
    return ordered, layout, findings


def _check_widths(raw: RawLog, findings: Findings) -> None:
    """Where given, distributions, masks and the number of actions must agree."""
    widths = {
        f"{raw.columns.distribution_prefix}*": None if raw.distribution is None else raw.distribution.shape[1],
        f"{raw.columns.legal_prefix}*": None if raw.legal is None else raw.legal.shape[1],
        f"{raw.columns.target_prefix}*": None if raw.target is None else raw.target.shape[1],
    }
    for name, width in widths.items():
        if width is not None and raw.action_count is not None and width != raw.action_count:
            findings.fault(
                name,
                f"there are {width} columns for {raw.action_count} actions",
                "Give one column for every action",
            )


def _check_observations(raw: RawLog, layout: Layout, findings: Findings) -> None:
    # a last row that holds no observation either says how the episode ended, and nothing else
    bare = layout.final[np.isnan(raw.observations[layout.final]).all(axis=1)]
    extremes = each(lambda column: (column.min(), column.max()), raw.observations.T)
    for j, name in enumerate(raw.observation_columns or raw.observation_names):
        if name in raw.unreadable:
            continue
        column, (low, high) = raw.observations[:, j], extremes[j]
        if not (np.isfinite(low) and np.isfinite(high)):
            bad = np.setdiff1d(np.flatnonzero(~np.isfinite(column)), bare)
            if len(bad):
                findings.fault(
                    name,
                    rows_that(bad, *NOT_FINITE),
                    "Fill in or drop missing values; a policy cannot act on them",
                    layout.source_rows(bad),
                )
        elif max(-low, high) > LARGEST:
            bad = np.flatnonzero(np.abs(column) > LARGEST)
            advice = "If this is a code for a missing value, fill it in; otherwise use a larger unit"
            findings.fault(name, rows_that(bad, TOO_LARGE), advice, layout.source_rows(bad))
        elif low == high and not raw.part:
            warn_of_constant(name, float(low), findings)


def warn_of_constant(name: str, value: float, findings: Findings) -> None:
    advice = "A constant column carries no information; drop it if that is a mistake"
    findings.warn(name, f"every row is {value:g}", advice)


def _check_rewards(decisions: Decisions) -> None:
    raw = decisions.raw
    if raw.reward is None or raw.columns.reward in raw.unreadable:
        return
    reward = decisions.of(raw.reward)
    advice = "Write 0 where a decision earned nothing"
    decisions.fault(raw.columns.reward, ~np.isfinite(reward), *NOT_FINITE, advice)
    large = np.isfinite(reward) & (np.abs(reward) > LARGEST)
    decisions.fault(raw.columns.reward, large, TOO_LARGE, None, "Use a larger unit")


def _check_ends(decisions: Decisions) -> None:
    raw, layout, findings = decisions.raw, decisions.layout, decisions.findings
    last = layout.starts[1:] - 1
    may_end = np.zeros(len(raw), dtype=bool)
    may_end[last] = True
    may_end[layout.final - 1] = True  # the decision that led to a logged final state
    for name, ended in ((raw.columns.terminated, raw.terminated), (raw.columns.truncated, raw.truncated)):
        if ended is None:
            continue
        # a column that is true throughout an episode describes the episode, and says that it ended so
        throughout = np.repeat(np.minimum.reduceat(ended, layout.starts[:-1]) > 0, np.diff(layout.starts))
        middle = np.flatnonzero((ended > 0) & ~may_end & ~throughout)
        if len(middle):
            findings.fault(
                name,
                rows_that(
                    middle,
                    "is true before the last decision of its episode",
                    "are true before the last decision of their episode",
                ),
                "Start a new episode after the row that ends one",
                layout.source_rows(middle),
            )
        empty = np.setdiff1d(np.flatnonzero((ended < 0) & may_end), layout.final)
        if len(empty):
            findings.warn(
                name,
                rows_that(empty, "is empty where an episode ends, which counts as false"),
                "Write true where the world ended an episode, false where it was cut off",
                layout.source_rows(empty),
            )
    if len(last) == 1 and not raw.part:
        warn_of_single_episode(raw.columns.episode, findings)


def warn_of_single_episode(column: str, findings: Findings) -> None:
    findings.warn(column, "there is a single episode", "Nothing can be held out, and intervals need many episodes")


def _check_units(raw: RawLog, layout: Layout, findings: Findings) -> None:
    if raw.unit is None or raw.columns.unit in raw.unreadable:
        return
    rows = _changed_within(raw.unit, layout)
    if len(rows):
        findings.fault(
            raw.columns.unit,
            rows_that(rows, "has a different unit from the previous row of the same episode"),
            "An episode belongs to one unit (patient, student, user)",
            layout.source_rows(rows),
        )


def _changed_within(values: np.ndarray, layout: Layout) -> Int[np.ndarray, " changed"]:
    """The rows whose value differs from that of the row before, in the same episode."""
    changed = values[1:] != values[:-1]
    changed[layout.starts[1:-1] - 1] = False
    return np.flatnonzero(changed) + 1


def _check_loggers(raw: RawLog, layout: Layout, findings: Findings) -> None:
    if raw.logger is None or raw.columns.logger in raw.unreadable:
        return
    nobody = layout.starts[:-1][raw.logger[layout.starts[:-1]] == ""]
    if len(nobody):
        rows = rows_that(nobody, "begins an episode without a logger", "begin episodes without a logger")
        findings.fault(raw.columns.logger, rows, "Give every row a logger, or none", layout.source_rows(nobody))
    rows = _changed_within(raw.logger, layout)
    rows = rows[(raw.logger[rows] != "") & (raw.logger[rows - 1] != "")]
    if len(rows):
        findings.warn(
            raw.columns.logger,
            rows_that(rows, "has a different logger from the previous row of the same episode"),
            "Such an episode counts as its first logger's",
            layout.source_rows(rows),
        )
