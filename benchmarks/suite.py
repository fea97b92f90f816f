"""Settings of OPPOSD side by side on tuning logs of every kind of the study `suite`: what the default is chosen by.

    PYTHONPATH=src python benchmarks/suite.py [--variants NAME;…] [--cells NAME;…] [--seeds 300,301,302,303]
        [--jobs N] [--out FOLDER] [--markdown FILE]

Needs only JAX, equinox, optax, jaxtyping and NumPy. A job is a variant on all logs of a kind. With an accelerator, the
HIV jobs run there one after the other, and all others beside them on the CPU, in N processes of one core. What is done
already is not repeated, so an interrupted run can be resumed with the same folder. Nothing may be tuned on the logs
that `statewise reproduce suite` reports (seeds 20–29).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

# Changes to OPPOSD's default; how far to brake is a candidate for where the log ends (docs/decisions.md).
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "no brake": {"least_share": 0.0},
    "brake .1": {"least_share": 0.1},
    "brake .3": {"least_share": 0.3},
    "no anchor": {"actor": {"anchor": {"weight": 0.0}}},
    "rate 1e-3": {"actor": {"learning_rate": 1e-3}},
    "rate 1e-4": {"actor": {"learning_rate": 1e-4}},
    "network critic": {"critic": {"closed_form": False}},
    "Off-PAC": {},
}
COMPARED = ("default", "no brake", "brake .1", "brake .3")
ON_ACCELERATOR = ("hiv", "hiv-weak")
ONE_CORE = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def study_of(variants: tuple[str, ...], seeds: tuple[int, ...]) -> Any:
    """The study `suite` with these variants as its methods, on these logs."""
    from dataclasses import replace

    from statewise.experiments.study import Method, named

    methods = tuple(
        Method(name, "offpac" if name == "Off-PAC" else "opposd", settings=VARIANTS[name]) for name in variants
    )
    return replace(named("suite"), methods=methods, datasets=seeds, pairs=())


def run_job(cell: str, variant: str, seeds: tuple[int, ...], out: str) -> tuple[str, str, float]:
    from statewise.experiments import runner

    began = time.perf_counter()
    study = study_of((variant,), seeds).restricted(cells=[cell])
    runner.run(study, Path(out) / variant.replace(" ", "_"), lambda message: None)
    return cell, variant, time.perf_counter() - began


def one_core() -> None:
    os.environ.update(ONE_CORE)


def table(cells: list[str], variants: tuple[str, ...], seeds: tuple[int, ...], out: str) -> str:
    """Last policies by kind and variant: mean (least), and the best checkpoint of the mean curve where that is more."""
    import numpy as np

    from statewise.experiments import records

    lines = [f"| {' | '.join(['kind', *variants])} |", f"| :-- |{' --: |' * len(variants)}"]
    for name in cells:
        shown = []
        for variant in variants:
            study = study_of((variant,), seeds).restricted(cells=[name])
            folder = Path(out) / variant.replace(" ", "_")
            paths = [records.job_path(folder, study.cells[0], study.methods[0], seed) for seed in seeds]
            if not all(path.is_file() for path in paths):
                shown.append("missing")
                continue
            curves = np.stack([records.read(path)[study.measure].mean(axis=1) for path in paths])
            last, best = curves[:, -1], curves.mean(axis=0).max()
            shown.append(f"{last.mean():.3g} ({last.min():.3g})" + (f", best {best:.3g}" if best > last.mean() else ""))
        lines.append(f"| {' | '.join([name, *shown])} |")
    return "\n".join(lines)


def has_accelerator() -> bool:
    """Asked in another process: this one must not hold the device."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_backend).result() != "cpu"


def _backend() -> str:
    import jax

    return jax.default_backend()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", default=";".join(COMPARED))
    parser.add_argument("--cells", default="")
    parser.add_argument("--seeds", default="300,301,302,303")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--out", default="suite-tuning")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    variants, seeds = tuple(options.variants.split(";")), tuple(map(int, options.seeds.split(",")))
    if min(seeds) < 300:
        parser.error("tuning logs have seeds from 300 on")
    known = [cell.name for cell in study_of(variants, seeds).cells]
    cells = [name for name in options.cells.split(";") if name] or known
    accelerated = ON_ACCELERATOR if has_accelerator() else ()
    # the longest jobs first
    order = sorted(cells, key=lambda name: (name not in ("hiv", "hiv-weak"), name != "CartPole"))
    spawn = get_context("spawn")
    with (
        ProcessPoolExecutor(options.jobs, mp_context=spawn, initializer=one_core) as cores,
        ProcessPoolExecutor(1, mp_context=spawn) as device,
    ):
        waiting: list[Future] = [
            (device if cell in accelerated else cores).submit(run_job, cell, variant, seeds, options.out)
            for cell in order
            for variant in variants
        ]
        for done in as_completed(waiting):
            cell, variant, seconds = done.result()
            print(f"{cell}, {variant}: {seconds:.0f} s", file=sys.stderr, flush=True)
    result = table(cells, variants, seeds, options.out)
    print(result)
    if options.markdown:
        options.markdown.write_text(result + "\n")


if __name__ == "__main__":
    main()
