"""Files and frames ⇄ Dataset: `load` and `save`."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from statewise.data.build import accept, build
from statewise.data.checks import check
from statewise.data.columns import Ends, Propensity, check_words
from statewise.data.dataset import Dataset
from statewise.data.findings import Findings, LogWarning
from statewise.data.formats import (
    ACTIONS_KEY,
    HORIZON_KEY,
    SCHEMA_KEY,
    any_of,
    open_file,
    writable_endings,
    write_frame,
)
from statewise.data.frame import Opened, named_once, raw_from_frame
from statewise.data.horizon import CutOff, Horizon, said
from statewise.data.kept import as_saved, kept_schema, with_schema
from statewise.data.origin import origin_of
from statewise.data.rawlog import Columns
from statewise.data.schema import Schema


def load(
    source: Any,
    *,
    columns: Columns | None = None,
    actions: int | Sequence[str] | None = None,
    propensity: Propensity = "logged",
    ends: Ends | None = None,
    cut_off: CutOff | None = None,
    horizon: int | None = None,
    schema: Schema | None = None,
) -> Dataset:
    """Reads a log: a file, a polars or pandas frame, an Arrow table, or a Minari dataset (`"minari:NAME"`).

    Files are Parquet or CSV, or of a format added to `statewise.data.formats.FORMATS`. `columns` names the columns;
    `actions` is the number of actions (by default the largest seen, plus one) or, if they are words, their names in
    order (by default alphabetical); `propensity="estimate"` accepts a log without propensities; `ends` says how every
    episode ended if no column does. `cut_off` says what it means that an episode was cut off (by default what the log
    shows): "limit" (what follows does not count), "censored" (its record stops) or "continuing" (it goes on);
    `horizon`, up to which step the value counts. `schema` is that of another log or of a policy: what is not given is
    then read as it was there. Columns that are missing under their usual names are guessed, with a warning. Raises
    `LogError` with all faults at once, and warns with `LogWarning` of what is merely suspicious.
    """
    dataset, findings = read(
        source,
        columns=columns,
        actions=actions,
        propensity=propensity,
        ends=ends,
        cut_off=cut_off,
        horizon=horizon,
        schema=schema,
    )
    return accept(dataset, findings)


def read(
    source: Any,
    *,
    columns: Columns | None = None,
    actions: int | Sequence[str] | None = None,
    propensity: Propensity = "logged",
    ends: Ends | None = None,
    cut_off: CutOff | None = None,
    horizon: int | None = None,
    schema: Schema | None = None,
) -> tuple[Dataset | None, Findings]:
    """As `load`, but returns the findings instead of raising them."""
    check_words(propensity, ends)
    named, ended = columns or Columns(), ends
    columns = named
    if schema is not None:
        columns, ends = schema.over(columns), ends or schema.ends
        actions = schema.actions if actions is None else actions
        cut_off, horizon = cut_off or schema.cut_off, horizon or schema.horizon
    given = said(cut_off, horizon)
    if isinstance(source, str | os.PathLike) and str(source).startswith("minari:"):
        source = str(source)  # the command line passes a path
    if (isinstance(source, str) and source.startswith("minari:")) or _is_minari(source):
        if (columns, actions, propensity, ends) != (Columns(), None, "logged", None):
            raise ValueError(
                "a Minari dataset defines its own columns, actions, propensities and ends; give its name alone"
            )
        from statewise.data.minari import read_minari

        return read_minari(source, cut_off=cut_off, horizon=horizon)
    findings = Findings()
    opened = _open(source, columns, findings)
    if opened is None:
        return None, findings
    actions = actions if actions is None or isinstance(actions, int) else tuple(actions)
    opened = opened._replace(horizon=_either(given, opened.horizon))
    own, kept = opened.schema, kept_schema(opened, schema)
    if kept is not None:
        columns, ends, schema = as_saved(named, kept, opened.frame), ended, None
        unknown = kept.propensity != "logged" and Columns().propensity not in opened.frame.columns
        propensity = "estimate" if unknown else propensity
    raw, more = raw_from_frame(opened, columns, propensity, ends, actions, schema)
    time = raw.schema.columns.time if raw is not None and raw.schema and "time" in raw.schema.present else None
    origin = origin_of(source, opened.frame, time)
    del opened  # its observations are copied by now, and sorting may copy them again
    findings.items += more.items
    if raw is None:
        return None, findings
    if own is not None and kept is not None:
        raw = with_schema(raw, own, kept)
    assert raw.schema is not None
    settled = replace(raw.schema, cut_off=cut_off or raw.schema.cut_off, horizon=horizon or raw.schema.horizon)
    raw = replace(raw, schema=settled)
    if findings.faults:  # the rest is checked all the same, so that all faults are reported together
        findings.items += check(raw)[2].items
        return None, findings
    dataset, more = build(raw)
    findings.items += more.items
    return None if dataset is None else replace(dataset, origin=origin), findings


def save(dataset: Dataset, path: str | Path) -> None:
    """Writes a log in the format of the path's ending; an older file is replaced whole or not at all."""
    path = Path(path)
    if path.suffix.lower() not in writable_endings():
        raise ValueError(f"{path.name}: expected a name that ends in {any_of(writable_endings())}")
    if dataset.live is not None:
        raise ValueError("this Dataset contains padding that was never logged; save the Dataset it was made from")
    if len(set(dataset.episode_ids.tolist())) < dataset.episodes:
        raise ValueError("this Dataset contains an episode more than once; save the Dataset it was taken from")
    if dataset.estimated is not None:
        warning = f"{path.name}: its propensities are estimates, but `load` will take them for logged ones"
        warnings.warn(warning, LogWarning, stacklevel=3)
    known = list(dataset.action_names) if dataset.has_action_words else dataset.action_count
    metadata = {ACTIONS_KEY: json.dumps(known)}
    if dataset.ends is not None:
        metadata[HORIZON_KEY] = json.dumps(dataset.ends)
    if dataset.schema is not None and not dataset.schema.plain:
        metadata[SCHEMA_KEY] = json.dumps(asdict(dataset.schema))
        if path.suffix.lower() == ".csv":
            text = f"{path.name}: CSV cannot hold how words, dates and gaps became numbers; a .parquet file can"
            warnings.warn(text, LogWarning, stacklevel=3)
    write_frame(to_frame(dataset), path, metadata)


def to_pandas(dataset: Dataset) -> Any:
    """The same as a pandas frame."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("a pandas frame needs pandas: pip install pandas") from error
    frame = to_frame(dataset)
    # column by column: polars' own converter needs pyarrow
    columns = {
        name: frame[name].to_list() if frame[name].dtype in (pl.String, pl.Boolean) else frame[name].to_numpy()
        for name in frame.columns
    }
    return pandas.DataFrame(columns)


def to_frame(dataset: Dataset) -> pl.DataFrame:
    """The log as a polars frame with the column names that `load` expects; final states are rows without an action."""
    names = Columns()
    ends = np.zeros(len(dataset), dtype=bool)
    ends[dataset.starts[1:] - 1] = True
    terminated, truncated = ends.copy(), ends.copy()
    terminated[ends], truncated[ends] = dataset.terminated, dataset.truncated
    rows: dict[str, Any] = {
        names.episode: np.repeat(dataset.episode_ids, dataset.lengths),
        names.step: dataset.time,
    }
    if dataset.units is not None:
        rows[names.unit] = np.repeat(dataset.units, dataset.lengths)
    if dataset.logged_by is not None:
        rows[names.logger] = np.repeat(dataset.logged_by, dataset.lengths)
    for j, name in enumerate(dataset.observation_names):
        rows[names.observation_prefix + name] = dataset.observations[:, j]
    actions = _named(dataset.action_names)[dataset.actions] if dataset.has_action_words else dataset.actions
    rows |= {names.action: actions, names.reward: dataset.rewards}
    if dataset.propensities is not None:
        rows[names.propensity] = dataset.propensities
    for prefix, matrix in (
        (names.distribution_prefix, dataset.distributions),
        (names.legal_prefix, dataset.legal),
        ("target_", dataset.targets),
    ):
        if matrix is not None:
            rows |= {f"{prefix}{a}": matrix[:, a] for a in range(dataset.action_count)}
    rows |= {names.terminated: terminated, names.truncated: truncated}
    frame = pl.DataFrame(rows)
    known = dataset.has_final_observation
    if not known.any():
        return frame
    final: dict[str, Any] = {names.episode: dataset.episode_ids[known], names.step: dataset.lengths[known]}
    if dataset.units is not None:
        final[names.unit] = dataset.units[known]
    if dataset.logged_by is not None:
        final[names.logger] = dataset.logged_by[known]
    for j, name in enumerate(dataset.observation_names):
        final[names.observation_prefix + name] = dataset.final_observations[known, j]
    # a stable sort by episode puts each final state after the decisions of its episode
    place = pl.Series("place", np.concatenate([dataset.episode_of_step, np.flatnonzero(known)]))
    both = pl.concat([frame, pl.DataFrame(final)], how="diagonal").with_columns(place)
    return both.sort("place", maintain_order=True).drop("place")


def _named(actions: Sequence[str]) -> np.ndarray:
    """The actions' names; doses such as 0, 20 and 40 as the numbers that they are."""
    doses = all(name.isdecimal() and str(int(name)) == name for name in actions)
    return np.array([int(name) for name in actions] if doses else actions)


# Opening


def _either(given: Horizon | None, stored: Horizon | None) -> Horizon | None:
    """What is said now, and what the file says of the rest."""
    if given is None or stored is None:
        return given or stored
    return Horizon(given.cut_off or stored.cut_off, given.steps or stored.steps)


def _is_minari(source: Any) -> bool:
    return type(source).__module__.split(".")[0] == "minari"


def _open(source: Any, columns: Columns, findings: Findings) -> Opened | None:
    if isinstance(source, pl.LazyFrame):
        return Opened(source.collect())
    if isinstance(source, pl.DataFrame):
        return Opened(source, shared=True)
    if isinstance(source, Dataset):
        raise TypeError("this is a Dataset already")
    if isinstance(source, str | os.PathLike):
        return open_file(Path(source), columns, findings)
    if type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns"):
        names = [str(name) for name in source.columns]
        if not named_once(names, findings):
            return None
        # column by column: polars' own converter needs pyarrow
        made = {name: _pandas_column(source.iloc[:, j]) for j, name in enumerate(names)}
        return Opened(pl.DataFrame(made), shared=True)
    if hasattr(source, "__arrow_c_stream__"):
        frame = pl.DataFrame(source)
        return Opened(frame, shared=True)
    expected = "a path, a polars or pandas frame, an Arrow table, or a Minari dataset"
    raise TypeError(f"expected {expected}, got {type(source).__name__}")


def _pandas_column(series: Any) -> Any:
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biufM":
        return series.to_numpy()
    values = [None if missing else value for value, missing in zip(series.tolist(), series.isna(), strict=True)]
    return pl.Series(values, strict=False)
