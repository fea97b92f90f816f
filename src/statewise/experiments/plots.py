"""A study's figure, as PNG and SVG: curves, differences, a scatter plot, gradients, or what logs certify."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from statewise.base.files import written_whole
from statewise.experiments.canvas import COLOURS, LINES, SETTINGS, panels, spans_decades
from statewise.experiments.certified.figures import of_logs, of_rounds
from statewise.experiments.study import Method, Study
from statewise.experiments.tables import Tables

PANELS = ("default preset", "options", "paper preset")
APART = 0.3  # rows between the pairs of one cell


def write_figure(study: Study, tables: Tables, out: Path) -> list[Path]:
    """Draws the study's figure; returns the files it wrote."""
    draw: dict[str, Callable[[Study, Tables], Figure]] = {
        "exact": _exact,
        "curves": _curves,
        "cells": _differences,
        "selection": _scatter,
        "safe": _shares,
        "certified": lambda study, tables: of_logs(study, tables.frames["runs"]),
        "rounds": lambda study, tables: of_rounds(study, tables.frames["runs"]),
    }
    with mpl.rc_context(SETTINGS):
        figure = draw[study.kind](study, tables)
        if study.quick:
            size = f"{len(study.datasets)} datasets, {study.most_updates} updates at most"
            figure.suptitle(f"QUICK RUN, not a result: {size}", color="#B00020", fontsize=9)
        paths = [out / f"figure.{kind}" for kind in ("png", "svg")]
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            with written_whole(path) as part:
                figure.savefig(part, format=path.suffix[1:], dpi=150, metadata=metadata)
    return paths


def _colours(study: Study) -> dict[str, str]:
    """A method and its variants share a colour; panel and line style show the preset or option."""
    roots = list(dict.fromkeys(_root(method.name) for method in study.methods))
    return {method.name: COLOURS[roots.index(_root(method.name)) % len(COLOURS)] for method in study.methods}


def _root(name: str) -> str:
    return name.split(" (")[0].split(",")[0]


def _curves(study: Study, tables: Tables) -> Figure:
    """Mean and standard deviation over datasets at each checkpoint; a row per cell, a column per preset or options."""
    runs, summary = tables.frames["runs"], tables.frames["summary"]
    methods_run = set(runs["method"])
    columns = {name: [m for m in study.methods if m.name in methods_run and _column(m) == name] for name in PANELS}
    columns = {name: methods for name, methods in columns.items() if methods}
    figure, axes = panels(len(study.cells), len(columns))
    colours = _colours(study)
    for row, cell in enumerate(study.cells):
        behaviour = summary.filter(pl.col("cell") == cell.name)["behaviour"]
        for axis, (panel, methods) in zip(axes[row], columns.items(), strict=True):
            names = [method.name for method in methods]
            mine = runs.filter(pl.col("cell") == cell.name, pl.col("method").is_in(names))
            styles = _styles(names)
            for name in names:
                curve = mine.filter(pl.col("method") == name)
                if len(curve):
                    _curve(axis, name, curve, colours[name], styles[name], mine["update"].max())
            if len(behaviour):
                axis.axhline(behaviour[0], color="#888888", linestyle=(0, (1, 3)), label="behaviour")
            if spans_decades(mine["score"].drop_nans().to_numpy()):
                axis.set_yscale("log")
            axis.set(title=f"{cell.name}, {panel}", xlabel="updates of the policy", ylabel=study.unit)
            axis.legend(fontsize=7, frameon=True, framealpha=0.8, edgecolor="none")
    return figure


def _column(method: Method) -> str:
    """Variants of a preset get a panel of their own: ten curves in one would be unreadable."""
    return f"{method.group} preset" if "," not in method.name else "options"


def _styles(names: list[str]) -> dict[str, Any]:
    """A line style for each option, the same for every method that has it."""
    options = list(dict.fromkeys(name.partition(", ")[2] for name in names))
    return {name: LINES[options.index(name.partition(", ")[2]) % len(LINES)] for name in names}


def _curve(axis: Axes, name: str, curve: pl.DataFrame, colour: str, style: Any, longest: Any) -> None:
    score = pl.col("score")
    by_update = curve.group_by("update").agg(mean=score.mean(), deviation=score.std(), least=score.min()).sort("update")
    updates, mean, least = (by_update[column].to_numpy() for column in ("update", "mean", "least"))
    deviation = by_update["deviation"].fill_null(0.0).to_numpy()
    axis.plot(updates, mean, color=colour, linestyle=style, label=name)
    # no lower than the worst run: where runs fall into two groups, none may be as low as mean − deviation
    below = np.maximum(mean - deviation, least)
    axis.fill_between(updates, below, mean + deviation, color=colour, alpha=0.12, linewidth=0)
    if updates[-1] < longest:  # a shorter run: continue it at the level where it ended
        axis.plot(updates[-1], mean[-1], "o", color=colour, markersize=3)
        axis.plot([updates[-1], longest], [mean[-1]] * 2, color=colour, linestyle=":", linewidth=0.8)


def _differences(study: Study, tables: Tables) -> Figure:
    """The paired differences of the last iterates, a panel per domain and a colour per pair of methods."""
    pairs = tables.frames["pairs"].filter(pl.col("of") == "last iterate")
    domains = list(dict.fromkeys(cell.domain for cell in study.cells))
    figure, axes = panels(len(domains), 1, width=7.0, height=2.4 if len(study.pairs) == 1 else 1.9)
    for axis, domain in zip(axes[:, 0], domains, strict=True):
        names = [cell.name for cell in study.cells if cell.domain == domain]
        for pair in pairs.filter(pl.col("cell").is_in(names)).iter_rows(named=True):
            which = study.pairs.index((pair["first"], pair["second"]))
            place = names.index(pair["cell"]) + APART * (which - (len(study.pairs) - 1) / 2)
            decided = pair["low"] > 0 or pair["high"] < 0
            if np.isfinite(pair["low"]):  # a single pair has no interval
                axis.plot([pair["low"], pair["high"]], [place] * 2, color=COLOURS[which], linewidth=1.5)
            axis.plot(pair["difference"], place, "o", color=COLOURS[which], markerfacecolor=None if decided else "w")
        axis.axvline(0, color="#888888", linewidth=0.8)
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(len(names) - 0.5, -0.5)
    for which, (first, second) in enumerate(study.pairs):
        axes[0, 0].plot([], [], "o-", color=COLOURS[which], label=f"{first} − {second}")
    axes[0, 0].legend(fontsize=7, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(study.pairs))
    axes[-1, 0].set(xlabel="difference of the last iterates, 95 % interval over paired datasets")
    return figure


def _scatter(study: Study, tables: Tables) -> Figure:
    """Estimate against truth: a row per cell and method, a column per evaluation log."""
    table = tables.frames["checkpoints"]
    rows = [(cell, method) for cell in study.cells for method in study.methods]
    rows = [(c, m) for c, m in rows if len(table.filter(pl.col("cell") == c.name, pl.col("method") == m.name))]
    figure, axes = panels(len(rows), len(study.evaluation))
    for row, (cell, method) in enumerate(rows):
        for column, seed in enumerate(study.evaluation):
            axis = axes[row, column]
            mine = table.filter(
                pl.col("cell") == cell.name, pl.col("method") == method.name, pl.col("evaluation") == seed
            )
            _points(axis, mine)
            axis.set(title=f"{cell.name}, {method.name}, log {seed}", xlabel="truth", ylabel="estimate")
            axis.legend(fontsize=7, frameon=False)
    return figure


def _points(axis: Axes, table: pl.DataFrame) -> None:
    for last, marker, name in ((False, "o", "checkpoint"), (True, "s", "last iterate")):
        for known in (True, False):
            mine = table.filter(pl.col("last") == last, (pl.col("verdict") != "not identified") == known)
            if len(mine):
                label = name if known else f"{name}, not identified"
                face = COLOURS[int(last)] if known else "none"
                axis.scatter(
                    mine["truth"], mine["estimate"], marker=marker, facecolors=face, edgecolors=COLOURS[int(last)],
                    s=22, label=label,
                )  # fmt: skip
    chosen = table.filter(pl.col("chosen"))
    axis.scatter(chosen["truth"], chosen["estimate"], marker="*", s=130, color=COLOURS[2], label="selected", zorder=3)
    values = np.concatenate([table["truth"].to_numpy(), table["estimate"].to_numpy()])
    values = values[np.isfinite(values)]
    if len(values):
        axis.plot([values.min(), values.max()], [values.min(), values.max()], color="#888888", linewidth=0.8)
        if spans_decades(values):
            axis.set_xscale("log")
            axis.set_yscale("log")


def _shares(study: Study, tables: Tables) -> Figure:
    """Mean and CVaR over the number of episodes, a row per domain."""
    cells = {
        "cell": [cell.name for cell in study.cells],
        "domain": [cell.domain for cell in study.cells],
        "episodes": [cell.episodes for cell in study.cells],
    }
    table = tables.frames["summary"].join(pl.DataFrame(cells), on="cell").sort("episodes")
    names = [method.name for method in study.methods if method.name in set(table["method"])]
    domains = list(dict.fromkeys(cell.domain for cell in study.cells))
    figure, axes = panels(len(domains), 2, width=5.0)
    titles = {"mean": "mean over logs", "cvar_1_percent": "mean of the worst 1 % of logs"}
    for row, domain in zip(axes, domains, strict=True):
        for axis, (column, title) in zip(row, titles.items(), strict=True):
            for number, name in enumerate(names):
                mine = table.filter(domain=domain, method=name)
                axis.plot(
                    mine["episodes"], mine[column], LINES[number // len(COLOURS)], color=COLOURS[number % len(COLOURS)],
                    marker="o", markersize=3, label=name,
                )  # fmt: skip
            axis.axhline(0, color="#888888", linewidth=0.8)
            axis.set(title=f"{domain}, {title}", xlabel="episodes", ylabel="(V − V_b)/(V* − V_b)", xscale="log")
            ticks = table.filter(domain=domain)["episodes"].unique(maintain_order=True).to_list()
            axis.set_xticks(ticks, map(str, ticks))
            axis.minorticks_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8, frameon=False)
    return figure


def _exact(study: Study, tables: Tables) -> Figure:
    gradients, paths = tables.frames["gradients"], tables.frames["paths"]
    figure, axes = panels(1, 2)
    for i, name in enumerate(("OPPOSD", "Off-PAC")):
        axes[0, 0].plot(gradients["alpha"], gradients[f"gradient {name}"], color=COLOURS[i], label=name)
        axes[0, 1].plot(paths["step"], paths[f"path {name}"], color=COLOURS[i], label=name)
    axes[0, 0].set(title="the gradient", xlabel="α", ylabel="∂V(s₀)/∂α as each method sees it")
    axes[0, 1].set(title="ascent along it", xlabel="step", ylabel="α")
    for axis in axes[0]:
        axis.legend(frameon=False)
    return figure
