"""Small pictures as inline SVG, drawn without any library: for notebooks, and for pages that show a few intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, log10

# a page's own colours where it has some, and otherwise such as can be read on light and on dark
TONES = {
    "accent": "var(--accent, #2f7fd1)",
    "current": "var(--current, #c77d0a)",
    "good": "var(--good, #1f9d5b)",
    "doubtful": "var(--doubtful, #b98309)",
    "bad": "var(--bad, #d5483f)",
    "muted": "var(--muted, #808790)",
}
WIDTH, LABELS, ROW, PAD = 440, 160, 30, 12
FONT = 'font-size="13" font-family="inherit"'


@dataclass(frozen=True)
class Interval:
    """A row of the picture: a dot and its interval; where there is no value, a sentence."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    tone: str = "accent"
    instead: str = "not identified"


def intervals(rows: Sequence[Interval], alt: str, zero: bool = False) -> str:
    """One row below the other over one axis; `zero`: with a line at 0."""
    known = [end for row in rows for end in (row.value, row.low, row.high) if end is not None and isfinite(end)]
    low, high = _span(known + [0.0] * zero)
    ticks = _ticks(low, high)
    height = PAD + ROW * len(rows) + 26

    def x(value: float) -> float:
        return LABELS + PAD + (WIDTH - LABELS - 3 * PAD) * (min(max(value, low), high) - low) / (high - low)

    parts = [
        f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{PAD}" y2="{height - 24}" stroke="currentColor" '
        f'stroke-opacity="{0.45 if zero and tick == 0 else 0.15}"/>'
        f'<text x="{x(tick):.1f}" y="{height - 7}" text-anchor="middle" {FONT} fill="{TONES["muted"]}">{tick:g}</text>'
        for tick in ticks
    ]
    for i, row in enumerate(rows):
        y, colour, muted = PAD + ROW * i + ROW / 2, TONES[row.tone], TONES["muted"]
        parts.append(f'<text x="0" y="{y + 4.5:.1f}" {FONT} fill="currentColor">{escape(_short(row.label))}</text>')
        if row.value is None or not isfinite(row.value):
            parts.append(
                f'<text x="{LABELS + PAD}" y="{y + 4.5:.1f}" {FONT} fill="{muted}">{escape(row.instead)}</text>'
            )
            continue
        left, right = (x(row.value if end is None else end) for end in (row.low, row.high))
        line = f'stroke="{colour}" stroke-width="3" stroke-linecap="round"'
        parts.append(f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}" {line} stroke-opacity="0.55"/>')
        parts.append(f'<circle cx="{x(row.value):.1f}" cy="{y:.1f}" r="5.5" fill="{colour}"/>')
    return _svg(parts, WIDTH, height, alt)


def bars(rows: Sequence[tuple[str, float]], alt: str, tone: str = "accent") -> str:
    """Shares of a whole, one bar below the other."""
    most = max((share for _, share in rows), default=1.0) or 1.0
    parts = []
    for i, (label, share) in enumerate(rows):
        y = PAD + 24 * i
        length = (WIDTH - LABELS - 80) * share / most
        parts.append(f'<text x="0" y="{y + 13}" {FONT} fill="currentColor">{escape(_short(label))}</text>')
        parts.append(f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="16" rx="3" fill="{TONES[tone]}"/>')
        place = LABELS + length + 8
        parts.append(f'<text x="{place:.1f}" y="{y + 13}" {FONT} fill="{TONES["muted"]}">{100 * share:.3g} %</text>')
    return _svg(parts, WIDTH, PAD + 24 * len(rows) + 4, alt)


def _svg(parts: Sequence[str], width: int, height: int, alt: str) -> str:
    return (
        f'<svg role="img" aria-label="{escape(alt)}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" '
        f'style="display:block;width:100%;max-width:{width}px;height:auto">{"".join(parts)}</svg>'
    )


def _span(known: Sequence[float]) -> tuple[float, float]:
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    room = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers between the two."""
    step = 10.0 ** floor(log10((high - low) / 3))
    step *= next(factor for factor in (5, 2.5, 2, 1) if (high - low) / (step * factor) >= 2.5)
    first, last = floor(low / step) + 1, floor(high / step)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _gutter(ticks: Sequence[float]) -> int:
    """The room that the numbers beside an axis take."""
    return 14 + 8 * max((len(f"{tick:g}") for tick in ticks), default=0)


def _short(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"


@dataclass(frozen=True)
class Dot:
    """A point of the path: where it lies between today and the goal, what it gains, and at least how much."""

    step: float
    gain: float
    low: float
    tone: str


def path(dots: Sequence[Dot], alt: str) -> str:
    """The gain over today along the way to the goal: dots, and below each the least that is certain."""
    height = 190
    low, high = _span([end for dot in dots for end in (dot.gain, dot.low) if isfinite(end)] + [0.0])
    left = _gutter(_ticks(low, high))

    def x(step: float) -> float:
        return left + PAD + (WIDTH - left - 3 * PAD) * step

    def y(value: float) -> float:
        return PAD + (height - 40 - PAD) * (high - min(max(value, low), high)) / (high - low)

    parts = [
        f'<line x1="{left}" x2="{WIDTH}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="currentColor" '
        f'stroke-opacity="{0.5 if tick == 0 else 0.13}"/>'
        f'<text x="{left - 6}" y="{y(tick) + 4.5:.1f}" text-anchor="end" {FONT} fill="{TONES["muted"]}">{tick:g}</text>'
        for tick in _ticks(low, high)
    ]
    for step, word in ((0.0, "today"), (1.0, "the goal")):
        anchor = "start" if step == 0 else "end"
        place = left if step == 0 else WIDTH
        parts.append(
            f'<text x="{place}" y="{height - 6}" text-anchor="{anchor}" {FONT} fill="currentColor">{word}</text>'
        )
    for dot in dots:
        at, colour = x(dot.step), TONES[dot.tone]
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y(dot.gain):.1f}" y2="{y(dot.low):.1f}" stroke="{colour}" '
            f'stroke-opacity="0.5" stroke-width="2"/>'
            f'<line x1="{at - 5:.1f}" x2="{at + 5:.1f}" y1="{y(dot.low):.1f}" y2="{y(dot.low):.1f}" stroke="{colour}" '
            f'stroke-width="2.5"/><circle cx="{at:.1f}" cy="{y(dot.gain):.1f}" r="5" fill="{colour}"/>'
        )
    return _svg(parts, WIDTH, height, alt)


def lines(curves: Sequence[Sequence[float]], alt: str, tone: str = "accent") -> str:
    """Curves over the same updates, from left to right."""
    height = 150
    low, high = _span([value for curve in curves for value in curve if isfinite(value)])
    left = _gutter(_ticks(low, high))

    def place(i: int, value: float, count: int) -> str:
        across = left + (WIDTH - left - PAD) * i / max(1, count - 1)
        return f"{across:.1f},{PAD + (height - 2 * PAD) * (high - value) / (high - low):.1f}"

    parts = [
        f'<line x1="{left}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" stroke-opacity="0.13"/>'
        f'<text x="{left - 6}" y="{y + 4.5:.1f}" text-anchor="end" {FONT} fill="{TONES["muted"]}">{tick:g}</text>'
        for tick in _ticks(low, high)
        for y in [PAD + (height - 2 * PAD) * (high - tick) / (high - low)]
    ]
    for curve in curves:
        points = " ".join(place(i, value, len(curve)) for i, value in enumerate(curve) if isfinite(value))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{TONES[tone]}" stroke-width="2"/>')
    return _svg(parts, WIDTH, height, alt)
