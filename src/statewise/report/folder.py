"""The report of a run folder: its content and its files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from statewise.base.decode import DecodeError
from statewise.base.files import write_text
from statewise.learning.runs import RunError, RunFolder
from statewise.report.content import Curve, ReportContent, from_json, to_json
from statewise.report.page import render

DECISION, REPORT = "decision.json", "report.html"
METRICS = ("value", "ratio_ess", "entropy")
NO_ANSWER = (
    "The policies of this run were learned but never evaluated on held-out episodes, so nothing is known about what "
    "they are worth."
)


def from_run(folder: RunFolder) -> ReportContent:
    """The decision, if there is one, with the run's learning curves and manifest."""
    path = folder.path / DECISION
    try:
        content = from_json(path.read_text(encoding="utf-8")) if path.is_file() else _undecided()
    except (DecodeError, UnicodeError) as error:
        raise RunError(f"{path}: {error}") from error
    manifest = folder.manifest()
    curves = content.curves or curves_of(folder, str(manifest.get("algorithm", "run")))
    return replace(content, curves=curves, manifest=manifest, folder=folder.path.name)


def write_report(folder: RunFolder, content: ReportContent) -> None:
    """Writes decision.json, and after it report.html."""
    write_text(folder.path / DECISION, to_json(content))
    page = render(replace(content, manifest=folder.manifest(), folder=folder.path.name))
    write_text(folder.path / REPORT, page)


def curves_of(folder: RunFolder, run: str) -> tuple[Curve, ...]:
    """The learning curves of every seed, under the run's name."""
    if not (folder.path / "metrics.npz").is_file():
        return ()
    metrics = folder.metrics()
    seeds = folder.manifest().get("seeds") or range(len(next(iter(metrics.values()), ())))
    curves = (
        _curve(name, run, int(seed), values)
        for name in METRICS
        if name in metrics
        for seed, values in zip(seeds, np.asarray(metrics[name], dtype=float), strict=True)
    )
    return tuple(curve for curve in curves if curve.updates)


def _curve(name: str, run: str, seed: int, values: np.ndarray) -> Curve:
    known = np.flatnonzero(np.isfinite(values))  # NaN: the algorithm has no such metric
    return Curve(name, run, seed, tuple((known + 1).tolist()), tuple(values[known].tolist()))


def _undecided() -> ReportContent:
    return ReportContent("not evaluated", NO_ANSWER, title="A run without an evaluation")
