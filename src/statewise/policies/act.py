"""From observations, by name or in order, to decisions: the border of `act` and `serve`. NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from statewise.data.encoding import Code
from statewise.data.schema import Schema
from statewise.policies.files import StoredPolicy

# draw: as the policy was evaluated, each action with its probability; likeliest: always the most probable one,
# which is another policy than the one that was evaluated
Choose = Literal["draw", "likeliest"]


class ObservationError(ValueError):
    """The observations are not what the policy was made for."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """What to do in each of n situations."""

    actions: np.ndarray  # [n] numbers of actions
    names: tuple[str, ...]  # of those actions
    propensities: np.ndarray  # [n] the probability with which it was chosen: log it, and the next log has propensities
    probabilities: np.ndarray  # [n, actions] the policy's own


def decide(
    policy: StoredPolicy,
    observations: np.ndarray,
    rng: np.random.Generator,
    choose: Choose = "draw",
    legal: np.ndarray | None = None,
) -> Decisions:
    """One action for each observation [n, features]."""
    if legal is not None and not legal.any(axis=1).all():
        row = int(np.flatnonzero(~legal.any(axis=1))[0])
        raise ObservationError(f"{_row(row)}: no action is legal")
    with np.errstate(all="ignore"):  # reported below, in a sentence
        probabilities = policy.probabilities(observations, legal)
    lost = np.flatnonzero(~np.isfinite(probabilities).all(axis=1))
    if len(lost):
        raise ObservationError(f"{_row(int(lost[0]))}: its numbers are too large for the policy to be computed")
    rows = np.arange(len(probabilities))
    if choose == "likeliest":
        actions = probabilities.argmax(axis=1)
        propensities = np.ones(len(rows))
    else:
        # the first action whose cumulative probability exceeds the draw; one without probability is never it
        cumulative = np.cumsum(probabilities, axis=1)
        total = cumulative[:, -1:]
        draws = np.minimum(rng.random((len(rows), 1)) * total, np.nextafter(total, 0))  # below it, also when rounded
        actions = (cumulative <= draws).sum(axis=1)
        propensities = probabilities[rows, actions]
    names = tuple(policy.action_names[action] for action in actions)
    return Decisions(actions, names, propensities, probabilities)


def codes_of(policy: StoredPolicy) -> tuple[Code, ...]:
    """What becomes of each column that the policy is asked about; numbers, where its file does not say."""
    schema = Schema.of(policy.card)
    return tuple(Code(name) for name in policy.observation_names) if schema is None else schema.codes


def arrange(policy: StoredPolicy, observations: Sequence[Any]) -> np.ndarray:
    """Observations [n, features] from raw rows: values in the order of the policy's columns, or by their names."""
    codes = codes_of(policy)
    if not isinstance(observations, Sequence) or isinstance(observations, str) or not observations:
        value = "number" if all(code.kind == "number" for code in codes) else "value"
        raise ObservationError(f"observations: expected a list, each entry a list of {value}s or {{name: {value}, …}}")
    rows = [_values(codes, row, i) for i, row in enumerate(observations)]
    encoded = [code.encode([row[j] for row in rows]) for j, code in enumerate(codes)]
    refused = np.column_stack([one.refused for one in encoded])
    if refused.any():
        i = int(np.flatnonzero(refused.any(axis=1))[0])
        j = int(np.flatnonzero(refused[i])[0])
        got = repr(str(rows[i][j])[:40])
        raise ObservationError(f"{_row(i)}: expected {codes[j].expected} for '{codes[j].name}', got {got}")
    return np.column_stack([one.features for one in encoded])


def arrange_legal(policy: StoredPolicy, legal: Any, count: int) -> np.ndarray | None:
    """Which actions are allowed, [n, actions]."""
    if legal is None:
        return None
    actions = len(policy.action_names)
    fits = isinstance(legal, list) and len(legal) == count
    if not fits or not all(isinstance(row, list) and len(row) == actions for row in legal):
        raise ObservationError(
            f"legal: expected true or false for each of the {actions} actions, one list per observation"
        )
    if not all(isinstance(value, bool) for row in legal for value in row):
        raise ObservationError("legal: expected true or false")
    return np.array(legal, dtype=bool)


def matched(names: Sequence[str], given: Sequence[str], prefix: str = "obs_") -> dict[str, str]:
    """Which of the `given` columns holds each of `names`, written with or without the prefix of logs."""
    columns = {name: next((column for column in (name, prefix + name) if column in given), None) for name in names}
    missing = [name for name, column in columns.items() if column is None]
    if missing:
        raise ObservationError(
            f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing; the policy needs {_listed(names)}"
        )
    return {name: column for name, column in columns.items() if column is not None}


def _values(codes: Sequence[Code], row: Any, i: int) -> Sequence[Any]:
    names = [code.name for code in codes]
    if isinstance(row, Mapping):
        try:
            columns = matched(names, list(row))
        except ObservationError as error:
            raise ObservationError(f"{_row(i)}: {error}") from None
        extra = sorted(set(row) - set(columns.values()))
        if extra:
            raise ObservationError(f"{_row(i)}: unknown {_listed(extra)}; the policy needs {_listed(names)}")
        row = [row[columns[name]] for name in names]
    if not isinstance(row, list | tuple) or len(row) != len(names):
        got = len(row) if isinstance(row, list | tuple) else type(row).__name__
        values = "numbers" if all(code.kind == "number" for code in codes) else "values"
        raise ObservationError(f"{_row(i)}: expected {len(names)} {values}, {_listed(names)}; got {got}")
    return row


def _row(i: int) -> str:
    return f"observation {i + 1}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
