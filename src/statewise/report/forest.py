"""Gains with their intervals on one scale: a table, not a picture, so that it can be read aloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statewise.ope.subgroups import GroupGain

BEYOND = 1.0  # times the span of the gains and 0: bars that reach further are cut off, and say so


@dataclass(frozen=True)
class Bar:
    """One group, and where its gain and the ends of its interval stand, in percent of the width."""

    group: GroupGain
    low: float
    at: float
    high: float
    cut: str  # CSS classes of ends that lie beyond the scale


@dataclass(frozen=True)
class Forest:
    """The groups below one another, with the place of 0."""

    bars: tuple[Bar, ...]
    zero: float


def forest(groups: Sequence[GroupGain]) -> Forest | None:
    """All groups on one scale, which shows 0 and every gain; None where there are none."""
    if not groups:
        return None
    gains = [0.0, *(group.gain for group in groups)]
    span = max(max(gains) - min(gains), 1e-12)
    left = max(min(gains) - BEYOND * span, min(0.0, *(group.low for group in groups)))
    right = min(max(gains) + BEYOND * span, max(0.0, *(group.high for group in groups)))
    margin = 0.03 * max(right - left, span)
    left, right = left - margin, right + margin

    def place(value: float) -> float:
        return round(100 * (min(max(value, left), right) - left) / (right - left), 2)

    bars = []
    for group in groups:
        ends = ("cut-low" if group.low < left else "", "cut-high" if group.high > right else "")
        bars.append(Bar(group, place(group.low), place(group.gain), place(group.high), " ".join(filter(None, ends))))
    return Forest(tuple(bars), place(0.0))
