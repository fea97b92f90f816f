"""`policy.predict(rows)` and `policy.predict_proba(rows)`, as scikit-learn has them. NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from statewise.policies.act import ObservationError, arrange, codes_of, decide, matched
from statewise.policies.files import StoredPolicy


def predict(policy: StoredPolicy, rows: Any, legal: np.ndarray | None = None) -> np.ndarray:
    """The likeliest action in each row, by its name.

    `rows` are raw, as in the log: a pandas or polars frame, an Arrow table, a list of dicts or lists, or an array [n,
    columns]. The policy that was evaluated *draws* its actions with `predict_proba`; always taking the likeliest is
    another policy.
    """
    return np.asarray(policy.action_names)[predict_proba(policy, rows, legal).argmax(axis=1)]


def predict_proba(policy: StoredPolicy, rows: Any, legal: np.ndarray | None = None) -> np.ndarray:
    """The probability of every action in each row, [n, actions], in the order of `classes_`."""
    observations = arrange(policy, as_rows(policy, rows))
    return decide(policy, observations, np.random.default_rng(0), "likeliest", legal).probabilities


def classes(policy: StoredPolicy) -> np.ndarray:
    """The names of the actions, under scikit-learn's name for them."""
    return np.asarray(policy.action_names)


def as_rows(policy: StoredPolicy, rows: Any) -> Sequence[Any]:
    """The rows of a table as lists in the order of the policy's columns; lists stay as they are."""
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2:
            raise ObservationError(f"rows: expected an array [n, columns], got one of {rows.ndim} dimensions")
        return rows.tolist()
    names = getattr(rows, "column_names", None)  # Arrow
    names = getattr(rows, "columns", None) if names is None else names
    if names is None:
        return rows
    columns = matched([code.name for code in codes_of(policy)], [str(name) for name in names])
    return list(zip(*(_values(rows[name]) for name in columns.values()), strict=True))


def _values(column: Any) -> list[Any]:
    """The values of a column of any table; None where nothing stands."""
    if hasattr(column, "isna"):  # pandas, which has several ways to write a gap
        return [None if gap else value for value, gap in zip(column.tolist(), column.isna(), strict=True)]
    return column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
