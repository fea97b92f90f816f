"""Several logs as one: the same decisions, logged in turn by what was done at the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from statewise.data.dataset import EPISODE_COLUMNS, ROW_COLUMNS, Dataset


def concat(logs: Sequence[Dataset]) -> Dataset:
    """One log of several, oldest first; rows keep their own propensities, and `loggers` tells the logs apart.

    The logs must agree in observations, actions and horizon. Whole distributions are kept if every log has them, and
    propensities that were estimated are dropped, to be estimated anew from all.

    >>> both = concat([first, second])  # doctest: +SKIP
    >>> both.take(both.loggers == 1)  # the second  # doctest: +SKIP
    """
    logs = tuple(logs)
    if not logs:
        raise ValueError("logs: expected one or more, got none")
    for number, log in enumerate(logs[1:], start=2):
        _check_alike(logs[0], log, number)
    columns = {name: _stacked(name, logs) for name in ROW_COLUMNS + EPISODE_COLUMNS}
    if any(log.estimated is not None or log.propensities is None for log in logs):
        columns |= {"propensities": None, "distributions": None}
    columns["episode_ids"] = _distinct_ids(logs)
    columns["loggers"] = _numbered_loggers(logs)
    columns["logged_by"] = _names_of_loggers(logs)
    offsets = np.cumsum([0, *(len(log) for log in logs)])
    starts = np.concatenate([[0], *(log.starts[1:] + offset for log, offset in zip(logs, offsets, strict=False))])
    said = next((log.ends for log in logs if log.ends is not None), None)
    return replace(logs[0], starts=starts, estimated=None, ends=said, origin=None, **columns)


def _check_alike(first: Dataset, other: Dataset, number: int) -> None:
    for what, one, two in (
        ("observations", first.observation_names, other.observation_names),
        ("actions", first.action_names, other.action_names),
    ):
        if one != two:
            raise ValueError(f"log {number} has the {what} {_some(two)}, and the first {_some(one)}; they must agree")
    if first.schema is not None and other.schema is not None and first.schema.features != other.schema.features:
        raise ValueError(f"log {number} was read differently from the first; load it with `schema=first.schema`")
    if (first.units is None) != (other.units is None):
        raise ValueError(f"log {number} {'has no' if other.units is None else 'has'} units, unlike the first")
    if first.ends is not None and other.ends is not None and first.ends != other.ends:
        raise ValueError(f"log {number} is said to end differently ({other.ends}) from the first ({first.ends})")
    for name, log in (("first", first), (f"log {number}", other)):
        least, most = float(log.rewards.min()), float(log.rewards.max())
        if not np.isfinite([least, most]).all():
            raise ValueError(f"the {name} has rewards that are not finite")
    apart = _unit_of_rewards(first, other)
    if apart is not None:
        raise ValueError(
            f"the rewards of log {number} are {apart}; are they in another unit? All logs must use the same"
        )


def _unit_of_rewards(first: Dataset, other: Dataset) -> str | None:
    """How the rewards differ where they can hardly be of one kind: a thousand times larger, or of the other sign."""
    one, two = (float(np.abs(log.rewards).max()) for log in (first, other))
    if one > 0 and two > 0 and not 1e-3 < two / one < 1e3:
        return f"up to {two:.4g}, and those of the first up to {one:.4g}"
    signs = [(float(log.rewards.min()), float(log.rewards.max())) for log in (first, other)]
    if (signs[0][1] < 0 < signs[1][0]) or (signs[1][1] < 0 < signs[0][0]):
        return "all of the other sign"
    return None


def _stacked(name: str, logs: Sequence[Dataset]) -> Any:
    columns = [getattr(log, name) for log in logs]
    if name in ("legal", "live") and any(column is not None for column in columns):
        pairs = zip(logs, columns, strict=True)
        columns = [_all_true(name, log) if column is None else column for log, column in pairs]
    if any(column is None for column in columns):
        return None
    return np.concatenate(columns)


def _all_true(name: str, log: Dataset) -> np.ndarray:
    return np.ones((len(log), log.action_count) if name == "legal" else len(log), bool)


def _distinct_ids(logs: Sequence[Dataset]) -> np.ndarray:
    """Episode names as they are, or with the log's number in front where two logs share one."""
    names = [np.asarray(log.episode_ids).astype(str) for log in logs]
    joined = np.concatenate(names)
    if len(np.unique(joined)) == len(joined):
        return joined
    return np.concatenate([np.char.add(f"{number}:", own) for number, own in enumerate(names, start=1)])


def _numbered_loggers(logs: Sequence[Dataset]) -> np.ndarray:
    """Which log each episode is of, from 0; a log that is several already keeps them apart."""
    parts, before = [], 0
    for log in logs:
        own = np.zeros(log.episodes, np.int64) if log.loggers is None else log.loggers
        parts.append(own + before)
        before += int(own.max()) + 1
    return np.concatenate(parts)


def _names_of_loggers(logs: Sequence[Dataset]) -> np.ndarray | None:
    """Where some logs name theirs, the others are named by their place."""
    if all(log.logged_by is None for log in logs):
        return None
    return np.concatenate(
        [
            np.full(log.episodes, f"log {number}") if log.logged_by is None else np.asarray(log.logged_by).astype(str)
            for number, log in enumerate(logs, start=1)
        ]
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
