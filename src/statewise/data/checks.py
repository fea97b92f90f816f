"""The border: every check a log must pass before it becomes a Dataset. All faults are found, then told at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from statewise.data.findings import Findings, no_observations
from statewise.data.rawlog import RawLog
from statewise.data.threads import each

# A logged distribution is often rounded for a spreadsheet; beyond this it is wrong, not rounded.
SUM_TOLERANCE = 1e-3
# The most actions a policy over discrete choices is built for; an identifier mistaken for an action exceeds it.
MOST_ACTIONS = 10_000
# Learning is done in single precision, which holds squares of numbers up to this.
LARGEST = 1e18


@dataclass(frozen=True)
class Layout:
    """Where each episode's rows stand once they are in order of time."""

    order: np.ndarray | None  # rows of the source in order of episode and step; None: they already are
    starts: np.ndarray  # first row of each episode, and the row count at the end
    final: np.ndarray  # ordered rows that hold an episode's final state and no decision

    def source_rows(self, ordered: np.ndarray) -> np.ndarray:
        return ordered if self.order is None else self.order[ordered]


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
    ordered, layout = _in_order_of_time(raw, findings)
    _check_observations(ordered, layout, findings)
    decisions = _Decisions(ordered, layout, findings)
    _check_rewards(decisions)
    _check_propensities(decisions)
    actions = _check_actions(decisions)
    _check_distribution(decisions, actions)
    if raw.target is not None and raw.columns.target_prefix is not None:
        _are_probabilities(decisions, ordered.target, raw.columns.target_prefix)
    _check_legal(decisions, actions)
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


# Order of rows


def _in_order_of_time(raw: RawLog, findings: Findings) -> tuple[RawLog, Layout]:
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
        findings.fault(column, f"{_count(bad)} not whole numbers", "Number each episode's decisions 0, 1, 2, …", bad)
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
            f"{_count(repeated)} a step that its episode already has",
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
            f"{_count(missing)} a step whose predecessor is missing",
            f"Every episode must be numbered {first.min()}, {first.min() + 1}, … without gaps; "
            "add the missing rows, or drop the whole episode",
            layout.source_rows(missing),
        )


# Values


class _Decisions:
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
        self.findings.fault(column, f"{_count(rows)} {what}", advice, rows)
        return True


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
                f"{_count(bad)} no finite number",
                "Fill or drop missing values before logging them; a policy cannot act on them",
                layout.source_rows(bad),
            )
        elif max(-low, high) > LARGEST:
            bad = np.flatnonzero(np.abs(column) > LARGEST)
            advice = "If that is a code for a missing value, fill it; otherwise measure in a larger unit"
            findings.fault(name, f"{_count(bad)} a number beyond {LARGEST:g}", advice, layout.source_rows(bad))
        elif low == high:
            findings.warn(
                name, f"it is {low:g} in every row", "A constant column tells nothing; drop it if it is a mistake"
            )


def _check_rewards(decisions: _Decisions) -> None:
    raw = decisions.raw
    if raw.reward is None or raw.columns.reward in raw.unreadable:
        return
    reward = decisions.of(raw.reward)
    advice = "Write 0 where a decision earned nothing"
    decisions.fault(raw.columns.reward, ~np.isfinite(reward), "no finite number", advice)
    large = np.isfinite(reward) & (np.abs(reward) > LARGEST)
    decisions.fault(raw.columns.reward, large, f"a number beyond {LARGEST:g}", "Count rewards in a larger unit")


def _check_actions(decisions: _Decisions) -> np.ndarray | None:
    """The actions of all decisions as whole numbers, or None where they are not."""
    raw = decisions.raw
    if raw.action is None or raw.columns.action in raw.unreadable:
        return None
    column, action, numbering = raw.columns.action, decisions.of(raw.action), "Number the actions 0, 1, 2, …"
    if not np.issubdtype(action.dtype, np.integer):
        with np.errstate(invalid="ignore"):
            whole = action.astype(np.int32)
        if np.array_equal(whole, action):
            action = whole
    if not np.issubdtype(action.dtype, np.integer):
        missing = np.isnan(action)
        only_last = "Only an episode's last row may leave action and reward empty: it then holds the final state"
        faulty = decisions.fault(column, missing, "no action", only_last)
        broken = ~missing & (np.isinf(action) | (action != np.floor(action)))
        if decisions.fault(column, broken, "not whole numbers", numbering) or faulty:
            return None
    if decisions.fault(column, action < 0, "below 0", numbering):
        return None
    limit, advice = MOST_ACTIONS, f"{numbering}; this looks like an identifier"
    if raw.action_count is not None:
        limit = min(raw.action_count, MOST_ACTIONS)
        advice = f"The log's other columns, or you, say that there are {limit} actions, 0 to {limit - 1}"
    if decisions.fault(column, action >= limit, f"{limit} or more", advice):
        return None
    return action.astype(np.int32, copy=False)


def _check_propensities(decisions: _Decisions) -> None:
    raw = decisions.raw
    if raw.propensity is None or raw.columns.propensity in raw.unreadable:
        return
    propensity = decisions.of(raw.propensity)
    advice = "Log the probability, above 0 and at most 1, with which the acting policy chose the action it took"
    for bad, what in (
        (~np.isfinite(propensity), "no finite number"),
        (propensity <= 0, "0 or less"),
        (propensity > 1, "more than 1"),
    ):
        decisions.fault(raw.columns.propensity, bad, what, advice)


def _check_distribution(decisions: _Decisions, actions: np.ndarray | None) -> None:
    raw = decisions.raw
    prefix = raw.columns.distribution_prefix
    if raw.distribution is None or not _are_probabilities(decisions, raw.distribution, prefix):
        return
    column, distribution = f"{prefix}0…{raw.distribution.shape[1] - 1}", decisions.of(raw.distribution)
    if actions is None or actions.max() >= distribution.shape[1]:
        return
    taken = _of_taken(distribution, actions)
    decisions.fault(
        column,
        taken <= 0,
        "probability 0 for the action that was taken",
        "A taken action has a probability above 0; check that the columns stand in the order of the actions",
    )
    if raw.propensity is not None:
        differs = (taken > 0) & ~np.isclose(taken, decisions.of(raw.propensity), rtol=1e-2, atol=1e-6)
        decisions.fault(
            raw.columns.propensity,
            differs,
            f"another probability than {column} give to the taken action",
            "Correct one of them, or leave the column out: it follows from the whole distribution",
        )


def _are_probabilities(decisions: _Decisions, matrix: Any, prefix: str) -> bool:
    """Whether every row is a distribution, up to rounding of its sum; false also where the columns hold no numbers."""
    if any(name.startswith(prefix) for name in decisions.raw.unreadable):
        return False
    column, rows = f"{prefix}0…{matrix.shape[1] - 1}", decisions.of(matrix)
    outside = ~((rows >= 0) & (rows <= 1)).all(axis=1)
    if decisions.fault(column, outside, "a number outside 0 to 1", "Log a probability for each action"):
        return False
    total = rows.sum(axis=1)
    off = np.abs(total - 1) > SUM_TOLERANCE
    example = f"{total[off][0]:.4g}" if off.any() else ""
    decisions.fault(
        column,
        off,
        f"probabilities that do not sum to 1, but for example to {example}",
        "Log the whole distribution over actions, with more digits if it was rounded",
    )
    return True


def _check_legal(decisions: _Decisions, actions: np.ndarray | None) -> None:
    raw = decisions.raw
    if raw.legal is None or any(name.startswith(raw.columns.legal_prefix) for name in raw.unreadable):
        return
    told = decisions.of(raw.legal)
    column = f"{raw.columns.legal_prefix}0…{told.shape[1] - 1}"
    decisions.fault(column, (told < 0).any(axis=1), "no word on whether an action is legal", "Write true or false")
    legal = told != 0
    if actions is not None and actions.max() < legal.shape[1]:
        illegal = ~_of_taken(legal, actions)
        advice = "Correct the mask or the action"
        decisions.fault(raw.columns.action, illegal, f"an action that {column} call not legal", advice)
    for matrix, prefix in (
        (raw.distribution, raw.columns.distribution_prefix),
        (raw.target, raw.columns.target_prefix),
    ):
        if matrix is not None and matrix.shape == raw.legal.shape:
            possible = ((decisions.of(matrix) > 0) & ~legal).any(axis=1)
            advice = f"Correct the mask or {prefix}*"
            decisions.fault(column, possible, "an illegal action with a probability above 0", advice)


# Episodes


def _check_ends(decisions: _Decisions) -> None:
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
                f"{_count(middle)} true before the episode's last decision",
                "Start a new episode after the row that ends one",
                layout.source_rows(middle),
            )
        empty = np.setdiff1d(np.flatnonzero((ended < 0) & may_end), layout.final)
        if len(empty):
            findings.warn(
                name,
                f"{_count(empty)} nothing where an episode ends, which is taken as false",
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
            f"{_count(rows)} another unit than the row before in the same episode",
            "An episode belongs to one unit (patient, student, user)",
            layout.source_rows(rows),
        )


def _of_taken(matrix: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(matrix, actions[:, None].astype(np.int64), axis=1)[:, 0]


def _missing(values: np.ndarray) -> np.ndarray:
    if np.issubdtype(values.dtype, np.integer):
        return np.zeros(len(values), dtype=bool)
    return np.isnan(values)


def _count(rows: np.ndarray) -> str:
    return "1 row holds" if len(rows) == 1 else f"{len(rows):,} rows hold"
