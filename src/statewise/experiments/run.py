"""`python -m statewise.experiments.run NAME --out DIR`: runs a study's jobs with only the learning libraries installed.

`statewise reproduce` does the same, and then makes tables and figures, for which it needs polars and matplotlib.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import get_args

from statewise.experiments import checkpoints, exact, manifest, runner
from statewise.experiments.certified import jobs as certified
from statewise.experiments.duration import duration_message
from statewise.experiments.paper import Preset, study_names
from statewise.experiments.safe import run as safe
from statewise.experiments.study import Study, named

PROCESSES = "for safe-improvement, certified and rounds: how many share the work"


def run(study: Study, out: Path, notify: runner.Notify, processes: int = 1) -> None:
    """Everything that a study computes; what is already done is not repeated."""
    in_parts = {"safe": safe.run, "certified": certified.run, "rounds": certified.run}
    if study.kind in in_parts:
        in_parts[study.kind](study, out, notify, processes)
        return
    if processes != 1:
        raise ValueError(f"processes: expected 1, since '{study.name}' runs in one process, got {processes}")
    if study.kind == "exact":
        exact.run(study, out)
        return
    notify(duration_message(study, out))
    runner.run(study, out, notify)
    if study.kind == "selection":
        checkpoints.evaluate(study, out, notify)
        manifest.write(out, study)


def requested(name: str, *, quick: bool, preset: Preset | None, methods: str, cells: str) -> Study:
    """One of the paper's studies, with some of its methods and cells (semicolons between names) or with all."""
    return named(name, quick).restricted(methods=_names(methods), cells=_names(cells), group=preset)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(";") if name.strip()]  # names of cells contain commas


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m statewise.experiments.run", description=__doc__)
    parser.add_argument("name", choices=study_names())
    parser.add_argument("--out", type=Path, required=True, help="folder; an interrupted run in it is resumed")
    parser.add_argument("--quick", action="store_true", help="a small run of the same study")
    parser.add_argument("--preset", choices=get_args(Preset), help="only methods with this preset")
    parser.add_argument("--methods", default="", help="only these methods, by name, separated by semicolons")
    parser.add_argument("--cells", default="", help="only these logs, by name, separated by semicolons")
    parser.add_argument("--processes", type=int, default=1, help=PROCESSES)
    options = vars(parser.parse_args(arguments))
    out, processes, began = options.pop("out"), options.pop("processes"), time.perf_counter()

    def notify(message: str) -> None:
        print(f"[{time.perf_counter() - began:6.0f} s] {message}", file=sys.stderr, flush=True)

    try:
        run(requested(**options), out, notify, processes)
    except (ValueError, OSError, ImportError) as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
