"""The border: every check a log must pass before it becomes a Dataset. All faults are found, then told at once."""

from __future__ import annotations

import numpy as np

from statewise.data.choices import (
    are_probabilities,
    check_actions,
    check_distribution,
    check_legal,
    check_propensities,
)
from statewise.data.findings import Findings, count, no_observations
from statewise.data.order import Decisions, Layout, in_order_of_time
from statewise.data.rawlog import RawLog
from statewise.data.threads import each

# Learning is done in single precision, which holds squares of numbers up to this.
LARGEST = 1e18


def check(raw: RawLog) -> tuple[RawLog, Layout | None, Findings]:
    """Checks a log; returns it in order of time, its layout, and everything found."""
    findings = Findings(raw.row_names)
    if len(raw) == 0:
        findings.fault("log", "it has no rows", "Give a file with one row for each decision")
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
    return ordered, layout, findings


def _check_widths(raw: RawLog, findings: Findings) -> None:
    """Whole distributions, masks and the number of actions, where given, must agree."""
    widths = {
        f"{raw.columns.distribution_prefix}*": None if raw.distribution is None else raw.distribution.shape[1],
        f"{raw.columns.legal_prefix}*": None if raw.legal is None else raw.legal.shape[1],
        f"{raw.columns.target_prefix}*": None if raw.target is None else raw.target.shape[1],
    }
    for name, width in widths.items():
        if width is not None and raw.action_count is not None and width != raw.action_count:
            findings.fault(
                name,
                f"there are {width} of them for {raw.action_count} actions",
                "Give one column of each kind for every action",
            )


def _check_observations(raw: RawLog, layout: Layout, findings: Findings) -> None:
    extremes = each(lambda column: (column.min(), column.max()), raw.observations.T)
    for j, name in enumerate(raw.observation_columns or raw.observation_names):
        if name in raw.unreadable:
            continue
        column, (low, high) = raw.observations[:, j], extremes[j]
        if not (np.isfinite(low) and np.isfinite(high)):
            bad = np.flatnonzero(~np.isfinite(column))
            findings.fault(
                name,
                f"{count(bad)} no finite number",
                "Fill or drop missing values before logging them; a policy cannot act on them",
                layout.source_rows(bad),
            )
        elif max(-low, high) > LARGEST:
            bad = np.flatnonzero(np.abs(column) > LARGEST)
            advice = "If that is a code for a missing value, fill it; otherwise measure in a larger unit"
            findings.fault(name, f"{count(bad)} a number beyond {LARGEST:g}", advice, layout.source_rows(bad))
        elif low == high:
            findings.warn(
                name, f"it is {low:g} in every row", "A constant column tells nothing; drop it if it is a mistake"
            )


def _check_rewards(decisions: Decisions) -> None:
    raw = decisions.raw
    if raw.reward is None or raw.columns.reward in raw.unreadable:
        return
    reward = decisions.of(raw.reward)
    advice = "Write 0 where a decision earned nothing"
    decisions.fault(raw.columns.reward, ~np.isfinite(reward), "no finite number", advice)
    large = np.isfinite(reward) & (np.abs(reward) > LARGEST)
    decisions.fault(raw.columns.reward, large, f"a number beyond {LARGEST:g}", "Count rewards in a larger unit")


def _check_ends(decisions: Decisions) -> None:
    raw, layout, findings = decisions.raw, decisions.layout, decisions.findings
    last = layout.starts[1:] - 1
    may_end = np.zeros(len(raw), dtype=bool)
    may_end[last] = True
    may_end[layout.final - 1] = True  # the decision that led to a logged final state
    for name, ended in ((raw.columns.terminated, raw.terminated), (raw.columns.truncated, raw.truncated)):
        if ended is None:
            continue
        middle = np.flatnonzero((ended > 0) & ~may_end)
        if len(middle):
            findings.fault(
                name,
                f"{count(middle)} true before the episode's last decision",
                "Start a new episode after the row that ends one",
                layout.source_rows(middle),
            )
        empty = np.setdiff1d(np.flatnonzero((ended < 0) & may_end), layout.final)
        if len(empty):
            findings.warn(
                name,
                f"{count(empty)} nothing where an episode ends, which is taken as false",
                "Write true where the world ended an episode, false where it was cut off",
                layout.source_rows(empty),
            )
    if len(last) == 1:
        findings.warn(
            raw.columns.episode,
            "there is a single episode",
            "Nothing can be held out; intervals over episodes need many",
        )


def _check_units(raw: RawLog, layout: Layout, findings: Findings) -> None:
    if raw.unit is None or raw.columns.unit in raw.unreadable:
        return
    changed = raw.unit[1:] != raw.unit[:-1]
    changed[layout.starts[1:-1] - 1] = False
    rows = np.flatnonzero(changed) + 1
    if len(rows):
        findings.fault(
            raw.columns.unit,
            f"{count(rows)} another unit than the row before in the same episode",
            "An episode belongs to one unit (patient, student, user)",
            layout.source_rows(rows),
        )
