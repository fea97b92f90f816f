"""Columns of a frame → arrays: numbers, actions given as words, true and false. What cannot be converted is a fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from statewise.data.findings import Findings
from statewise.data.rawlog import Columns

TRUE, FALSE = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0")
NUMBERS = "Use numbers only; replace words by one column of 0 and 1 for each word"
FEW_WORDS = 10  # more different words than this are taken for free text if most of them are used once


class Converter:
    """Converts columns to arrays; those in `unreadable` have a fault, so that their values are not checked."""

    def __init__(self, frame: pl.DataFrame, columns: Columns, findings: Findings, shared: bool):
        self.frame, self.columns, self.findings, self.shared = frame, columns, findings, shared
        self.unreadable: set[str] = set()

    def episodes(self) -> tuple[np.ndarray, np.ndarray]:
        ids = self._named(self.columns.episode, "some rows have no episode", "Give every row an episode")
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
        return self._named(name, "some rows have no unit", "Give every row a unit").to_numpy()

    def _named(self, name: str, problem: str, advice: str) -> pl.Series:
        series = self.frame[name]
        if series.dtype.is_float():
            series = series.fill_nan(None)
        if series.null_count():
            self._fault(name, problem, np.flatnonzero(series.is_null().to_numpy()), advice)
        # dates and the like are known by their text
        return series if _plain(series) else series.cast(pl.String)

    def actions(
        self, known: int | tuple[str, ...] | None, family: str | None
    ) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
        """Numbers as they are; words by their place in `known`, or else in alphabetical order."""
        column = self.columns.action
        series = self.frame[column] if column in self.frame.columns else pl.Series(column, [], pl.Int64)
        if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
            return self.optional_number(column), known if isinstance(known, tuple) else None
        text = series.cast(pl.String).str.strip_chars()
        words = sorted(word for word in text.unique().to_list() if word)
        if not words or any(number is not None for number in pl.Series(words).cast(pl.Float64, strict=False)):
            return self.optional_number(column, advice="Use numbers only, or words only"), None
        names = known if isinstance(known, tuple) else tuple(words)
        self._check_words(words, names, known, family)
        codes = text.replace_strict(list(names), list(range(len(names))), default=None, return_dtype=pl.Float64)
        return codes.to_numpy(), names

    def _check_words(
        self, words: list[str], names: tuple[str, ...], known: int | tuple[str, ...] | None, family: str | None
    ) -> None:
        column = self.columns.action
        unknown = [word for word in words if word not in names]
        by_lower = {word.lower(): word for word in words}
        alike = [word for word in words if by_lower[word.lower()] != word]
        if unknown:
            advice = f"The actions are {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
            self._fault(column, f"'{unknown[0]}' is not one of the actions", None, advice)
        elif len(words) > max(FEW_WORDS, self.frame.height // 2):
            advice = "Use one word for each kind of action; names and free text are not actions"
            self._fault(column, f"there are {len(words):,} different words", None, advice)
        elif not isinstance(known, tuple) and (family is not None or known not in (None, len(words))):
            expected = f"{family}, … number the actions" if family else f"{known} actions were expected"
            advice = f"Give all names in the order of the numbers, for example `actions={tuple(words[:8])}`"
            self._fault(column, f"there are {len(words)} words such as '{words[0]}', but {expected}", None, advice)
        elif alike:
            other = by_lower[alike[0].lower()]
            advice = "Use one spelling if they are the same"
            self.findings.warn(column, f"'{alike[0]}' and '{other}' count as two actions", advice)

    def number(self, name: str, advice: str = NUMBERS) -> np.ndarray:
        series = self.frame[name]
        if series.dtype.is_temporal() or series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object):
            self._fault(name, f"expected numbers, got {series.dtype}", np.arange(len(series)), advice)
            return np.full(len(series), np.nan)
        if _plain(series):
            return series.to_numpy(writable=self.shared)
        if series.dtype == pl.Boolean:
            return series.cast(pl.Int8).to_numpy()
        text = series.cast(pl.String).str.strip_chars()
        numbers = text.cast(pl.Float64, strict=False)
        bad = np.flatnonzero((numbers.is_null() & text.is_not_null()).to_numpy())
        if len(bad):
            self._fault(name, f"expected numbers, got text such as '{series[int(bad[0])]}'", bad, advice)
        return numbers.to_numpy()

    def _fault(self, name: str, problem: str, rows: np.ndarray | None, advice: str) -> None:
        self.unreadable.add(name)
        self.findings.fault(name, problem, advice, rows)

    def optional_number(self, name: str, kind: Any = None, advice: str = NUMBERS) -> np.ndarray | None:
        if name not in self.frame.columns:
            return None
        numbers = self.number(name, advice)
        return numbers if kind is None else numbers.astype(kind, copy=False)

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """The columns side by side, each contiguous: float32 if all of them are, float64 otherwise."""
        kinds = {self.frame[name].dtype for name in names}
        if kinds in ({pl.Float32}, {pl.Float64}):
            return self.frame.select(names).to_numpy(order="fortran", writable=True)
        out = np.empty((self.frame.height, len(names)), dtype=np.float64, order="F")
        for j, name in enumerate(names):
            out[:, j] = self.number(name)
        return out

    def truth(self, name: str) -> np.ndarray:
        """1 for true, 0 for false, −1 for an empty cell."""
        series = self.frame[name]
        if series.dtype == pl.Boolean:
            return series.cast(pl.Int8).fill_null(-1).to_numpy()
        text = series.cast(pl.String, strict=False).str.to_lowercase().str.strip_chars()
        empty = text.is_null() | text.is_in(["", "nan"])
        known = empty | text.is_in([*TRUE, *FALSE])
        bad = np.flatnonzero((~known).to_numpy())
        if len(bad):
            problem = f"expected true or false, got '{series[int(bad[0])]}'"
            self._fault(name, problem, bad, "Write true or false, or 1 or 0")
        return np.where(empty.to_numpy(), -1, text.is_in(TRUE).fill_null(False).to_numpy()).astype(np.int8)

    def optional_truth(self, name: str) -> np.ndarray | None:
        return self.truth(name) if name in self.frame.columns else None


def _plain(series: pl.Series) -> bool:
    """Whether NumPy has arrays of this type of number."""
    dtype = series.dtype
    return dtype.is_numeric() and not dtype.is_decimal() and dtype not in (pl.Int128, pl.UInt128)
