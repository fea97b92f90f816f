"""Features back in the words of the log: the columns that they came from, their raw values, conditions on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from jaxtyping import Bool, Float

from statewise.data.dataset import Dataset
from statewise.data.encoding import MISSING, OTHER, Code

Bounds = tuple[float, float]  # above, and up to
ANY: Bounds = (-np.inf, np.inf)


@dataclass(frozen=True)
class Column:
    """A column of the log, and the features that it became."""

    code: Code
    first: int  # the place of its first feature

    @property
    def name(self) -> str:
        return self.code.name

    @property
    def features(self) -> tuple[int, ...]:
        return tuple(range(self.first, self.first + len(self.code.features)))

    @property
    def has_words(self) -> bool:
        """Whether its values are a few words, rather than numbers."""
        return self.code.kind in ("words", "order", "flag")

    def values(self, observations: Float[np.ndarray, "n features"]) -> list[str]:
        """The raw values, as the log would write them."""
        own = observations[:, self.first : self.first + len(self.code.features)]
        return [self._value(row) for row in own]

    def missing(self, observations: Float[np.ndarray, "n features"]) -> Bool[np.ndarray, " n"]:
        """Where the log has a gap."""
        if not self.code.gaps:
            return np.zeros(len(observations), bool)
        return np.asarray(observations[:, self.features[-1]] == 1)

    def _value(self, own: np.ndarray) -> str:
        if self.code.kind == "words":
            words = [feature.removeprefix(f"{self.name}=") for feature in self.code.features]
            return words[int(own.argmax())] if own.any() else OTHER
        return MISSING if self.code.gaps and own[1] == 1 else self.number(float(own[0]))

    def number(self, value: float) -> str:
        """A value of its first feature."""
        if self.code.kind == "flag":
            return "true" if value > 0.5 else "false"
        if self.code.kind == "order":
            return self.code.words[int(np.clip(round(value), 0, len(self.code.words) - 1))]
        if self.code.kind == "date":
            assert self.code.origin is not None
            return (date.fromisoformat(self.code.origin) + timedelta(days=float(np.floor(value)))).isoformat()
        return shown(value)

    def condition(self, bounds: Mapping[int, Bounds]) -> str:
        """What bounds on its features say; "" where they say nothing.

        >>> Column(Code("age"), 0).condition({0: (30.0, 61.0)})
        '30 < age ≤ 61'
        >>> Column(Code("ward", "words", ("A", "B", "C")), 0).condition({0: (-np.inf, 0.5), 1: (0.5, np.inf)})
        'ward is B'
        """
        own = {j - self.first: bounds[j] for j in self.features if bounds.get(j, ANY) != ANY}
        if self.code.kind == "words":
            return self._of_words(own)
        if own.get(1, ANY)[0] >= 0:  # the mark of a gap is 1
            return f"{self.name} is {MISSING}"
        known = f"{self.name} is known" if 1 in own else ""
        return self._of_numbers(*own[0]) if 0 in own else known

    def _of_words(self, own: Mapping[int, Bounds]) -> str:
        words = [feature.removeprefix(f"{self.name}=") for feature in self.code.features]
        is_one = [words[j] for j, (low, _) in own.items() if low >= 0]
        if is_one:
            return f"{self.name} is {is_one[0]}"
        is_not = [words[j] for j in own]
        left = [word for word in words if word not in is_not]
        if is_not and len(left) <= len(is_not) and left:
            return f"{self.name} is {_either(left)}"
        return f"{self.name} is not {_either(is_not)}" if is_not else ""

    def _of_numbers(self, low: float, high: float) -> str:
        kind, name = self.code.kind, self.name
        if kind in ("flag", "order"):
            words = ("false", "true") if kind == "flag" else self.code.words
            return f"{name} is {_either([word for place, word in enumerate(words) if low < place <= high])}"
        if kind == "date":
            since = f"{name} after {self.number(low)}" if np.isfinite(low) else ""
            until = f"{name} up to {self.number(high)}" if np.isfinite(high) else ""
            return " and ".join(filter(None, (since, until)))
        if not np.isfinite(high):
            return f"{name} > {shown(low)}"
        above = f"{shown(low)} < " if np.isfinite(low) else ""
        return f"{above}{name} ≤ {shown(high)}"


def columns_of(dataset: Dataset) -> tuple[Column, ...]:
    """The columns that a log's features came from, in order."""
    schema = dataset.schema
    codes = tuple(Code(name) for name in dataset.observation_names)
    if schema is not None and schema.features == dataset.observation_names:
        codes = schema.codes
    firsts = np.cumsum([0, *(len(code.features) for code in codes)]).tolist()
    return tuple(Column(code, first) for code, first in zip(codes, firsts, strict=False))


def shown(value: float) -> str:
    """Three digits or all before the point, with a true minus sign."""
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", "−")


def rounded(value: float) -> float:
    """The number that `shown` shows."""
    return float(shown(value).replace("−", "-").replace(",", ""))


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else "nothing known"
