"""The figures of what logs certify, a panel for each kind of log."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from statewise.experiments.canvas import COLOURS, GREY, panels, spans_decades
from statewise.experiments.study import Study


def of_logs(study: Study, runs: pl.DataFrame) -> Figure:
    """Of each log: today, what was certified at least, what was deployed, and the goal."""
    cells = [cell for cell in study.cells if len(runs.filter(cell=cell.name))]
    columns = min(2, len(cells))
    figure, axes = panels(-(-len(cells) // columns), columns, height=2.6)
    for axis, cell in zip(axes.flat, cells, strict=False):
        own = runs.filter(cell=cell.name).sort("dataset")
        numbers = np.arange(1, len(own) + 1)
        deployed = own["low"].is_not_null().to_numpy()
        today, value, goal, low = (own[name].to_numpy() for name in ("today", "value", "goal", "low"))
        axis.plot(numbers, goal, "x", color=GREY, markersize=4, label="the goal, in truth")
        axis.plot(numbers, today, "_", color=COLOURS[1], markersize=7, label="today")
        axis.vlines(numbers[deployed], today[deployed], value[deployed], color=COLOURS[0], linewidth=0.6)
        axis.plot(numbers[deployed], value[deployed], "o", color=COLOURS[0], markersize=4, label="deployed, in truth")
        axis.plot(
            numbers[deployed], (today + low)[deployed], "_", color=COLOURS[2], markersize=7, markeredgewidth=2,
            label="certified at least",
        )  # fmt: skip
        if spans_decades(np.concatenate([today, value])):
            axis.set_yscale("log")
        axis.set(title=cell.name, xlabel="log")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in axes.flat[len(cells) :]:
        axis.set_axis_off()
    figure.supylabel(study.unit, fontsize=9)
    _legend(figure, axes)
    return figure


def of_rounds(study: Study, runs: pl.DataFrame) -> Figure:
    """What is done is worth after each round, a line for each run; 0 is before the first."""
    cells = [cell for cell in study.cells if len(runs.filter(cell=cell.name))]
    figure, axes = panels(1, len(cells))
    for axis, cell in zip(axes[0], cells, strict=True):
        own = runs.filter(cell=cell.name)
        for run in own.partition_by("dataset", maintain_order=True):
            run = run.sort("round")
            values = [run["today"][0], *run["value"]]
            axis.plot(
                [0, *run["round"]], values, "o-", color=COLOURS[0], markersize=3, linewidth=0.8, alpha=0.7,
                label="what is done, in truth",
            )  # fmt: skip
            steps = run.filter("deployed")
            axis.plot(
                steps["round"], steps["today"] + steps["low"], "_", color=COLOURS[2], markersize=7, markeredgewidth=1.5,
                label="certified at least",
            )  # fmt: skip
        if spans_decades(np.concatenate([own["today"].to_numpy(), own["value"].to_numpy()])):
            axis.set_yscale("log")
        axis.set(title=f"{cell.name}, {cell.episodes:,} episodes a round", xlabel="rounds", ylabel=study.unit)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(figure, axes)
    return figure


def _legend(figure: Figure, axes: np.ndarray) -> None:
    """One for all panels, each label once."""
    shown = {}
    for axis in axes.flat:
        shown |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
