"""Files and frames ⇄ Dataset. With `frame`, the only module that knows polars."""

from __future__ import annotations

import codecs
import csv
import difflib
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl

from statewise.base.files import written_whole
from statewise.data.build import accept, build
from statewise.data.checks import check
from statewise.data.columns import Ends, Propensity
from statewise.data.dataset import Dataset
from statewise.data.findings import Findings, LogWarning, RowNames
from statewise.data.frame import Opened, raw_from_frame
from statewise.data.rawlog import Columns

EMPTY = ["", "NA", "N/A", "null", "NULL"]
NOT_UTF8 = "its letters are not written in UTF-8 (spreadsheets call other ways Unicode text, UTF-16 or ANSI)"
ACTIONS_KEY = "statewise.actions"  # in a Parquet file's metadata: how many there are, taken or not, or their names


def load(
    source: Any,
    *,
    columns: Columns | None = None,
    actions: int | Sequence[str] | None = None,
    propensity: Propensity = "logged",
    ends: Ends | None = None,
) -> Dataset:
    """Reads a log: a Parquet or CSV file, a polars or pandas frame, or a Minari data set (`"minari:NAME"`).

    `columns` says what the columns are called, `actions` how many actions there are (otherwise: the largest seen,
    plus one) or, where they are words, their names in order (otherwise: the words seen, by alphabet),
    `propensity="estimate"` allows a log without propensities, and `ends` says how every episode ended where the log
    has no such column. Raises `LogError` with every fault at once; warns with `LogWarning` of what is only
    suspicious.
    """
    dataset, findings = read(source, columns=columns, actions=actions, propensity=propensity, ends=ends)
    return accept(dataset, findings)


def read(
    source: Any,
    *,
    columns: Columns | None = None,
    actions: int | Sequence[str] | None = None,
    propensity: Propensity = "logged",
    ends: Ends | None = None,
) -> tuple[Dataset | None, Findings]:
    """As `load`, but returns what was found instead of raising it."""
    if propensity not in get_args(Propensity) or ends not in (None, *get_args(Ends)):
        raise ValueError(f"propensity is one of {get_args(Propensity)} and ends one of {get_args(Ends)} or None")
    if isinstance(source, str | os.PathLike) and str(source).startswith("minari:"):
        source = str(source)  # the command line makes a path of it
    if (isinstance(source, str) and source.startswith("minari:")) or _is_minari(source):
        if (columns or Columns(), actions, propensity, ends) != (Columns(), None, "logged", None):
            raise ValueError("a Minari data set says by itself what its columns and actions are")
        from statewise.data.minari import read_minari

        return read_minari(source)
    findings = Findings()
    opened = _open(source, columns or Columns(), findings)
    if opened is None:
        return None, findings
    actions = actions if actions is None or isinstance(actions, int) else tuple(actions)
    raw, findings = raw_from_frame(opened, columns or Columns(), propensity, ends, actions)
    del opened  # its observation columns are copied by now; a second copy may follow
    if raw is None:
        return None, findings
    if findings.faults:  # the rest is checked all the same, so that all faults are told at once
        findings.items += check(raw)[2].items
        return None, findings
    dataset, more = build(raw)
    findings.items += more.items
    return dataset, findings


def save(dataset: Dataset, path: str | Path) -> None:
    """Writes Parquet or CSV; a file that was there before is replaced whole or not at all."""
    path = Path(path)
    if path.suffix not in (".parquet", ".csv"):
        raise ValueError(f"{path.name}: a log is saved as .parquet or .csv")
    if dataset.live is not None:
        raise ValueError("this Dataset holds padding that no one logged; save the one it was made from")
    if len(set(dataset.episode_ids.tolist())) < dataset.episodes:
        raise ValueError("an episode stands in this Dataset more than once; save the one it was taken from")
    if dataset.estimated is not None:
        warning = f"{path.name}: its propensities are estimates, and `load` will take them for logged ones"
        warnings.warn(warning, LogWarning, stacklevel=3)
    known = list(dataset.action_names) if dataset.has_action_words else dataset.action_count
    write_frame(to_frame(dataset), path, {ACTIONS_KEY: json.dumps(known)})


def write_frame(frame: pl.DataFrame, path: Path, metadata: dict[str, str] | None = None) -> None:
    """Writes a frame as its path's ending says, whole or not at all; only Parquet keeps the metadata."""
    with written_whole(path) as part:
        try:
            if path.suffix == ".parquet":
                frame.write_parquet(part, metadata=metadata)
            else:
                {".csv": frame.write_csv, ".json": frame.write_json}[path.suffix](part)
        except pl.exceptions.PolarsError as error:  # polars says so of a full disk
            raise OSError(None, str(error)) from error


def to_frame(dataset: Dataset) -> pl.DataFrame:
    """The log as a polars frame in the column names that `load` expects; final states are rows without action."""
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
    for j, name in enumerate(dataset.observation_names):
        rows[names.observation_prefix + name] = dataset.observations[:, j]
    words = np.array(dataset.action_names)[dataset.actions] if dataset.has_action_words else dataset.actions
    rows |= {names.action: words, names.reward: dataset.rewards}
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
    for j, name in enumerate(dataset.observation_names):
        final[names.observation_prefix + name] = dataset.final_observations[known, j]
    # a stable sort by the episode's place puts each final state behind its episode's decisions
    place = pl.Series("place", np.concatenate([dataset.episode_of_step, np.flatnonzero(known)]))
    both = pl.concat([frame, pl.DataFrame(final)], how="diagonal").with_columns(place)
    return both.sort("place", maintain_order=True).drop("place")


# Opening


def _is_minari(source: Any) -> bool:
    return type(source).__module__.split(".")[0] == "minari"


def _open(source: Any, columns: Columns, findings: Findings) -> Opened | None:
    if isinstance(source, pl.LazyFrame):
        return Opened(source.collect(), RowNames(), shared=False)
    if isinstance(source, pl.DataFrame):
        return Opened(source, RowNames(), shared=True)
    if isinstance(source, str | os.PathLike):
        return open_file(Path(source), columns, findings)
    if type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns"):
        names = [str(name) for name in source.columns]
        if not _named_once(names, findings):
            return None
        # column by column: polars' own converter needs pyarrow
        made = {name: _pandas_column(source.iloc[:, j]) for j, name in enumerate(names)}
        return Opened(pl.DataFrame(made), RowNames(), shared=True)
    raise TypeError(f"a log is a path, a polars or pandas frame, or a Minari data set, not {type(source).__name__}")


def _pandas_column(series: Any) -> Any:
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biufM":
        return series.to_numpy()
    values = [None if missing else value for value, missing in zip(series.tolist(), series.isna(), strict=True)]
    return pl.Series(values, strict=False)


def open_file(path: Path, columns: Columns, findings: Findings) -> Opened | None:
    """The table that a file holds; what is wrong with it goes to `findings`."""
    if not path.exists():
        near = difflib.get_close_matches(path.name, _names_beside(path), n=1)
        hint = f"Did you mean {near[0]}?" if near else "Check the path"
        findings.fault(str(path), "there is no such file", hint)
        return None
    if path.is_dir():
        findings.fault(str(path), "it is a folder", "Give a .parquet or .csv file")
        return None
    try:
        if path.suffix.lower() == ".parquet":
            known = json.loads(pl.read_parquet_metadata(path).get(ACTIONS_KEY, "null"))
            actions = tuple(known) if isinstance(known, list) else known
            return Opened(pl.read_parquet(path), RowNames(), shared=False, actions=actions)
        if path.suffix.lower() in (".csv", ".tsv", ".txt"):
            return _read_csv(path, columns, findings)
    except pl.exceptions.NoDataError:
        findings.fault(str(path), "the file is empty", "Give a file with one row for each decision")
    except UnicodeError:
        findings.fault(str(path), NOT_UTF8, "Save it again as CSV UTF-8, or as Parquet")
    except (pl.exceptions.PolarsError, OSError) as error:
        if "utf-8" in str(error).lower() and path.suffix.lower() != ".parquet":
            findings.fault(str(path), NOT_UTF8, "Save it again as CSV UTF-8, or as Parquet")
            return None
        reason = str(error).strip().split("\n")[0]
        findings.fault(str(path), f"it cannot be read: {reason}", "Export it again as Parquet or CSV")
    else:
        kind = f"'{path.suffix}' is not a kind of log that can be read"
        findings.fault(str(path), kind, "Export it as .parquet or .csv")
    return None


def _names_beside(path: Path) -> list[str]:
    return [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []


def _read_csv(path: Path, columns: Columns, findings: Findings) -> Opened | None:
    """Reads comma, semicolon (with decimal commas, as European spreadsheets export) or tab separated text."""
    with path.open("rb") as file:
        first = file.readline()
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in first:
        raise UnicodeError
    header = first.decode("utf-8-sig")
    separator = max(",;\t", key=header.count)
    written = next(csv.reader([header], delimiter=separator), [])
    names = [name.strip() for name in written]
    if not _named_once(names, findings):
        return None
    columns = columns.found_in(names)
    named = (columns.episode, columns.unit)
    frame = pl.read_csv(
        path,
        separator=separator,
        decimal_comma=separator == ";",
        null_values=EMPTY,
        infer_schema_length=None,
        # what names an episode or a unit may look like a number: 007 and 7 are two patients
        schema_overrides={raw: pl.String for raw, name in zip(written, names, strict=True) if name in named},
    )
    frame.columns = names
    text = [
        pl.col(name).str.count_matches("\n").fill_null(0) for name, kind in frame.schema.items() if kind == pl.String
    ]
    within = frame.select(pl.sum_horizontal(text)).to_series().to_numpy() if text else np.zeros(frame.height, int)
    place = np.arange(frame.height) + np.cumsum(within) - within  # quoted text may go on over several lines
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    kept = np.flatnonzero(~blank)
    frame = frame if len(kept) == len(blank) else frame[kept]
    frame = frame.with_columns(_as_written(frame[name]) for name in named if name in names)
    moved = len(kept) > 0 and place[kept[-1]] != len(kept) - 1
    lines = RowNames("line", 2, place[kept] if moved else None)  # the header is line 1
    return Opened(frame, lines, shared=False)


def _as_written(names: pl.Series) -> pl.Series:
    """Whole numbers where every name is one as a number is written; text otherwise."""
    numbers = names.cast(pl.Int64, strict=False)
    same = (numbers.cast(pl.String) == names).fill_null(False) | names.is_null()
    return numbers if same.all() else names


def _named_once(names: list[str], findings: Findings) -> bool:
    repeated = sorted({name for name in names if names.count(name) > 1})
    for name in repeated:
        findings.fault(name, "there are several columns of that name", "Keep or rename all but one")
    return not repeated
