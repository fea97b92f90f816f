"""`.plot()`: pictures with matplotlib, on axes of one's own or on new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes

if TYPE_CHECKING:
    from statewise.data.dataset import Dataset
    from statewise.learning.fit import Result
    from statewise.ope.certify import Certificate

BLUE, GREEN, RED, GREY = "#2f7fd1", "#1f9d5b", "#d5483f", "#808790"


def _axes(ax: Axes | None) -> Axes:
    return pyplot.subplots(figsize=(6, 3.6), layout="constrained")[1] if ax is None else ax


def certificate(one: Certificate, ax: Axes | None = None) -> Axes:
    """The gain of every tested step over today, and the least that is certain."""
    ax = _axes(ax)
    tried = [step for step in one.tried if step.identified]
    for step in tried:
        colour = GREEN if step.passed else RED
        ax.plot([step.step, step.step], [step.low, step.decision.difference], color=colour, alpha=0.5)
        ax.plot(step.step, step.decision.difference, "o", color=colour)
        ax.plot(step.step, step.low, "_", color=colour, markersize=10)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(xlim=(-0.03, 1.03), xlabel="of the way from today to the goal", ylabel="gain over today", title=one.answer)
    return ax


def improvement(one: Any, ax: Axes | None = None) -> Axes:
    """Its certificate."""
    return certificate(one.certificate, ax)


def result(one: Result, metric: str = "value", ax: Axes | None = None) -> Axes:
    """A metric of every seed while it learned."""
    if metric not in one.metrics:
        raise ValueError(f"metric: expected one of {', '.join(one.metrics)}, got {metric!r}")
    ax = _axes(ax)
    for seed, values in zip(one.seeds, np.asarray(one.metrics[metric], dtype=float), strict=True):
        ax.plot(np.arange(1, len(values) + 1), values, label=f"seed {seed}")
    ax.set(xlabel="update", ylabel=metric, title=type(one.config).__name__)
    if len(one.seeds) > 1:
        ax.legend()
    return ax


def dataset(log: Dataset, ax: Axes | None = None) -> Axes:
    """The returns of all episodes."""
    ax = _axes(ax)
    ax.hist(log.returns(), bins=min(40, max(5, log.episodes // 10)), color=BLUE)
    ax.set(xlabel="return of an episode", ylabel="episodes")
    return ax
