"""A polars frame → a raw log: columns found by name and turned into arrays."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from statewise.data.findings import Findings, RowNames, no_observations
from statewise.data.rawlog import NAMED, Columns, RawLog

Propensity = Literal["logged", "estimate"]
Ends = Literal["terminated", "truncated"]

TRUE, FALSE = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0")
WORDS = "Write numbers only; for words, a column of 0 and 1 for each of them"
STEPS = "Number each episode's decisions 0, 1, 2, …; where the rows stand in order of time, the column is not needed"
FEW_WORDS = 10  # more actions than these are taken for free text where they seldom come twice
OPTIONAL = ("step", "propensity", "terminated", "truncated", "unit")


class Opened(NamedTuple):
    """A log as a frame, and how its rows are counted."""

    frame: pl.DataFrame
    row_names: RowNames
    shared: bool  # someone else may change its memory
    actions: int | tuple[str, ...] | None = None  # how many there are, or their names, where the file tells


def raw_from_frame(
    opened: Opened, columns: Columns, propensity: Propensity, ends: Ends | None, actions: int | tuple[str, ...] | None
) -> tuple[RawLog | None, Findings]:
    findings = Findings(opened.row_names)
    columns = columns.found_in(opened.frame.columns)
    reader = _FrameReader(opened.frame, columns, findings, opened.shared)
    observation_columns = reader.observation_columns()
    distribution = reader.family(columns.distribution_prefix, "propensity")
    legal = reader.family(columns.legal_prefix, "legal-action")
    target = reader.targets()
    if propensity == "estimate":
        distribution = reader.set_aside(distribution)
    needed = {columns.episode, columns.action, columns.reward}
    if propensity == "logged" and not distribution:
        needed.add(columns.propensity)
    if ends is None:
        needed.add(columns.terminated)
    usual = Columns()
    # a name that was given must exist; a usual one may be absent
    needed |= {getattr(columns, name) for name in OPTIONAL if getattr(columns, name) != getattr(usual, name)}
    reader.require(needed)
    if opened.frame.height == 0 and not findings.faults:
        findings.fault("log", "it has no rows", "Give a file with one row for each decision")
    if columns.episode not in opened.frame.columns or opened.frame.height == 0:
        return None, findings
    if ends is not None and columns.terminated in opened.frame.columns:
        advice = f"The column counts, and --ends {ends} does not"
        findings.warn(columns.terminated, "there is such a column", advice)
    codes, ids = reader.episodes()
    families = [*distribution, *legal, *target]
    actions = actions or opened.actions or len(distribution) or len(legal) or len(target) or None
    taken, names = reader.actions(actions, families[0] if families else None)
    raw = RawLog(
        episode=codes,
        episode_ids=ids,
        observations=reader.matrix(observation_columns),
        observation_names=tuple(name.removeprefix(columns.observation_prefix) for name in observation_columns),
        observation_columns=tuple(observation_columns),
        action=taken,
        reward=reader.optional_number(columns.reward, np.float64),
        step=reader.optional_number(columns.step, advice=STEPS),
        propensity=None if propensity == "estimate" else reader.optional_number(columns.propensity, np.float64),
        distribution=reader.matrix(distribution) if distribution else None,
        legal=np.column_stack([reader.truth(name) for name in legal]) if legal else None,
        target=reader.matrix(target) if target else None,
        terminated=reader.optional_truth(columns.terminated),
        truncated=reader.optional_truth(columns.truncated),
        all_terminated=ends == "terminated",
        unit=reader.units(),
        action_count=len(names) if names else actions if isinstance(actions, int) else None,
        action_names=names,
        columns=columns,
        row_names=opened.row_names,
    )
    return replace(raw, unreadable=frozenset(reader.unreadable)), findings


class _FrameReader:
    """Turns columns of a frame into arrays; what cannot be turned becomes a fault."""

    def __init__(self, frame: pl.DataFrame, columns: Columns, findings: Findings, shared: bool):
        self.frame, self.columns, self.findings, self.shared = frame, columns, findings, shared
        self.unreadable: set[str] = set()
        self.listed = False  # whether the reader was told the log's columns

    def require(self, names: Iterable[str]) -> None:
        for name in sorted(set(names) - set(self.frame.columns)):
            self.findings.fault(name, "there is no such column", self._missing_advice(name))

    def _columns_once(self) -> str:
        if self.listed:
            return ""
        self.listed = True
        names = self.frame.columns
        return f"The log has {', '.join(names[:12])}{f' and {len(names) - 12} more' if len(names) > 12 else ''}. "

    def _missing_advice(self, name: str) -> str:
        by_lower = {other.lower().strip(): other for other in self.frame.columns}
        near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
        advice = f"Did you mean '{by_lower[near[0]]}'? " if near else self._columns_once()
        if name == self.columns.propensity:
            return advice + "Without logged probabilities they can be estimated: --propensity estimate"
        if name == self.columns.terminated:
            return advice + (
                "If every episode ended by itself, say --ends terminated; if it was only cut off, --ends truncated"
            )
        flag = next((flag for flag in NAMED if getattr(self.columns, flag) == name), None)
        return advice + (f"Rename the column, or name it with --{flag}-column" if flag else "Check --observations")

    def observation_columns(self) -> list[str]:
        if self.columns.observations is None:
            prefix = self.columns.observation_prefix
            found = [name for name in self.frame.columns if name.startswith(prefix)]
            if not found and self.frame.columns:
                fault = no_observations(prefix, self._numeric_columns())
                self.findings.items.append(fault)
                self.unreadable.add(fault.column)
            return found
        wanted = [name for name in self.columns.observations if name]
        self.require(wanted)
        later = [name for name in ("action", "reward", "propensity", "terminated", "truncated")]
        for name in sorted({name for name in wanted if wanted.count(name) > 1}):
            self.findings.fault(name, "it is listed twice", "Check --observations")
        for name in sorted({getattr(self.columns, role) for role in later} & set(wanted)):
            self.findings.fault(name, "it is not known before the decision", "Take it out of --observations")
        return [name for name in dict.fromkeys(wanted) if name in self.frame.columns]

    def _numeric_columns(self) -> str:
        """Which columns could be the state: those of numbers that are nothing else."""
        other = {getattr(self.columns, name) for name in NAMED}
        families = (
            self.columns.distribution_prefix,
            self.columns.legal_prefix,
            self.columns.target_prefix or "target_",
        )
        names = [
            name
            for name, kind in self.frame.schema.items()
            if kind.is_numeric() and name not in other and not name.startswith(families)
        ]
        return f" '{','.join(names[:12])}'" if names else ""

    def family(self, prefix: str, what: str) -> list[str]:
        """Columns `prefix0 … prefixK`; a hole in the numbering is a fault."""
        ends = [name.removeprefix(prefix) for name in self.frame.columns if name.startswith(prefix)]
        numbers = {int(end) for end in ends if re.fullmatch(r"0|[1-9][0-9]{0,8}", end)}
        absent = next((a for a in range(len(numbers)) if a not in numbers), None)
        if absent is None:
            return [f"{prefix}{a}" for a in range(len(numbers))]
        self.findings.fault(f"{prefix}{absent}", "there is no such column", f"Give one {what} column for every action")
        return []

    def targets(self) -> list[str]:
        """Columns of a policy's probabilities, where they are asked for."""
        prefix = self.columns.target_prefix
        if prefix is None:
            return []
        found = self.family(prefix, "target-probability")
        if not found and not self.findings.faults:
            advice = "Give the policy's probability of every action, one column each"
            self.findings.fault(f"{prefix}0", "there is no such column", advice)
        return found

    def set_aside(self, distribution: list[str]) -> list[str]:
        """Estimated propensities take the place of logged ones, and that is said."""
        logged = [name for name in (self.columns.propensity, *distribution) if name in self.frame.columns]
        if logged:
            advice = "Leave --propensity estimate out to use what was logged"
            self.findings.warn(logged[0], "logged probabilities are set aside for estimated ones", advice)
        return []

    def episodes(self) -> tuple[np.ndarray, np.ndarray]:
        ids = self._named(self.columns.episode, "some rows belong to no episode", "Give each row its episode")
        names = ids.unique(maintain_order=True)
        runs = ids.rle_id()
        if runs[-1] + 1 == len(names):
            return runs.to_numpy(), names.to_numpy()
        codes = ids.replace_strict(names, pl.int_range(len(names), eager=True), return_dtype=pl.Int64)
        return codes.to_numpy(), names.to_numpy()

    def units(self) -> np.ndarray | None:
        name = self.columns.unit
        if name not in self.frame.columns:
            return None
        return self._named(name, "some rows belong to no unit", "Give each row its unit").to_numpy()

    def _named(self, name: str, found: str, advice: str) -> pl.Series:
        series = self.frame[name]
        if series.dtype.is_float():
            series = series.fill_nan(None)
        if series.null_count():
            self.findings.fault(name, found, advice, np.flatnonzero(series.is_null().to_numpy()))
            self.unreadable.add(name)
        # what is neither number nor text is named by how it is written
        return series if _plain(series) else series.cast(pl.String)

    def actions(
        self, known: int | tuple[str, ...] | None, family: str | None
    ) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
        """Numbers as they are; words by their place among those `known`, or else in alphabetical order."""
        column = self.columns.action
        series = self.frame[column] if column in self.frame.columns else pl.Series(column, [], pl.Int64)
        if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
            return self.optional_number(column), known if isinstance(known, tuple) else None
        text = series.cast(pl.String).str.strip_chars()
        words = sorted(word for word in text.unique().to_list() if word)
        if not words or any(number is not None for number in pl.Series(words).cast(pl.Float64, strict=False)):
            return self.optional_number(column, advice="Write numbers only, or words only"), None
        names = known if isinstance(known, tuple) else tuple(words)
        self._check_words(words, names, known, family)
        codes = text.replace_strict(list(names), list(range(len(names))), default=None, return_dtype=pl.Float64)
        return codes.to_numpy(), names

    def _check_words(
        self, words: list[str], names: tuple[str, ...], known: int | tuple[str, ...] | None, family: str | None
    ) -> None:
        column = self.columns.action
        strange = [word for word in words if word not in names]
        by_lower = {word.lower(): word for word in words}
        alike = [word for word in words if by_lower[word.lower()] != word]
        if strange:
            advice = f"The actions are {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
            self._unread(column, f"it holds '{strange[0]}', which is none of the actions", None, advice)
        elif len(words) > max(FEW_WORDS, self.frame.height // 2):
            advice = "One word for each kind of action; names or free text are no actions"
            self._unread(column, f"it holds {len(words):,} different words", None, advice)
        elif not isinstance(known, tuple) and (family is not None or known not in (None, len(words))):
            told = f"{family}, … stand in the order of numbers" if family else f"there should be {known} actions"
            advice = f"Say their names in that order, such as --actions '{','.join(words[:8])}'"
            self._unread(column, f"it holds {len(words)} words such as '{words[0]}', but {told}", None, advice)
        elif alike:
            other = by_lower[alike[0].lower()]
            self.findings.warn(
                column, f"'{alike[0]}' and '{other}' count as two actions", "Write one of them, if not so"
            )

    def number(self, name: str, advice: str = WORDS) -> np.ndarray:
        series = self.frame[name]
        if series.dtype.is_temporal() or series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object):
            self._unread(name, f"it holds {series.dtype}, not numbers", np.arange(len(series)), advice)
            return np.full(len(series), np.nan)
        if _plain(series):
            return series.to_numpy(writable=self.shared)
        if series.dtype == pl.Boolean:
            return series.cast(pl.Int8).to_numpy()
        text = series.cast(pl.String).str.strip_chars()
        numbers = text.cast(pl.Float64, strict=False)
        bad = np.flatnonzero((numbers.is_null() & text.is_not_null()).to_numpy())
        if len(bad):
            self._unread(name, f"it holds text such as '{series[int(bad[0])]}'", bad, advice)
        return numbers.to_numpy()

    def _unread(self, name: str, found: str, rows: np.ndarray | None, advice: str) -> None:
        self.unreadable.add(name)
        self.findings.fault(name, found, advice, rows)

    def optional_number(self, name: str, kind: Any = None, advice: str = WORDS) -> np.ndarray | None:
        if name not in self.frame.columns:
            return None
        numbers = self.number(name, advice)
        return numbers if kind is None else numbers.astype(kind, copy=False)

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """The columns side by side, each contiguous: float32 where all are, float64 otherwise."""
        kinds = {self.frame[name].dtype for name in names}
        if kinds in ({pl.Float32}, {pl.Float64}):
            return self.frame.select(names).to_numpy(order="fortran", writable=True)
        out = np.empty((self.frame.height, len(names)), dtype=np.float64, order="F")
        for j, name in enumerate(names):
            out[:, j] = self.number(name)
        return out

    def truth(self, name: str) -> np.ndarray:
        """1 for true, 0 for false, −1 where nothing is written."""
        series = self.frame[name]
        if series.dtype == pl.Boolean:
            return series.cast(pl.Int8).fill_null(-1).to_numpy()
        text = series.cast(pl.String, strict=False).str.to_lowercase().str.strip_chars()
        empty = text.is_null() | text.is_in(["", "nan"])
        known = empty | text.is_in([*TRUE, *FALSE])
        bad = np.flatnonzero((~known).to_numpy())
        if len(bad):
            found = f"it holds '{series[int(bad[0])]}'"
            self.unreadable.add(name)
            self.findings.fault(name, found, "Write true or false, or 1 or 0", bad)
        return np.where(empty.to_numpy(), -1, text.is_in(TRUE).fill_null(False).to_numpy()).astype(np.int8)

    def optional_truth(self, name: str) -> np.ndarray | None:
        return self.truth(name) if name in self.frame.columns else None


def _plain(series: pl.Series) -> bool:
    """Numbers that NumPy has arrays for."""
    dtype = series.dtype
    return dtype.is_numeric() and not dtype.is_decimal() and dtype not in (pl.Int128, pl.UInt128)
