"""Files and frames ⇄ Dataset. The only module that knows polars."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from statewise.data.dataset import Dataset
from statewise.data.findings import Findings, LogWarning, RowNames
from statewise.data.rawlog import Columns, RawLog

Propensity = Literal["logged", "estimate"]
Ends = Literal["terminated", "truncated"]

TRUE, FALSE = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0", "")
EMPTY = ["", "NA", "N/A", "null", "NULL"]


def load(
    source: Any,
    *,
    columns: Columns | None = None,
    actions: int | None = None,
    propensity: Propensity = "logged",
    ends: Ends | None = None,
) -> Dataset:
    """Reads a log: a Parquet or CSV file, a polars or pandas frame, or a Minari data set (`"minari:NAME"`).

    `columns` says what the columns are called, `actions` how many actions there are (otherwise: the largest
    seen, plus one), `propensity="estimate"` allows a log without propensities, and `ends` says how every
    episode ended where the log has no such column. Raises `LogError` with every fault at once; warns with
    `LogWarning` of what is only suspicious.
    """
    dataset, findings = read(source, columns=columns, actions=actions, propensity=propensity, ends=ends)
    findings.raise_faults()
    assert dataset is not None
    for finding in findings.warnings:
        warnings.warn(str(finding), LogWarning, stacklevel=2)
    return dataset


def read(
    source: Any,
    *,
    columns: Columns | None = None,
    actions: int | None = None,
    propensity: Propensity = "logged",
    ends: Ends | None = None,
) -> tuple[Dataset | None, Findings]:
    """As `load`, but returns what was found instead of raising it."""
    if (isinstance(source, str) and source.startswith("minari:")) or _is_minari(source):
        from statewise.data.minari import from_minari

        return from_minari(source), Findings()
    findings = Findings()
    frame, row_names = _open(source, findings)
    if frame is None:
        return None, findings
    raw, findings = _raw_from_frame(frame, row_names, columns or Columns(), propensity, ends)
    del frame  # its observation columns are copied by now; a second copy may follow
    if raw is None:
        return None, findings
    if actions is not None:
        raw = replace(raw, action_count=actions)
    dataset, more = Dataset.from_log(raw)
    findings.items += more.items
    return (None if findings.faults else dataset), findings


def save(dataset: Dataset, path: str | Path) -> None:
    """Writes Parquet or CSV; a file that was there before is replaced whole or not at all."""
    path = Path(path)
    write = {".parquet": pl.DataFrame.write_parquet, ".csv": pl.DataFrame.write_csv}.get(path.suffix)
    if write is None:
        raise ValueError(f"{path.name}: a log is saved as .parquet or .csv")
    if dataset.live is not None:
        raise ValueError("this Dataset holds padding that no one logged; save the one it was made from")
    part = path.with_name(f".{path.name}.part")
    try:
        write(to_frame(dataset), part)
        os.replace(part, path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


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
    rows |= {names.action: dataset.actions, names.reward: dataset.rewards}
    if dataset.propensities is not None:
        rows[names.propensity] = dataset.propensities
    for prefix, matrix in (
        (names.distribution_prefix, dataset.distributions),
        (names.legal_prefix, dataset.legal),
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


def _open(source: Any, findings: Findings) -> tuple[pl.DataFrame | None, RowNames]:
    if isinstance(source, pl.LazyFrame):
        return source.collect(), RowNames()
    if isinstance(source, pl.DataFrame):
        return source, RowNames()
    if isinstance(source, str | os.PathLike):
        return _open_file(Path(source), findings)
    if type(source).__module__.split(".")[0] == "pandas":
        # column by column: polars' own converter needs pyarrow
        return pl.DataFrame({str(name): _pandas_column(source[name]) for name in source.columns}), RowNames()
    raise TypeError(f"a log is a path, a polars or pandas frame, or a Minari data set, not {type(source).__name__}")


def _pandas_column(series: Any) -> Any:
    if series.dtype.kind in "biuf":
        return series.to_numpy()
    return pl.Series([None if value != value else value for value in series.tolist()], strict=False)


def _open_file(path: Path, findings: Findings) -> tuple[pl.DataFrame | None, RowNames]:
    if not path.exists():
        near = difflib.get_close_matches(path.name, _names_beside(path), n=1)
        hint = f"Did you mean {near[0]}?" if near else "Check the path"
        findings.fault(str(path), "there is no such file", hint)
        return None, RowNames()
    lines = RowNames("line", 2)  # the header is line 1
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path), RowNames()
        if path.suffix in (".csv", ".tsv", ".txt"):
            return _read_csv(path), lines
    except pl.exceptions.NoDataError:
        findings.fault(str(path), "the file is empty", "Give a file with one row for each decision")
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().split("\n")[0]
        findings.fault(str(path), f"it cannot be read: {reason}", "Export it again as Parquet or CSV")
    else:
        findings.fault(
            str(path),
            f"'{path.suffix}' is not a kind of log that can be read",
            "Export it as .parquet or .csv",
        )
    return None, lines


def _names_beside(path: Path) -> list[str]:
    return [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []


def _read_csv(path: Path) -> pl.DataFrame:
    """Reads comma, semicolon (with decimal commas, as European spreadsheets export) or tab separated text."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline()
    separator = max(",;\t", key=header.count)
    return pl.read_csv(
        path,
        separator=separator,
        decimal_comma=separator == ";",
        null_values=EMPTY,
        infer_schema_length=None,
    )


# From a frame to a raw log


def _raw_from_frame(
    frame: pl.DataFrame, row_names: RowNames, columns: Columns, propensity: Propensity, ends: Ends | None
) -> tuple[RawLog | None, Findings]:
    findings = Findings(row_names)
    reader = _FrameReader(frame, columns, findings)
    observation_columns = reader.observation_columns()
    distribution = reader.family(columns.distribution_prefix, "propensity")
    legal = reader.family(columns.legal_prefix, "legal-action")
    needed = [columns.episode, columns.action, columns.reward]
    if propensity == "logged" and not distribution:
        needed.append(columns.propensity)
    if ends is None:
        needed.append(columns.terminated)
    reader.require(needed)
    if findings.faults:
        return None, findings
    if frame.height == 0:
        findings.fault("log", "it has no rows", "Give a file with one row for each decision")
        return None, findings
    codes, ids = reader.episodes()
    actions = [width for width in (len(distribution), len(legal)) if width]
    if len(set(actions)) > 1:
        findings.fault(
            f"{columns.legal_prefix}*",
            f"there are {len(legal)} of them, but {len(distribution)} of {columns.distribution_prefix}*",
            "Give one column of each kind for every action",
        )
    raw = RawLog(
        episode=codes,
        episode_ids=ids,
        observations=reader.matrix(observation_columns),
        observation_names=tuple(name.removeprefix(columns.observation_prefix) for name in observation_columns),
        observation_columns=tuple(observation_columns),
        action=reader.number(columns.action),
        reward=reader.number(columns.reward).astype(np.float64, copy=False),
        step=reader.number(columns.step) if columns.step in frame.columns else None,
        propensity=reader.optional_number(columns.propensity),
        distribution=reader.matrix(distribution) if distribution else None,
        legal=np.column_stack([reader.truth(name, empty=True) for name in legal]) if legal else None,
        terminated=reader.optional_truth(columns.terminated),
        truncated=reader.optional_truth(columns.truncated),
        all_terminated=ends == "terminated",
        unit=frame[columns.unit].to_numpy() if columns.unit in frame.columns else None,
        action_count=actions[0] if actions else None,
        columns=columns,
        row_names=row_names,
    )
    return (None if findings.faults else raw), findings


class _FrameReader:
    """Turns columns of a frame into arrays; what cannot be turned becomes a fault."""

    def __init__(self, frame: pl.DataFrame, columns: Columns, findings: Findings):
        self.frame, self.columns, self.findings = frame, columns, findings

    def require(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.frame.columns:
                self.findings.fault(name, "there is no such column", self._missing_advice(name))

    def _missing_advice(self, name: str) -> str:
        by_lower = {other.lower().strip(): other for other in self.frame.columns}
        near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
        advice = (
            f"Did you mean '{by_lower[near[0]]}'? " if near else f"The log has {', '.join(self.frame.columns[:12])}. "
        )
        if name == self.columns.propensity:
            return advice + "Without logged probabilities they can be estimated: --propensity estimate"
        if name == self.columns.terminated:
            return advice + (
                "If every episode ended by itself, say --ends terminated; if it was only cut off, --ends truncated"
            )
        return advice + f"Rename the column, or name it with --{self._flag(name)}-column"

    def _flag(self, name: str) -> str:
        pairs = (
            ("episode", self.columns.episode),
            ("action", self.columns.action),
            ("reward", self.columns.reward),
        )
        return next(flag for flag, column in pairs if column == name)

    def observation_columns(self) -> list[str]:
        if self.columns.observations is None:
            return [name for name in self.frame.columns if name.startswith(self.columns.observation_prefix)]
        self.require_listed(self.columns.observations)
        return [name for name in self.columns.observations if name in self.frame.columns]

    def require_listed(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.frame.columns:
                near = difflib.get_close_matches(name, self.frame.columns, n=1, cutoff=0.6)
                hint = f"Did you mean '{near[0]}'?" if near else "Check the list given with --observations"
                self.findings.fault(name, "there is no such column", hint)

    def family(self, prefix: str, what: str) -> list[str]:
        """Columns `prefix0 … prefixK`; a hole in the numbering is a fault."""
        numbers = [
            int(name.removeprefix(prefix))
            for name in self.frame.columns
            if name.startswith(prefix) and name.removeprefix(prefix).isdecimal()
        ]
        absent = sorted(set(range(max(numbers, default=-1) + 1)) - set(numbers))
        if absent:
            self.findings.fault(
                f"{prefix}{absent[0]}", "there is no such column", f"Give one {what} column for every action"
            )
            return []
        return [f"{prefix}{a}" for a in range(len(numbers))]

    def episodes(self) -> tuple[np.ndarray, np.ndarray]:
        ids = self.frame[self.columns.episode]
        if ids.null_count():
            rows = np.flatnonzero(ids.is_null().to_numpy())
            self.findings.fault(
                self.columns.episode, "some rows belong to no episode", "Give each row its episode", rows
            )
        names = ids.unique(maintain_order=True)
        runs = ids.rle_id()
        if runs[-1] + 1 == len(names):
            return runs.to_numpy(), names.to_numpy()
        codes = ids.replace_strict(names, pl.int_range(len(names), eager=True), return_dtype=pl.Int64)
        return codes.to_numpy(), names.to_numpy()

    def number(self, name: str) -> np.ndarray:
        series = self.frame[name]
        if series.dtype.is_numeric():
            return series.to_numpy()
        if series.dtype == pl.Boolean:
            return series.cast(pl.Int8).to_numpy()
        numbers = series.cast(pl.Float64, strict=False)
        bad = np.flatnonzero((numbers.is_null() & series.is_not_null()).to_numpy())
        if len(bad):
            self.findings.fault(name, f"it holds text such as '{series[int(bad[0])]}'", "Write numbers only", bad)
        return numbers.to_numpy()

    def optional_number(self, name: str) -> np.ndarray | None:
        if name not in self.frame.columns:
            return None
        return self.number(name).astype(np.float64, copy=False)

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """The columns side by side, each contiguous: float32 where all are, float64 otherwise."""
        kind = np.float32 if all(self.frame[name].dtype == pl.Float32 for name in names) else np.float64
        out = np.empty((self.frame.height, len(names)), dtype=kind, order="F")
        for j, name in enumerate(names):
            out[:, j] = self.number(name)
        return out

    def truth(self, name: str, empty: bool) -> np.ndarray:
        series = self.frame[name]
        if series.dtype == pl.Boolean:
            return series.fill_null(empty).to_numpy()
        text = series.cast(pl.String).str.to_lowercase().str.strip_chars()
        text = text.fill_null(TRUE[0] if empty else FALSE[0]).replace("nan", TRUE[0] if empty else FALSE[0])
        bad = np.flatnonzero((~text.is_in([*TRUE, *FALSE])).to_numpy())
        if len(bad):
            self.findings.fault(name, f"it holds '{series[int(bad[0])]}'", "Write true or false, or 1 or 0", bad)
        return text.is_in(TRUE).to_numpy()

    def optional_truth(self, name: str) -> np.ndarray | None:
        return self.truth(name, empty=False) if name in self.frame.columns else None
