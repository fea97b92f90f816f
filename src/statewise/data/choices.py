"""Checks of what was chosen: the actions, the probabilities they were taken with, and the legal alternatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from statewise.data.findings import NOT_FINITE, NOT_WHOLE
from statewise.data.order import Decisions

# Logged distributions are often rounded by a spreadsheet; a sum further from 1 than this is an error.
SUM_TOLERANCE = 1e-3
# More than any policy over discrete actions is built for: an identifier mistaken for an action exceeds it.
MOST_ACTIONS = 10_000


def check_actions(decisions: Decisions) -> np.ndarray | None:
    """The actions of all decisions as whole numbers, or None if they are not."""
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
        only_last = "Only an episode's last row may leave action and reward empty; it then holds the final state"
        faulty = decisions.fault(column, missing, "has no action", None, only_last)
        broken = ~missing & (np.isinf(action) | (action != np.floor(action)))
        if decisions.fault(column, broken, *NOT_WHOLE, numbering) or faulty:
            return None
    if decisions.fault(column, action < 0, "is below 0", None, numbering):
        return None
    limit, advice = MOST_ACTIONS, f"{numbering}; this looks like an identifier"
    if raw.action_count is not None:
        limit = min(raw.action_count, MOST_ACTIONS)
        expected = "0" if limit == 1 else f"0 to {limit - 1}"
        advice = f"Expected {expected}, since other columns or `actions=...` set the number of actions to {limit}"
    if decisions.fault(column, action >= limit, f"is {limit} or more", None, advice):
        return None
    return action.astype(np.int32, copy=False)


def check_propensities(decisions: Decisions) -> None:
    raw = decisions.raw
    if raw.propensity is None or raw.columns.propensity in raw.unreadable:
        return
    propensity = decisions.of(raw.propensity)
    advice = "Log the probability, above 0 and at most 1, with which the action was chosen"
    for bad, singular, plural in (
        (~np.isfinite(propensity), *NOT_FINITE),
        (propensity <= 0, "is 0 or less", None),
        (propensity > 1, "is more than 1", None),
    ):
        decisions.fault(raw.columns.propensity, bad, singular, plural, advice)


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
        "has probability 0 for the action that was taken",
        None,
        "An action that was taken has a probability above 0; check that the columns are in the order of the actions",
    )
    if raw.propensity is not None:
        differs = (taken > 0) & ~np.isclose(taken, decisions.of(raw.propensity), rtol=1e-2, atol=1e-6)
        decisions.fault(
            raw.columns.propensity,
            differs,
            f"differs from the probability of the action in {column}",
            f"differ from the probabilities of the actions in {column}",
            "Correct one of them, or leave this column out: it follows from the whole distribution",
        )


def are_probabilities(decisions: Decisions, matrix: Any, prefix: str) -> bool:
    """Whether every row is a distribution, up to rounding; false as well if the columns could not be read."""
    if any(name.startswith(prefix) for name in decisions.raw.unreadable):
        return False
    column, rows = f"{prefix}0…{matrix.shape[1] - 1}", decisions.of(matrix)
    outside = ~((rows >= 0) & (rows <= 1)).all(axis=1)
    if decisions.fault(column, outside, "has a number outside 0 to 1", None, "Log a probability for each action"):
        return False
    total = rows.sum(axis=1)
    off = np.abs(total - 1) > SUM_TOLERANCE
    example = f"{total[off][0]:.4g}" if off.any() else ""
    decisions.fault(
        column,
        off,
        f"has probabilities that do not sum to 1 but to {example}, for example",
        None,
        "Log the whole distribution over actions, with more digits if it was rounded",
    )
    return True


def check_legal(decisions: Decisions, actions: np.ndarray | None) -> None:
    raw = decisions.raw
    if raw.legal is None or any(name.startswith(raw.columns.legal_prefix) for name in raw.unreadable):
        return
    mask = decisions.of(raw.legal)
    column = f"{raw.columns.legal_prefix}0…{mask.shape[1] - 1}"
    empty = "has an empty cell", "have empty cells"
    decisions.fault(column, (mask < 0).any(axis=1), *empty, "Write true or false for every action")
    legal = mask != 0
    if actions is not None and actions.max() < legal.shape[1]:
        illegal = ~_of_taken(legal, actions)
        marked = f"has an action marked illegal by {column}"
        decisions.fault(raw.columns.action, illegal, marked, None, "Correct the mask or the action")
    for matrix, prefix in (
        (raw.distribution, raw.columns.distribution_prefix),
        (raw.target, raw.columns.target_prefix),
    ):
        if matrix is not None and matrix.shape == raw.legal.shape:
            possible = ((decisions.of(matrix) > 0) & ~legal).any(axis=1)
            positive = "has an illegal action with a probability above 0"
            decisions.fault(column, possible, positive, None, f"Correct the mask or {prefix}*")


def _of_taken(matrix: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(matrix, actions[:, None].astype(np.int64), axis=1)[:, 0]
