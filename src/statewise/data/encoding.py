"""What becomes of an observed column: numbers, truths, words and dates, with their gaps, as features. NumPy alone.

A `Code` is learned from a log (`data.learn_codes`), travels in the policy file, and is the one meaning of a raw value:
reading a log, `act`, `serve` and the exports all go by it.

| kind | the features | a gap | a word that the log does not hold |
|---|---|---|---|
| number, flag, date | the value | `fill`, and 1 in `NAME missing` | refused |
| order | the word's place, from 0 | `fill`, and 1 in `NAME missing` | counts as a gap |
| words | 1 in `NAME=WORD` | 1 in `NAME=missing` | 1 in `NAME=other` |

Where the log has no gaps, there is no feature for them: a gap in a column of words then counts as an unknown word, and
any other is refused. Where no word is rare, there is no `NAME=other`: an unknown word is 0 in all features.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple

import numpy as np

Kind = Literal["number", "flag", "order", "words", "date"]
OTHER, MISSING = "other", "missing"
TRUE, FALSE = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0")
SECONDS = 86_400  # of a day
LARGEST = sys.float_info.max


class Encoded(NamedTuple):
    """Values as features."""

    features: np.ndarray  # [n, features] of float64, NaN where the value was refused
    refused: np.ndarray  # [n] of bool
    unknown: np.ndarray  # [n] of bool: words that the log does not hold


@dataclass(frozen=True)
class Code:
    """How one column becomes features.

    >>> Code("ward", "words", ("A", "B"), other=True).encode(["B", "C"]).features.tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> Code("age", "number", gaps=True, fill=50.0).encode([61, None]).features.tolist()
    [[61.0, 0.0], [50.0, 1.0]]
    """

    name: str
    kind: Kind = "number"
    words: tuple[str, ...] = ()  # those told apart; of an order, from least to most
    other: bool = False  # whether the rarer words have a feature, which they share
    gaps: bool = False  # whether the log has gaps here, and so a feature that says where
    fill: float | None = None  # what stands in a gap
    format: str | None = None  # of dates, as `strptime` reads them; None: ISO 8601
    origin: str | None = None  # of dates: the day that counts 0

    def __post_init__(self) -> None:
        worded = self.kind in ("words", "order")
        for expected, holds in (
            ("words where there are some", worded or not self.words),
            ("each word once", len(set(self.words)) == len(self.words)),
            ("two words or more in an order", self.kind != "order" or len(self.words) > 1),
            ("'other' among words alone", self.kind == "words" or not self.other),
            ("a fill where there are gaps", (self.fill is not None) == (self.gaps and self.kind != "words")),
            ("a finite fill", self.fill is None or math.isfinite(self.fill)),
            ("a first day of dates", (self.origin is not None) == (self.kind == "date")),
        ):
            if not holds:
                raise ValueError(f"column '{self.name}': expected {expected}")
        if self.origin is not None:
            date.fromisoformat(self.origin)

    @property
    def plain(self) -> bool:
        """Whether it is a column of numbers without gaps, which stays as it is."""
        return self == Code(self.name)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features."""
        if self.kind == "words":
            extra = (OTHER,) * self.other + (MISSING,) * self.gaps
            return tuple(f"{self.name}={word}" for word in (*self.words, *extra))
        return (self.name, f"{self.name} {MISSING}") if self.gaps else (self.name,)

    def encode(self, values: Sequence[Any]) -> Encoded:
        """The features of raw values: None and NaN are gaps."""
        rows = [self._row(value) for value in values]
        features = np.array(rows, dtype=np.float64).reshape(len(rows), len(self.features))
        worded = self.kind in ("words", "order")
        unknown = [worded and not is_gap(value) and self._place(value) is None for value in values]
        return Encoded(features, np.asarray(np.isnan(features).any(axis=1)), np.array(unknown, bool))

    def _row(self, value: Any) -> tuple[float, ...]:
        if self.kind == "words":
            feature = self._feature(value)
            return tuple(float(j == feature) for j in range(len(self.features)))
        number = None if is_gap(value) else self._number(value)
        if number is None:
            return (math.nan,) if self.fill is None else (self.fill, 1.0)
        return (number, 0.0) if self.gaps else (number,)

    def _feature(self, value: Any) -> int | None:
        """The feature that is 1 for a word, a gap, or a word that the log does not hold."""
        if is_gap(value) and self.gaps:
            return len(self.features) - 1
        place = None if is_gap(value) else self._place(value)
        return len(self.words) if place is None and self.other else place

    def _number(self, value: Any) -> float | None:
        """The value as a number: NaN where it is none, None where it counts as a gap."""
        if self.kind == "order":
            place = self._place(value)
            return None if place is None else float(place)
        if self.kind == "date":
            return days_of(value, self.format) - days_of(self.origin, None)
        return _as_flag(value) if self.kind == "flag" else _as_number(value)

    def _place(self, value: Any) -> int | None:
        word = as_word(value)
        return self.words.index(word) if word in self.words else None

    @property
    def unknown(self) -> str:
        """What a word that the log does not hold does."""
        meaning = "other" if self.other else "a gap" if self.kind == "order" else "none of the known words"
        return f"counts as {meaning}"

    @property
    def sentence(self) -> str:
        """What becomes of the column, for people.

        >>> Code("ward", "words", ("A", "B"), gaps=True).sentence
        '1 for each of A, B, missing; another word counts as none of the known words'
        """
        gap = "" if self.fill is None else f"; a gap: {self.fill:.4g}, and 1 in '{self.features[-1]}'"
        if self.kind == "words":
            listed = ", ".join([*self.words, *(OTHER,) * self.other, *(MISSING,) * self.gaps])
            return f"1 for each of {listed}; another word {self.unknown}"
        if self.kind == "order":
            return ", ".join(f"{word} {place}" for place, word in enumerate(self.words)) + gap
        if self.kind == "flag":
            return f"true 1, false 0{gap}"
        if self.kind == "date":
            read = "" if self.format is None else f" (read as {readable(self.format)})"
            return f"days since {self.origin}{read}{gap}"
        return f"the number{gap}"

    def example(self, number: float = 0.0) -> Any:
        """A raw value of this column."""
        if self.kind == "date":
            assert self.origin is not None
            day = datetime.fromisoformat(self.origin)
            return self.origin if self.format is None else day.strftime(self.format)
        return {"number": number, "flag": True}.get(self.kind, (*self.words, "")[0])

    @property
    def expected(self) -> str:
        """What a value must be, for messages."""
        return {
            "number": "a finite number",
            "flag": "true or false",
            "order": f"one of {', '.join(self.words[:8])}",
            "words": "a word",
            "date": f"a date such as {self.origin if self.format is None else readable(self.format)}",
        }[self.kind]


def is_gap(value: Any) -> bool:
    """Whether nothing stands there."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def as_word(value: Any) -> str:
    """A value as a word: 2 and 2.0 are the word 2, as another file may write it."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return (str(value).lower() if isinstance(value, bool) else str(value)).strip()


def days_of(value: Any, format: str | None) -> float:
    """Days since 1970-01-01 of a date or its text; NaN where it is none. Without a zone, time is taken for UTC."""
    try:
        if isinstance(value, str):
            text = value.strip()
            value = datetime.fromisoformat(text) if format is None else datetime.strptime(text, format)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        elif not isinstance(value, datetime):
            return math.nan
    except ValueError:
        return math.nan
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() / SECONDS


def readable(format: str) -> str:
    """`%d.%m.%Y` as `day.month.year`."""
    for code, part in (("%Y", "year"), ("%m", "month"), ("%d", "day"), ("%H:%M:%S", "time"), ("%H:%M", "time")):
        format = format.replace(code, part)
    return format


def _as_number(value: Any) -> float:
    # true is no number here, although Python would take it for 1
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return math.nan
    return float(value)


def _as_flag(value: Any) -> float:
    word = as_word(value).lower()
    return 1.0 if word in TRUE else 0.0 if word in FALSE else math.nan
