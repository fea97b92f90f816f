"""A polars frame → a raw log: columns are found by name and converted to arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from statewise.data.columns import Ends, Propensity, check_declared, find_columns
from statewise.data.convert import Converter
from statewise.data.findings import Findings, RowNames, no_observations
from statewise.data.horizon import Horizon
from statewise.data.rawlog import Columns, RawLog
from statewise.data.roles import guess_roles
from statewise.data.schema import Schema

STEPS = "Number each episode's decisions 0, 1, 2, …; if the rows are in order of time, this column is not needed"


class Opened(NamedTuple):
    """A log as a frame, and how messages count its rows."""

    frame: pl.DataFrame
    row_names: RowNames = RowNames()
    shared: bool = False  # whether someone else may change its memory
    actions: int | tuple[str, ...] | None = None  # their number or names, if the file says so
    horizon: Horizon | None = None  # what its owner said of being cut off, if the file says so
    schema: Schema | None = None  # how its features were made, if the file says so


def raw_from_frame(
    opened: Opened,
    columns: Columns,
    propensity: Propensity,
    ends: Ends | None,
    actions: int | tuple[str, ...] | None,
    schema: Schema | None = None,
) -> tuple[RawLog | None, Findings]:
    """The log as arrays, and what is wrong with it; None if there is nothing to check.

    Observations become what `schema` says, or else what the log itself shows.
    """
    findings, frame = Findings(opened.row_names), opened.frame
    columns = columns.as_spelt_in(frame.columns)
    guess = guess_roles(frame, columns, ends, propensity == "estimate", schema)
    columns, ends = guess.columns, guess.ends
    logged = guess.has_propensities(frame.columns)
    if schema is not None and (schema.propensity == "ignored" or (schema.propensity == "estimate" and not logged)):
        propensity = "estimate"
    families = find_columns(frame, columns, propensity, ends, findings)
    if guess.codes is None:  # otherwise a policy says what its columns hold
        check_declared(columns, families.observations, findings)
    findings.items += guess.warnings(families.observations)
    if frame.height == 0 and not findings.faults:
        findings.fault("log", "there are no rows", "Give one row for each decision")
    if columns.episode not in frame.columns or frame.height == 0:
        return None, findings
    named = (columns.episode, columns.unit, columns.logger)
    if not _legible(frame, named, (columns.terminated, columns.truncated, *families.legal), findings):
        return None, findings
    for name in named:
        _warn_of_blanks(frame, name, findings)
    if ends is not None and columns.terminated in frame.columns:
        problem = f"this column says how episodes ended, so `ends={ends!r}` is ignored"
        findings.warn(columns.terminated, problem, "Leave out one of them")
    converter = Converter(frame, columns, findings, opened.shared)
    episode, episode_ids = converter.episodes()
    per_action = (families.distribution, families.legal, families.target)
    actions = actions or opened.actions or next((len(names) for names in per_action if names), None)
    action, action_names = converter.actions(actions, next((names[0] for names in per_action if names), None))
    observed = converter.observations(families.observations, guess.codes)
    # a fault about missing observation columns is already there
    reported = {no_observations(columns.observation_prefix).column} if columns.observations is None else set()
    return RawLog(
        episode=episode,
        episode_ids=episode_ids,
        observations=observed.features,
        observation_names=tuple(feature for code in observed.codes for feature in code.features),
        observation_columns=observed.places,
        action=action,
        reward=converter.optional_number(columns.reward, np.float64),
        step=converter.steps(episode, STEPS),
        propensity=None if propensity == "estimate" else converter.optional_number(columns.propensity, np.float64),
        distribution=converter.matrix(families.distribution) if families.distribution else None,
        legal=np.column_stack([converter.truth(name) for name in families.legal]) if families.legal else None,
        target=converter.matrix(families.target) if families.target else None,
        terminated=converter.optional_truth(columns.terminated),
        truncated=converter.optional_truth(columns.truncated),
        unit=converter.units(),
        logger=converter.loggers(),
        all_terminated=ends == "terminated",
        horizon=opened.horizon,
        schema=guess.schema(frame.columns, observed.codes, propensity, action_names),
        action_count=len(action_names) if action_names else actions if isinstance(actions, int) else None,
        action_names=action_names,
        columns=columns if columns.step in frame.columns else replace(columns, step=converter.ordered_by),
        row_names=opened.row_names,
        unreadable=frozenset(converter.unreadable | reported),  # last: conversions add to it
    ), findings


def _legible(frame: pl.DataFrame, named: Sequence[str], flags: Sequence[str], findings: Findings) -> bool:
    """Whether names and flags are of kinds that can be told apart; lists, durations and the like are faults."""
    wanted = {**dict.fromkeys(flags, "true or false"), **dict.fromkeys(named, "names or numbers")}
    odd = [name for name, kind in frame.schema.items() if name in wanted and _is_odd(kind)]
    for name in odd:
        advice = "Replace this column with one of single values"
        findings.fault(name, f"expected {wanted[name]}, got {frame.schema[name]}", advice)
    return not odd


def _is_odd(kind: Any) -> bool:
    return kind.is_nested() or kind in (pl.Object, pl.Duration, pl.Binary)


def _warn_of_blanks(frame: pl.DataFrame, name: str, findings: Findings) -> None:
    """Warns of names that only blanks tell apart: `p1` and `p1 ` are probably one patient."""
    if frame.schema.get(name) not in (pl.String, pl.Categorical, pl.Enum):
        return
    names = frame[name].drop_nulls().cast(pl.String).unique(maintain_order=True)
    bare = names.str.replace_all(r"\s", "")
    twins = names.filter(bare.is_duplicated())
    if len(twins):
        bare = bare.filter(bare.is_duplicated())
        first, second = twins.filter(bare == bare[0]).to_list()[:2]
        rows = np.flatnonzero((frame[name].cast(pl.String) == second).fill_null(False).to_numpy())
        findings.warn(
            name, f"{first!r} and {second!r} differ only in blanks", "Use one spelling if they are the same", rows
        )


def named_once(names: list[str], findings: Findings) -> bool:
    """Whether all names differ; each repeated one is a fault."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    for name in repeated:
        findings.fault(name, "there are several columns with this name", "Rename or drop all but one")
    return not repeated
