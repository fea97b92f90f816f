"""Columns of a frame → arrays: numbers, actions given as words, true and false. What cannot be converted is a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from statewise.data.encoding import FALSE, TRUE, Code
from statewise.data.findings import Findings
from statewise.data.learn_codes import Unreadable, encode_frame, gaps_as_null, learn_code
from statewise.data.rawlog import Columns

NUMBERS = "Use numbers only"
FEW_WORDS = 10  # more different words than this are taken for free text if most of them are used once
MOST_NUMBERED = 10_000  # actions; a larger number is an identifier
SPARSE = 3  # numbers of actions that leave out more than two of three are names, such as doses


class Observed(NamedTuple):
    """The observations as numbers."""

    features: np.ndarray  # [rows, features]
    codes: tuple[Code, ...]
    places: tuple[str, ...]  # where each feature comes from, for messages


class Converter:
    """Converts columns to arrays; those in `unreadable` have a fault, so that their values are not checked."""

    def __init__(self, frame: pl.DataFrame, columns: Columns, findings: Findings, shared: bool):
        self.frame, self.columns, self.findings, self.shared = frame, columns, findings, shared
        self.unreadable: set[str] = set()
        self.ordered_by = columns.time if columns.time in frame.columns else columns.step  # without a step column

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

    def loggers(self) -> np.ndarray | None:
        """As words; rows of final states have none."""
        name = self.columns.logger
        if name not in self.frame.columns:
            return None
        return self.frame[name].cast(pl.String).fill_null("").to_numpy()

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
            doses = doses_of(series, known)
            if doses is None:
                return self.optional_number(column), known if isinstance(known, tuple) else None
            self._check_doses(series, doses)
            codes = series.replace_strict(doses, list(range(len(doses))), default=None, return_dtype=pl.Float64)
            return codes.to_numpy(), tuple(map(str, doses))
        text = series.cast(pl.String).str.strip_chars()
        words = sorted(word for word in text.unique().to_list() if word)
        if not words or any(number is not None for number in pl.Series(words).cast(pl.Float64, strict=False)):
            return self.optional_number(column, advice="Use numbers only, or words only"), None
        names = known if isinstance(known, tuple) else tuple(words)
        self._check_words(words, names, known, family)
        codes = text.replace_strict(list(names), list(range(len(names))), default=None, return_dtype=pl.Float64)
        return codes.to_numpy(), names

    def _check_doses(self, series: pl.Series, doses: list[int]) -> None:
        unknown = np.flatnonzero((series.is_not_null() & ~series.is_in(doses)).to_numpy())
        if len(unknown):
            advice = f"The actions are {', '.join(map(str, doses[:8]))}{', …' if len(doses) > 8 else ''}"
            self._fault(self.columns.action, f"{series[int(unknown[0])]} is not one of the actions", unknown, advice)

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

    def observations(self, sources: Sequence[str], known: Mapping[str, Code] | None) -> Observed:
        """The features of the observed columns, by the codes that are known or by what the columns show."""
        known = self._codes(sources) if known is None else known
        codes = [known[source] for source in sources]
        wrong = self.unreadable & set(sources)  # each has its fault already
        if all(code.plain for code in codes) and not wrong:
            return Observed(self.matrix(sources), tuple(codes), tuple(sources))
        frame = self.frame.with_columns(pl.lit(None, pl.Float64).alias(source) for source in wrong)
        matrix, places = encode_frame(frame, codes, sources, self.findings)
        return Observed(matrix, tuple(codes), places)

    def _codes(self, sources: Sequence[str]) -> dict[str, Code]:
        declared = {*self.columns.words, *(name for name, _ in self.columns.orders)}
        plain = {source for source in sources if source not in declared and _without_gaps(self.frame[source])}
        if plain == set(sources):  # nothing is copied
            return {source: Code(source.removeprefix(self.columns.observation_prefix)) for source in sources}
        # a row that holds nothing at all, as the last of an episode may, says nothing about gaps
        some = np.any([gaps_as_null(self.frame[source]).is_not_null().to_numpy() for source in sources], axis=0)
        frame, rows = self.frame.select(sources).filter(pl.Series(some)), np.flatnonzero(some)
        return {source: self._learned(source, frame, rows) for source in sources}

    def _learned(self, source: str, frame: pl.DataFrame, rows: np.ndarray) -> Code:
        """What becomes of a column of `frame`, whose rows are these of the log."""
        name = source.removeprefix(self.columns.observation_prefix)
        order = dict(self.columns.orders).get(source, ())
        try:
            return learn_code(frame[source], name, order, source in self.columns.words)
        except Unreadable as error:
            self._fault(source, error.problem, None if error.rows is None else rows[error.rows], error.advice)
            return Code(name)

    def steps(self, episode: np.ndarray, advice: str) -> np.ndarray | None:
        """The numbers of the decisions, or their order by time where a column of time is all there is."""
        if self.columns.step in self.frame.columns or self.columns.time not in self.frame.columns:
            return self.optional_number(self.columns.step, advice=advice)
        name = self.columns.time
        code = self._learned(name, self.frame, np.arange(self.frame.height))
        if name in self.unreadable or code.kind not in ("number", "date"):
            if name not in self.unreadable:
                self._fault(name, "expected times or numbers", None, "Give a date, a time or a number for each row")
            return None
        times, _ = encode_frame(self.frame, [code], [name], Findings())
        if code.gaps or np.isnan(times).any():
            empty = np.flatnonzero(self.frame[name].is_null().to_numpy())
            self._fault(name, "some rows have no time", empty, "Give every row a time")
            return None
        ranks = pl.DataFrame({"episode": episode, "time": times[:, 0]}).select(
            pl.col("time").rank("dense").over("episode").cast(pl.Int64) - 1
        )
        return ranks.to_series().to_numpy()

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


def doses_of(series: pl.Series, known: int | tuple[str, ...] | None) -> list[int] | None:
    """Whole numbers that name actions rather than number them, in order: 0, 10, 20 are three doses."""
    if not series.dtype.is_integer() or isinstance(known, int):
        return None
    if known is not None:
        named = all(name.isdecimal() for name in known) and known != tuple(map(str, range(len(known))))
        return [int(name) for name in known] if named else None
    numbers = sorted(series.drop_nulls().unique())
    if len(numbers) < 2 or numbers[0] < 0 or numbers[-1] >= MOST_NUMBERED:
        return None
    return numbers if SPARSE * len(numbers) < numbers[-1] + 1 else None


def _without_gaps(series: pl.Series) -> bool:
    """Whether these are numbers, every one of them."""
    return _plain(series) and not series.null_count() and not (series.dtype.is_float() and series.is_nan().any())


def _plain(series: pl.Series) -> bool:
    """Whether NumPy has arrays of this type of number."""
    dtype = series.dtype
    return dtype.is_numeric() and not dtype.is_decimal() and dtype not in (pl.Int128, pl.UInt128)
