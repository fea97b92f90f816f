"""Which values a setting may have. Settings of one name mean the same in every algorithm, and so have one range."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from statewise.base.decode import LARGEST, DecodeError


class Range(NamedTuple):
    """From `least` to `most`; `above`: without `least` itself."""

    least: int | float
    most: int | float = math.inf
    above: bool = False

    def __str__(self) -> str:
        if self.above:
            return f"a number above {self.least:g}" + ("" if self.most == math.inf else f", at most {self.most:g}")
        return f"{self.least:g} or more" if self.most == math.inf else f"{self.least:g} to {self.most:,.10g}"

    def holds(self, value: int | float) -> bool:
        return abs(value) <= LARGEST and self.least <= value <= self.most and not (self.above and value == self.least)


NOT_NEGATIVE, POSITIVE, SHARE, PART = Range(0), Range(0, above=True), Range(0, 1), Range(0, 1, above=True)
COUNT, STEPS, UNITS = Range(1, 1e9), Range(0, 1e9), Range(1, 65_536)
RANGES = {
    **dict.fromkeys(
        ("learning_rate", "clone_rate", "weight_decay", "entropy", "weight", "spread", "noise"), NOT_NEGATIVE
    ),
    "sure_steps": POSITIVE,
    "counterfactual": SHARE,
    "sure_entropy": NOT_NEGATIVE,
    **dict.fromkeys(("terminal_weight", "conservatism", "truncation", "trust", "regularisation"), NOT_NEGATIVE),
    **dict.fromkeys(("clip", "bandwidth", "temperature", "start"), POSITIVE),
    **dict.fromkeys(
        ("trace", "epsilon", "share", "smallest", "smoothing", "least_share", "ahead_share", "carry"), SHARE
    ),
    **dict.fromkeys(("discount", "value_discount", "target_rate", "average_rate"), PART),
    **dict.fromkeys(("batch", "clone_batch", "members", "updates", "horizon", "trees", "leaf", "rows"), COUNT),
    **dict.fromkeys(("steps", "warm_steps", "clone_steps"), STEPS),
    **dict.fromkeys(("hidden", "rank", "timed_rank", "knots"), UNITS),
    "features": Range(0, 65_536),
}


def check_ranges(settings: Any, where: str = "") -> None:
    """Refuses a setting that is out of its range, by its name; settings of other names are not looked at.

    >>> check_ranges(Actor(learning_rate=-1.0))  # doctest: +SKIP
    Traceback (most recent call last):
    statewise.base.decode.DecodeError: learning_rate: expected 0 or more, got -1
    """
    for each in fields(settings):
        value, name = getattr(settings, each.name), f"{where}.{each.name}" if where else each.name
        if is_dataclass(value):
            check_ranges(value, name)
        elif each.name in RANGES:
            for number in value if isinstance(value, tuple) else (value,):
                _check(number, RANGES[each.name], name)


def _check(value: Any, allowed: Range, name: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not allowed.holds(value):
        raise DecodeError(f"{name}: expected {allowed}, got {value!r}")
