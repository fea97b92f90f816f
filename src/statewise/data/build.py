"""A raw log that passed every check → a Dataset."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from statewise.data.checks import check
from statewise.data.dataset import Dataset
from statewise.data.findings import Findings, LogWarning
from statewise.data.horizon import percent
from statewise.data.loggers import newest_last
from statewise.data.rawlog import Columns, RawLog
from statewise.data.threads import each

CERTAIN, NEARLY = 1 - 1e-9, 0.99  # propensities that leave nothing, or next to nothing, for other actions
MANY = 0.01  # of the rows
CHUNK = 1 << 20  # rows moved at a time, which bounds the extra memory


def build(raw: RawLog) -> tuple[Dataset | None, Findings]:
    """Checks a raw log; the Dataset is None if there are faults."""
    ordered, layout, findings = check(raw)
    if layout is None or findings.faults:
        return None, findings
    dataset = _dataset(ordered, layout.starts, layout.final)
    if not raw.part:
        warn_of_choices(dataset, raw.columns, findings)
    return dataset, findings


def warn_of_choices(dataset: Dataset, columns: Columns, findings: Findings) -> None:
    """What the whole log shows of its actions that its reader should know."""
    _warn_of_actions(dataset, columns.action, findings)
    _warn_of_fixed_choices(dataset, columns.propensity, findings)


def accept(dataset: Dataset | None, findings: Findings) -> Dataset:
    """The Dataset; raises the faults, and warns the caller of the function that calls this of the rest."""
    findings.raise_faults()
    assert dataset is not None
    for finding in findings.warnings:
        warnings.warn(str(finding), LogWarning, stacklevel=3)
    return dataset


def _dataset(raw: RawLog, starts: np.ndarray, final: np.ndarray) -> Dataset:
    """A Dataset from a checked log, sorted by time; the log's matrices are overwritten."""
    rows, features = raw.observations.shape
    episodes = len(starts) - 1
    ended = np.full(episodes, raw.all_terminated)
    if raw.terminated is not None:
        ended = np.logical_or.reduceat(raw.terminated > 0, starts[:-1])
    final_observations = np.full((episodes, features), np.nan, dtype=raw.observations.dtype)
    units = None if raw.unit is None else raw.unit[starts[:-1]]
    logged_by = None if raw.logger is None else raw.logger[starts[:-1]]
    keep: Any = slice(None)
    if len(final):
        episode_of_final = np.searchsorted(starts, final, side="right") - 1
        final_observations[episode_of_final] = raw.observations[final]
        keep = np.ones(rows, dtype=bool)
        keep[final] = False
        starts = starts - np.searchsorted(final, starts, side="left")

    def kept(column: np.ndarray | None) -> Any:
        if column is None or len(final) == 0:
            return column
        if column.ndim == 1:
            return column[keep]

        def compact(j: int) -> None:
            done = 0
            for first in range(0, rows, CHUNK):
                part = column[first : first + CHUNK, j][keep[first : first + CHUNK]]
                column[done : done + len(part), j] = part
                done += len(part)

        each(compact, range(column.shape[1]))  # in place, since a copy of the observations would double the memory
        return column[: rows - len(final)]

    assert raw.action is not None
    assert raw.reward is not None
    actions = kept(raw.action).astype(np.int32)
    propensities, distributions = kept(raw.propensity), kept(raw.distribution)
    if propensities is None and distributions is not None:
        propensities = np.take_along_axis(distributions, actions[:, None].astype(np.int64), axis=1)[:, 0]
    return Dataset(
        observations=kept(raw.observations),
        actions=actions,
        rewards=kept(raw.reward).astype(np.float64, copy=False),
        propensities=propensities,
        distributions=distributions,
        legal=None if raw.legal is None else kept(raw.legal) > 0,
        targets=kept(raw.target),
        starts=starts,
        terminated=ended,
        final_observations=final_observations,
        action_count=raw.action_count if raw.action_count is not None else int(actions.max()) + 1,
        observation_names=raw.observation_names,
        episode_ids=raw.episode_ids,
        units=units,
        logged_by=logged_by,
        loggers=None if logged_by is None else newest_last(logged_by),
        action_names=raw.action_names or (),
        ends=raw.horizon,
        schema=raw.schema,
    )


def _warn_of_actions(dataset: Dataset, column: str, findings: Findings) -> None:
    never = np.flatnonzero(np.bincount(dataset.actions, minlength=dataset.action_count) == 0)
    if len(never):
        findings.warn(
            column,
            f"action{'s' if len(never) > 1 else ''} {', '.join(dataset.action_names[a] for a in never[:10])} "
            f"{'were' if len(never) > 1 else 'was'} never taken",
            "Nothing can be learned about an action that is not in the log",
        )


def _warn_of_fixed_choices(dataset: Dataset, column: str, findings: Findings) -> None:
    """Where an action was taken for certain although there were others, the log cannot tell about those."""
    if dataset.propensities is None or dataset.action_count == 1:
        return
    free = np.ones(len(dataset), bool) if dataset.legal is None else dataset.legal.sum(axis=1) > 1
    certain = float(np.mean(free & (dataset.propensities >= CERTAIN)))
    nearly = float(np.mean(free & (dataset.propensities >= NEARLY))) - certain
    advice = "Vary the decisions now and then, and log with which probability, if other actions are to be judged"
    if certain >= MANY:
        problem = (
            f"in {percent(certain)} of the rows the taken action had probability 1: nothing else was tried there, "
            "so the log cannot say what anything else would have earned"
        )
        findings.warn(column, problem, advice)
    if nearly >= MANY:
        problem = (
            f"in {percent(nearly)} of the rows the taken action had a probability of {NEARLY} or more: little else "
            "was tried there, so the log can hardly say what anything else would have earned"
        )
        findings.warn(column, problem, advice)
