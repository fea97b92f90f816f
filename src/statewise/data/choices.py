"""Checks of what was decided: actions, the probabilities they were taken with, and what was legal."""

from __future__ import annotations

from typing import Any

import numpy as np

from statewise.data.order import Decisions

# A logged distribution is often rounded for a spreadsheet; beyond this it is wrong, not rounded.
SUM_TOLERANCE = 1e-3
# The most actions a policy over discrete choices is built for; an identifier mistaken for an action exceeds it.
MOST_ACTIONS = 10_000


def check_actions(decisions: Decisions) -> np.ndarray | None:
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


def check_propensities(decisions: Decisions) -> None:
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


def check_distribution(decisions: Decisions, actions: np.ndarray | None) -> None:
    raw = decisions.raw
    prefix = raw.columns.distribution_prefix
    if raw.distribution is None or not are_probabilities(decisions, raw.distribution, prefix):
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


def are_probabilities(decisions: Decisions, matrix: Any, prefix: str) -> bool:
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


def check_legal(decisions: Decisions, actions: np.ndarray | None) -> None:
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


def _of_taken(matrix: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(matrix, actions[:, None].astype(np.int64), axis=1)[:, 0]
