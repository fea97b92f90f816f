"""The report's figures, one function each, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from statewise.report.content import ActionMap, Calibration, Checkpoint, Curve, Histogram, PathStep, Place, Worth
from statewise.report.drawing import ACCENT, CARD, CATEGORY, CURRENT, GOOD, INK, LINE, MUTED, SIZE, svg_of

POINTS = 200  # per curve; more could not be seen


def worths(items: Sequence[Worth], value_name: str) -> str:
    """Each policy's value and interval on one scale, with current practice as a band."""

    def draw(axes: Axes) -> None:
        current = next((item for item in items if item.role == "current" and item.low is not None), None)
        if current is not None and current.low is not None and current.high is not None:
            axes.axvspan(current.low, current.high, color=CURRENT, alpha=0.15, linewidth=0)
        for row, item in enumerate(items):
            colour = {"current": CURRENT, "chosen": ACCENT}.get(item.role, MUTED)
            if item.value is None:
                box = {"facecolor": CARD, "edgecolor": "none", "pad": 2}
                across = axes.get_yaxis_transform()
                axes.text(0.03, row, "not identified", transform=across, va="center", color=MUTED, bbox=box)
                continue
            if item.low is not None and item.high is not None:
                axes.plot([item.low, item.high], [row, row], color=colour, linewidth=3, solid_capstyle="round")
            inside = CARD if item.verdict == "weak" else colour
            axes.plot(item.value, row, "o", color=colour, markerfacecolor=inside, markeredgewidth=2, markersize=8)
        axes.set_yticks(range(len(items)), [_short(item.name) for item in items])
        for label, item in zip(axes.get_yticklabels(), items, strict=True):
            label.set_color(MUTED if item.role == "other" else INK)
        axes.set_ylim(len(items) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(value_name)

    return svg_of("worths", draw, (SIZE[0], 0.8 + 0.42 * len(items)))


def path(items: Sequence[PathStep]) -> str:
    """The gain of each step from today to the goal, the least that is certain, and where the log ends."""

    def draw(axes: Axes) -> None:
        axes.axhline(0, color=CURRENT, linewidth=1.5, linestyle="--")
        known = [(item, item.gain, item.low) for item in items if item.gain is not None and item.low is not None]
        steps = [0.0, *(item.step for item, _, _ in known)]
        gains, lows = [0.0, *(gain for _, gain, _ in known)], [0.0, *(low for _, _, low in known)]
        axes.plot(steps, gains, "-", color=ACCENT, linewidth=1.6)
        axes.fill_between(steps, lows, gains, color=ACCENT, alpha=0.15, linewidth=0)
        for item, gain, low in known:
            inside = ACCENT if item.passed else CARD
            whole: dict[str, Any] = {"clip_on": False, "zorder": 3}  # also at 100 %
            axes.plot(item.step, gain, "o", color=ACCENT, markerfacecolor=inside, markersize=5, **whole)
            axes.plot(item.step, low, "_", color=ACCENT, markersize=9, markeredgewidth=2, **whole)
            if item.deployed:
                circle = {"markersize": 11, "markerfacecolor": "none", "markeredgewidth": 2}
                axes.plot(item.step, low, "o", color=GOOD, **circle, **whole)
        last = max((item.step for item in items if item.passed), default=0.0)
        if last < 1:
            axes.axvspan(last, 1, color=LINE, alpha=0.35, linewidth=0)
            place = {"transform": axes.get_xaxis_transform(), "ha": "right", "va": "top"}
            axes.text(0.98, 0.96, "not certified", color=MUTED, fontsize=9, **place)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlabel("of the way from today to the goal")
        axes.set_ylabel("gain over today")

    return svg_of("path", draw)


def checkpoints(items: Sequence[Checkpoint], chosen: Place | None, current: Worth | None) -> str:
    """Value on the choosing episodes against updates, one line per run and seed."""

    def draw(axes: Axes) -> None:
        if current is not None and current.value is not None:
            axes.axhline(current.value, color=CURRENT, linewidth=1.5, linestyle="--")
        for run, seed in sorted({(item.run, item.seed) for item in items}):
            line = sorted(
                (item for item in items if (item.run, item.seed) == (run, seed)), key=lambda item: item.update
            )
            ours = chosen is not None and (run, seed) == (chosen.run, chosen.seed)
            updates = np.array([item.update for item in line])
            # a value that is not identified leaves a gap
            low, value, high = (_numbers(line, name) for name in ("low", "value", "high"))
            axes.plot(updates, value, "o-", color=ACCENT if ours else MUTED, markersize=3, alpha=1 if ours else 0.5)
            if ours and chosen is not None:
                axes.fill_between(updates, low, high, color=ACCENT, alpha=0.15, linewidth=0)
                _mark(axes, chosen.update, value[updates == chosen.update])
        _updates(axes)

    return svg_of("checkpoints", draw)


def curves(items: Sequence[Curve], chosen: Place | None, percent: bool = False) -> str:
    """One metric during learning, one line per run and seed; the chosen checkpoint is marked."""

    def draw(axes: Axes) -> None:
        for curve in items:
            ours = chosen is not None and (curve.run, curve.seed) == (chosen.run, chosen.seed)
            shown = ours or chosen is None
            updates, values = _thinned(curve)
            axes.plot(updates, values, color=ACCENT if shown else MUTED, linewidth=1.4, alpha=1 if shown else 0.5)
            if ours and chosen is not None:
                _mark(axes, chosen.update, np.interp([chosen.update], updates, values))
        if percent:
            axes.set_ylim(0, 1.02)
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        elif min(min(curve.values) for curve in items) >= 0:
            axes.set_ylim(bottom=0)
        _updates(axes)

    return svg_of(f"curves {items[0].metric}", draw)


def overlap(histogram: Histogram) -> str:
    """How much more or less often the new policy takes the logged actions."""

    def draw(axes: Axes) -> None:
        edges = np.asarray(histogram.edges)
        axes.stairs(histogram.shares, edges, fill=True, color=ACCENT, alpha=0.75)
        axes.axvline(1, color=CURRENT, linewidth=1.5, linestyle="--")
        if edges[0] > 0 and edges[-1] / edges[0] > 50:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set_xlabel("new probability ÷ logged probability")
        axes.set_ylabel("decisions")

    return svg_of("overlap", draw)


def tail(shares: Sequence[float]) -> str:
    """Cumulative share of the weight over the episodes, heaviest first."""

    def draw(axes: Axes) -> None:
        ordered = np.sort(np.asarray(shares))[::-1]
        together = np.concatenate([[0], np.cumsum(ordered) / ordered.sum()])
        episodes = np.linspace(0, 1, len(together))
        axes.plot(episodes, episodes, color=CURRENT, linewidth=1.5, linestyle="--")
        axes.plot(episodes, together, color=ACCENT, linewidth=2)
        axes.fill_between(episodes, episodes, together, color=ACCENT, alpha=0.12, linewidth=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="episodes, heaviest first", ylabel="share of the weight")

    return svg_of("tail", draw)


def changes(edges: Sequence[float], shares: Sequence[float]) -> str:
    """How the expected change is spread over the episodes; losses in another colour."""

    def draw(axes: Axes) -> None:
        for left, right, share in zip(edges[:-1], edges[1:], shares, strict=True):
            loss = (left + right) / 2 < 0
            axes.bar((left + right) / 2, share, right - left, color=CURRENT if loss else ACCENT, alpha=0.8)
        axes.axvline(0, color=CURRENT, linewidth=1.5, linestyle="--")
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set(xlabel="expected gain over today", ylabel="episodes")

    return svg_of("changes", draw)


def calibration(points: Calibration) -> str:
    """Predicted propensities against how often the action was taken; on the diagonal they are right."""

    def draw(axes: Axes) -> None:
        sizes = np.asarray(points.counts, dtype=float)
        axes.plot([0, 1], [0, 1], color=CURRENT, linewidth=1.5, linestyle="--")
        axes.plot(points.predicted, points.observed, color=ACCENT, linewidth=1.2)
        axes.scatter(points.predicted, points.observed, s=12 + 60 * sizes / max(sizes.max(), 1), color=ACCENT, zorder=3)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="estimated propensity", ylabel="actually taken")

    return svg_of("calibration", draw)


def action_map(content: ActionMap, which: str) -> str:
    """The map of logged or of proposed actions; `which` is the name of the field."""
    colours = action_colours(content)

    def draw(axes: Axes) -> None:
        for row, cells in enumerate(getattr(content, which)):
            for column, action in enumerate(cells):
                if action is not None:
                    x, y = content.x_edges[column], content.y_edges[row]
                    size = content.x_edges[column + 1] - x, content.y_edges[row + 1] - y
                    axes.add_patch(Rectangle((x, y), *size, facecolor=colours[action], edgecolor="none"))
        axes.set(xlim=_ends(content.x_edges), ylim=_ends(content.y_edges), xlabel=_short(content.x))
        axes.set_ylabel(_short(content.y))
        axes.grid(visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        if not content.y:
            axes.set_yticks([])

    return svg_of(f"map {which}", draw, SIZE if content.y else (SIZE[0], 1.3))


def action_colours(content: ActionMap) -> list[str]:
    """A colour for each action: its own for the most frequent ones on the maps, grey for the rest."""
    flat = [action for grid in (content.logged, content.proposed) for row in grid for action in row]
    counts = [flat.count(action) for action in range(len(content.actions))]
    own = sorted(sorted(range(len(counts)), key=lambda action: -counts[action])[: len(CATEGORY)])
    return [CATEGORY[own.index(action)] if action in own else LINE for action in range(len(counts))]


def _mark(axes: Axes, update: int, value: np.ndarray) -> None:
    axes.axvline(update, color=GOOD, linewidth=1, linestyle=":")
    axes.plot([update] * len(value), value, "o", color=GOOD, markersize=9, markerfacecolor="none", markeredgewidth=2)


def _numbers(items: Sequence[Checkpoint], name: str) -> np.ndarray:
    return np.array([getattr(item, name) for item in items], dtype=float)


def _updates(axes: Axes) -> None:
    axes.set_xlabel("updates of the policy")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def _thinned(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """Means over equal stretches, if there are more values than can be seen."""
    updates, values = np.asarray(curve.updates, dtype=float), np.asarray(curve.values, dtype=float)
    if len(values) <= POINTS:
        return updates, values
    stretches = np.array_split(np.arange(len(values)), POINTS)
    return np.array([updates[part].mean() for part in stretches]), np.array([values[part].mean() for part in stretches])


def _ends(edges: Sequence[float]) -> tuple[float, float]:
    return edges[0], edges[-1]


def _short(name: str, length: int = 26) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
