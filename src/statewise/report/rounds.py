"""The figure of simulated rounds: what was done, what was certified, and what it was worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from statewise.base.files import written_whole

TRUTH, CERTIFIED, GOAL = "#1f5fa8", "#17733f", "#8a8a8a"


def write_rounds(rounds: Sequence[Any], path: str | Path, scale: float = 1.0) -> Path:
    """Draws the rounds as SVG; `scale` turns a learner's rewards into the world's own."""
    figure = Figure((5.2, 3.2), layout="constrained")
    axes = figure.add_subplot()
    numbers = [0, *(one.number for one in rounds)]
    axes.plot(
        numbers,
        [scale * rounds[0].today, *(scale * one.value for one in rounds)],
        "o-",
        color=TRUTH,
        label="what is done, in truth",
    )
    deployed = [one for one in rounds if one.deployed]
    lows = [scale * (one.today + one.gain_at_least) for one in deployed]
    axes.plot(
        [one.number for one in deployed],
        lows,
        "_",
        color=CERTIFIED,
        markersize=14,
        markeredgewidth=2,
        label="certified at least",
    )
    axes.plot(
        [one.number for one in rounds],
        [scale * one.goal for one in rounds],
        ":",
        color=GOAL,
        label="the goal, in truth",
    )
    axes.set_xlabel("rounds")
    axes.set_ylabel("return")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    path = Path(path)
    with written_whole(path) as part:
        figure.savefig(part, format="svg", metadata={"Date": None, "Creator": None})
    return path
