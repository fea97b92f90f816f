"""Learns from a frame what becomes of each observed column, and applies it: the border between polars and `Code`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from statewise.data.encoding import FALSE, MISSING, OTHER, SECONDS, TRUE, Code, Encoded, days_of
from statewise.data.findings import Findings

MOST_WORDS = 20  # told apart in one column
RARE = 0.01  # a word on fewer of the rows is one of the others: nothing can be learned about it
TEXT = (pl.String, pl.Categorical, pl.Enum)
# tried in this order; the first that reads every cell is taken
FORMATS = (None, "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%Y/%m/%d")


class Unreadable(ValueError):
    """A column that no code can be learned for; `rows` are those that are wrong."""

    def __init__(self, problem: str, advice: str, rows: np.ndarray | None = None):
        super().__init__(problem)
        self.problem, self.advice, self.rows = problem, advice, rows


def learn_code(series: pl.Series, name: str, order: tuple[str, ...] = (), as_words: bool = False) -> Code:
    """What becomes of a column, from its type and its cells. `order` holds its words from least to most.

    >>> learn_code(pl.Series(["low", "high", None, "low"]), "pain", order=("low", "high"))
    Code(name='pain', kind='order', words=('low', 'high'), other=False, gaps=True, fill=0.0, format=None, origin=None)
    """
    series = gaps_as_null(series)
    if len(series) and series.null_count() == len(series):
        raise Unreadable("every row is empty", "Leave it out")
    if order:
        return _ordered(series, name, order)
    if as_words or (series.dtype in TEXT and not _numeric_text(series)):
        return _worded(series, name)
    if series.dtype == pl.Boolean:
        return _with_gaps(Code(name, "flag"), series)
    if series.dtype in (pl.Date, pl.Datetime):
        return _dated(series, name, None)
    if series.dtype.is_temporal() or series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object):
        advice = "Give numbers, true and false, words, or dates"
        raise Unreadable(f"expected numbers, got {series.dtype}", advice, np.arange(len(series)))
    return _with_gaps(Code(name), series)


def encode(code: Code, series: pl.Series) -> Encoded:
    """The features of a whole column."""
    series = gaps_as_null(series)
    numbers = _numbers(code, series)
    if numbers is not None:
        gaps = series.is_null().to_numpy()
        filled = numbers if code.fill is None else np.where(gaps, code.fill, numbers)
        features = np.column_stack([filled, gaps.astype(np.float64)] if code.gaps else [filled])
        return Encoded(features, np.asarray(np.isnan(filled)), np.zeros(len(series), bool))
    different = series.unique(maintain_order=True)
    place = series.replace_strict(different, pl.int_range(len(different), eager=True), return_dtype=pl.Int64).to_numpy()
    return Encoded(*(part[place] for part in code.encode(different.to_list())))


def encode_frame(
    frame: pl.DataFrame, codes: Sequence[Code], sources: Sequence[str], findings: Findings
) -> tuple[np.ndarray, tuple[str, ...]]:
    """All features [rows, features], each column contiguous, and where each comes from; bad cells become faults."""
    features = [feature for code in codes for feature in code.features]
    out = np.empty((frame.height, len(features)), dtype=np.float64, order="F")
    empty, first, places = np.ones(frame.height, dtype=bool), 0, []
    for code, source in zip(codes, sources, strict=True):
        series = gaps_as_null(frame[source])
        encoded, width = encode(code, series), len(code.features)
        out[:, first : first + width] = encoded.features
        empty &= series.is_null().to_numpy()
        infinite = np.isinf(encoded.features[:, 0])  # has a fault of its own
        refused = np.flatnonzero(encoded.refused & ~infinite & series.is_not_null().to_numpy())
        if len(refused):
            problem = f"expected {code.expected}, got '{series[int(refused[0])]}'"
            findings.fault(source, problem, "Correct it, or leave the cell empty", refused)
        unknown = np.flatnonzero(encoded.unknown & ~encoded.refused)
        if len(unknown) and not code.other:
            problem = f"the policy's log does not hold '{series[int(unknown[0])]}', which {code.unknown}"
            findings.warn(source, problem, f"It knows {', '.join(code.words)}", unknown)
        first, places = first + width, [*places, source, *code.features[1:]]
    out[empty] = np.nan  # nothing is known of such a row
    return out, tuple(places)


def _numbers(code: Code, series: pl.Series) -> np.ndarray | None:
    """The values as numbers, where polars can say so for the whole column."""
    if code.kind == "number" and (series.dtype.is_numeric() or series.dtype == pl.Boolean or series.dtype in TEXT):
        text = series.cast(pl.String).str.strip_chars() if series.dtype in TEXT else series
        return text.cast(pl.Float64, strict=False).to_numpy()
    if code.kind == "flag" and series.dtype == pl.Boolean:
        return series.cast(pl.Float64).to_numpy()
    if code.kind == "date" and series.dtype in (pl.Date, pl.Datetime):
        return _days(series).to_numpy() - days_of(code.origin, None)
    return None


def gaps_as_null(series: pl.Series) -> pl.Series:
    """The cells with every kind of gap as a gap."""
    if series.dtype.is_float():
        return series.fill_nan(None)
    if series.dtype in TEXT:
        text = series.cast(pl.String)
        return text.set(text.str.strip_chars() == "", None)
    return series


def _numeric_text(series: pl.Series) -> bool:
    """Whether most cells are numbers; the others are then mistakes."""
    numbers = series.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    wrong = np.flatnonzero((numbers.is_null() & series.is_not_null()).to_numpy())
    known = len(series) - series.null_count()
    if len(wrong) and 2 * len(wrong) < known:
        advice = "Write a number or leave the cell empty; if its numbers are names, use `Columns(words=...)`"
        raise Unreadable(f"expected numbers, got text such as '{series[int(wrong[0])]}'", advice, wrong)
    return len(wrong) == 0


def _with_gaps(code: Code, series: pl.Series) -> Code:
    if not series.null_count():
        return code
    numbers = _numbers(code, series)
    assert numbers is not None
    return Code(code.name, code.kind, code.words, gaps=True, fill=float(np.nanmedian(numbers)), origin=code.origin)


def _ordered(series: pl.Series, name: str, order: tuple[str, ...]) -> Code:
    text = _words(series)
    unknown = np.flatnonzero((text.is_not_null() & ~text.is_in(order)).to_numpy())
    if len(unknown):
        advice = f"The order is {', '.join(order)}; add it there, or correct it"
        raise Unreadable(f"'{text[int(unknown[0])]}' is not in its order", advice, unknown)
    if not text.null_count():
        return Code(name, "order", order)
    places = sorted(order.index(word) for word in text.drop_nulls())
    return Code(name, "order", order, gaps=True, fill=float(places[(len(places) - 1) // 2]))


def _worded(series: pl.Series, name: str) -> Code:
    text = _words(series)
    words = sorted(set(text.drop_nulls()))
    truths = sorted(words, key=lambda word: word.lower() in TRUE)
    if len(words) == 2 and truths[0].lower() in FALSE and truths[1].lower() in TRUE:
        return _ordered(text, name, tuple(truths))
    if series.dtype in TEXT:
        for format in FORMATS:
            if not np.isnan([days_of(word, format) for word in words]).any():
                return _dated(series, name, format)
    counts = text.drop_nulls().value_counts(sort=True)
    least = max(2, RARE * len(series))
    often = {word: count for word, count in counts.iter_rows() if count >= least and word not in (OTHER, MISSING)}
    if not often:
        advice = "Leave it out: names and free text do not describe a state"
        raise Unreadable(f"there are {len(words):,} different words, and none of them is frequent", advice)
    kept = tuple(sorted(sorted(often, key=lambda word: (-often[word], word))[:MOST_WORDS]))
    gaps = text.null_count() > 0 or MISSING in words
    return Code(name, "words", kept, other=not set(words) <= {*kept, MISSING}, gaps=gaps)


def _dated(series: pl.Series, name: str, format: str | None) -> Code:
    if series.dtype in TEXT:
        cells = series.unique(maintain_order=True).drop_nulls()
        known = np.array([days_of(cell, format) for cell in cells])
        place = dict(zip(cells, known, strict=True))
        days = np.array([place[cell] for cell in series.drop_nulls()])
    else:
        days = _days(series).drop_nulls().to_numpy()
    origin = np.floor(days.min())
    first = np.datetime64(int(origin), "D").item().isoformat()
    gaps = series.null_count() > 0
    fill = float(np.median(days) - origin) if gaps else None
    return Code(name, "date", gaps=gaps, fill=fill, format=format, origin=first)


def _days(series: pl.Series) -> pl.Series:
    return series.cast(pl.Datetime("us")).dt.epoch("us") / (SECONDS * 1_000_000)


def _words(series: pl.Series) -> pl.Series:
    """As words, the way `Code` reads them: 2.0 is the word 2."""
    if series.dtype.is_float():
        whole = series.cast(pl.Int64, strict=False)
        if (whole.cast(pl.Float64) == series).all():
            series = whole
    text = gaps_as_null(series.cast(pl.String))
    return text.str.strip_chars()
