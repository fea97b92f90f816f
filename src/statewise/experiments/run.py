"""`python -m statewise.experiments.run NAME --out DIR`: a study's jobs, where only the learning libraries are.

`statewise reproduce` does this too, and then makes tables and figures, for which it needs polars and matplotlib.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from statewise.experiments import exact, records, runner, selection
from statewise.experiments.estimate import told_duration
from statewise.experiments.study import Study, named, studies


def run(study: Study, out: Path, tell: runner.Tell) -> None:
    """Everything that a study computes; what is done already is not done again."""
    if study.kind == "exact":
        exact.run(study, out)
        return
    tell(told_duration(study, out))
    runner.run(study, out, tell)
    if study.kind == "selection":
        selection.run(study, out, tell)
        records.finish(out, study)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m statewise.experiments.run", description=__doc__)
    parser.add_argument("name", choices=sorted(studies()))
    parser.add_argument("--out", type=Path, required=True, help="folder; a run that was interrupted there goes on")
    parser.add_argument("--quick", action="store_true", help="a small true run")
    parser.add_argument("--preset", choices=["default", "paper"], help="only methods with this preset")
    parser.add_argument("--methods", default="", help="only these, by name, with semicolons between them")
    parser.add_argument("--cells", default="", help="likewise")
    given = parser.parse_args(arguments)
    begun = time.perf_counter()

    def tell(words: str) -> None:
        print(f"[{time.perf_counter() - begun:6.0f} s] {words}", file=sys.stderr, flush=True)

    try:
        study = named(given.name, given.quick).restricted(
            methods=listed(given.methods), cells=listed(given.cells), group=given.preset
        )
        run(study, given.out, tell)
    except (ValueError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)


def listed(words: str) -> list[str]:
    return [word.strip() for word in words.split(";") if word.strip()]


if __name__ == "__main__":
    main()
