"""π(·|s) of any policy on the rows of a log: the border where policies are checked."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.base.column import by_parts
from statewise.data.augment import seen_by_policy
from statewise.data.choices import SUM_TOLERANCE
from statewise.data.dataset import Dataset


def probabilities_of(policy: Any, dataset: Dataset) -> Float[np.ndarray, "steps actions"]:
    """π(·|s) on every row of a log.

    `policy` has `.probabilities(observations)`, or `.on(dataset)` where it knows the log's rows alone, or is a function
    of observations. All return probabilities [n, actions], or the numbers of the actions they would take [n]. What
    they give to illegal actions is shared out among the legal ones, in proportion.

    >>> probabilities_of(lambda observations: observations[:, 0] > 0, log)  # doctest: +SKIP
    """
    _check_observations(policy, dataset)
    _check_actions(policy, dataset)
    known = policy.on(dataset) if hasattr(policy, "on") else None
    return by_parts(lambda part: _of_part(policy, known, dataset, part), len(dataset), dataset.observations)


def _of_part(policy: Any, known: Any, dataset: Dataset, part: slice) -> Float[np.ndarray, "n actions"]:
    """π(·|s) on some rows; `known` are those of all rows, of a policy that is asked for them at once."""
    legal = None if dataset.legal is None else dataset.legal[part]
    given = np.asarray(_ask(policy, seen_by_policy(dataset)[part], legal) if known is None else known[part])
    wanted = (part.stop - part.start, dataset.action_count)
    if given.shape == wanted[:1] and given.dtype.kind in "biu":
        given = one_hot(given.astype(np.int64), dataset.action_count)
    if given.ndim == 2 and len(given) == wanted[0] and given.shape != wanted:
        known, logged = given.shape[1], wanted[1]
        hint = f"; if some were never taken, load the log with `actions={known}`" if known > logged else ""
        raise ValueError(f"the policy knows {known} actions, but the log has {logged}{hint}")
    if given.shape != wanted:
        raise ValueError(
            f"expected probabilities of shape {wanted} (decisions, actions) from the policy, got {given.shape}"
        )
    given = given.astype(np.float64)
    _refuse(~(np.isfinite(given) & (given >= 0)).all(axis=1), given, "are negative or not finite")
    total = given.sum(axis=1)
    _refuse(np.abs(total - 1) > SUM_TOLERANCE, given, "do not sum to 1")
    if legal is not None:
        given = np.where(legal, given, 0.0)
        total = given.sum(axis=1)
        _refuse(total <= 0, given, "all go to actions that are illegal there")
    return given / total[:, None]


def one_hot(actions: Int[np.ndarray, " n"], count: int) -> Float[np.ndarray, "n actions"]:
    """Probability 1 for the action of each row."""
    if len(actions) and not 0 <= actions.min() <= actions.max() < count:
        raise ValueError(f"the policy chose action {actions.max()}, but the log has actions 0 to {count - 1}")
    return np.eye(count)[actions]


def _ask(policy: Any, observations: Float[np.ndarray, "n seen"], legal: Bool[np.ndarray, "n actions"] | None) -> Any:
    if hasattr(policy, "probabilities"):
        function = policy.probabilities
        if legal is not None and "legal" in inspect.signature(function).parameters:
            return function(observations, legal)
        return function(observations)
    if callable(policy):
        return policy(observations)
    raise ValueError(
        "expected a policy with .probabilities(observations) or a function of observations, got "
        f"{type(policy).__name__}"
    )


def _check_observations(policy: Any, dataset: Dataset) -> None:
    """A policy that says which observations it looks at must find them in the log, in that order."""
    names = getattr(policy, "observation_names", None)
    held = dataset.observation_names[: seen_by_policy(dataset).shape[1]]
    if names is not None and tuple(names) != held:
        raise ValueError(
            f"the policy looks at {_some(names)}, but the log holds {_some(held)}; load the log with the policy's "
            "columns in the policy's order: `Columns(observations=...)`"
        )


def _check_actions(policy: Any, dataset: Dataset) -> None:
    """Where the log calls its actions by words, the policy must know the same ones, in that order."""
    names = getattr(policy, "action_names", None)
    if names is not None and dataset.has_action_words and tuple(names) != dataset.action_names:
        raise ValueError(
            f"the policy's actions are {_some(names)}, and the log's {_some(dataset.action_names)}; load the log with "
            f"the policy's: `actions={tuple(names)}`"
        )


def _refuse(bad: Any, given: np.ndarray, what: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        example = ", ".join(f"{value:.4g}" for value in given[rows[0]][:8])
        raise ValueError(
            f"the policy's probabilities {what} in {len(rows):,} of {len(given):,} decisions, for example {example} "
            f"at decision {rows[0]}"
        )


def _some(names: Any) -> str:
    return ", ".join(map(str, names[:8])) + (", …" if len(names) > 8 else "")
