"""Settings side by side on tuning logs of every kind of the study `suite`: what defaults are chosen by.

    PYTHONPATH=src python benchmarks/suite.py [--variants NAME;… | --algorithm sac] [--cells NAME;…]
        [--seeds 300,301,302,303] [--jobs N] [--on-device M] [--most-updates N]
        [--out FOLDER] [--markdown FILE]

Needs only JAX, equinox, optax, jaxtyping and NumPy. A job is a variant on all logs of a kind. With an accelerator, the
HIV jobs run there, M at a time, and all others beside them on the CPU, in N processes of one core. What is done
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
from typing import Any, NamedTuple

# An algorithm, and changes to its default; how far to brake is a candidate for where the log ends (docs/decisions.md).
# The other algorithms have about as many as OPPOSD has, so that neither is tuned with more effort.
WIDE, NARROW, SLOW = {"hidden": [128, 128]}, {"hidden": [64, 64]}, {"learning_rate": 1e-4}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("opposd", {}),
    "no brake": ("opposd", {"least_share": 0.0}),
    "brake .1": ("opposd", {"least_share": 0.1}),
    "brake .3": ("opposd", {"least_share": 0.3}),
    "no anchor": ("opposd", {"actor": {"anchor": {"weight": 0.0}}}),
    "rate 1e-3": ("opposd", {"actor": {"learning_rate": 1e-3}}),
    "rate 1e-4": ("opposd", {"actor": {"learning_rate": 1e-4}}),
    "network critic": ("opposd", {"critic": {"closed_form": False}}),
    "Off-PAC": ("offpac", {}),
    "SAC": ("sac", {}),
    "SAC rate 1e-3": ("sac", {"learning_rate": 1e-3}),
    "SAC critic 3e-4": ("sac", {"learning_rate": 1e-3, "critic": {"learning_rate": 3e-4}}),
    "SAC both 3e-4": ("sac", {"critic": {"learning_rate": 3e-4}}),
    "SAC wide": ("sac", {"learning_rate": 1e-3, "critic": WIDE}),
    "SAC wide 3e-4": ("sac", {"learning_rate": 1e-3, "critic": {**WIDE, "learning_rate": 3e-4}}),
    "SAC hotter": ("sac", {"learning_rate": 1e-3, "temperature": {"start": 0.3}}),
    "SAC colder": ("sac", {"learning_rate": 1e-3, "temperature": {"start": 0.03}}),
    "SAC entropy .5": ("sac", {"learning_rate": 1e-3, "temperature": {"entropy": 0.5}}),
    "ACER": ("acer", {}),
    "ACER narrow": ("acer", {"critic": NARROW}),
    "ACER rate 3e-3": ("acer", {"critic": NARROW, "learning_rate": 3e-3}),
    "ACER rate 3e-4": ("acer", {"critic": NARROW, "learning_rate": 3e-4}),
    "ACER no trust": ("acer", {"critic": NARROW, "trust": None}),
    "ACER no trust 3e-4": ("acer", {"critic": NARROW, "trust": None, "learning_rate": 3e-4}),
    "ACER no entropy": ("acer", {"critic": NARROW, "entropy": 0.0}),
    "ACER critic 3e-4": ("acer", {"critic": {**NARROW, "learning_rate": 3e-4}}),
    "ACER average .1": ("acer", {"critic": NARROW, "average_rate": 0.1}),
    "CQL": ("cql", {}),
    "CQL rate 1e-4": ("cql", {"critic": SLOW}),
    "CQL rate 1e-3": ("cql", {"critic": {"learning_rate": 1e-3}}),
    "CQL α .03": ("cql", {"critic": SLOW, "conservatism": 0.03}),
    "CQL α .3": ("cql", {"critic": SLOW, "conservatism": 0.3}),
    "CQL α 1": ("cql", {"critic": SLOW, "conservatism": 1.0}),
    "CQL wide": ("cql", {"critic": {**SLOW, **WIDE}}),
    "CQL wide α .3": ("cql", {"critic": {**SLOW, **WIDE}, "conservatism": 0.3}),
    "CQL τ .05": ("cql", {"critic": SLOW, "temperature": 0.05}),
}
COMPARED = ("default", "no brake", "brake .1", "brake .3")
ON_ACCELERATOR = ("hiv", "hiv-weak")
ONE_CORE = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


class Asked(NamedTuple):
    """Which logs, at most how many updates (None: as in the study), and where results are kept."""

    seeds: tuple[int, ...]
    most_updates: int | None
    out: str

    def folder(self, cell: str, variant: str) -> Path:
        return Path(self.out) / variant.replace(" ", "_") / cell.replace(" ", "_")


def study_of(variants: tuple[str, ...], asked: Asked) -> Any:
    """The study `suite` with these variants as its methods, on these logs."""
    from dataclasses import replace

    from statewise.experiments.study import Method, named

    methods = tuple(Method(name, VARIANTS[name][0], settings=VARIANTS[name][1]) for name in variants)
    changes: dict[str, Any] = {"methods": methods, "datasets": asked.seeds, "most_updates": asked.most_updates}
    return replace(named("suite"), **changes, pairs=())


def run_job(cell: str, variant: str, asked: Asked) -> tuple[str, str, float]:
    from statewise.experiments import runner

    began = time.perf_counter()
    study = study_of((variant,), asked).restricted(cells=[cell])
    runner.run(study, asked.folder(cell, variant), lambda message: None)
    return cell, variant, time.perf_counter() - began


def one_core() -> None:
    os.environ.update(ONE_CORE)


def table(cells: list[str], variants: tuple[str, ...], asked: Asked) -> str:
    """Last policies by kind and variant: mean (least), and the best checkpoint of the mean curve where that is more."""
    import numpy as np

    from statewise.experiments import records

    lines = [f"| {' | '.join(['kind', *variants])} |", f"| :-- |{' --: |' * len(variants)}"]
    for name in cells:
        shown = []
        for variant in variants:
            study = study_of((variant,), asked).restricted(cells=[name])
            folder = asked.folder(name, variant)
            paths = [records.job_path(folder, study.cells[0], study.methods[0], seed) for seed in asked.seeds]
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
    parser.add_argument("--algorithm", default="", help="all variants of these, separated by commas")
    parser.add_argument("--cells", default="")
    parser.add_argument("--seeds", default="300,301,302,303")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--most-updates", type=int)
    parser.add_argument("--on-device", type=int, default=1)
    parser.add_argument("--out", default="suite-tuning")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    algorithms, seeds = options.algorithm.split(","), tuple(map(int, options.seeds.split(",")))
    of_algorithms = (name for name, (algorithm, _) in VARIANTS.items() if algorithm in algorithms)
    variants = tuple(of_algorithms) or tuple(options.variants.split(";"))
    if min(seeds) < 300:
        parser.error("tuning logs have seeds from 300 on")
    asked = Asked(seeds, options.most_updates, options.out)
    known = [cell.name for cell in study_of(variants, asked).cells]
    cells = [name for name in options.cells.split(";") if name] or known
    accelerated = ON_ACCELERATOR if has_accelerator() else ()
    # the longest jobs first
    order = sorted(cells, key=lambda name: (name not in ("hiv", "hiv-weak"), name != "CartPole"))
    spawn = get_context("spawn")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # processes share the accelerator's memory
    with (
        ProcessPoolExecutor(options.jobs, mp_context=spawn, initializer=one_core) as cores,
        ProcessPoolExecutor(options.on_device, mp_context=spawn) as device,
    ):
        waiting: list[Future] = [
            (device if cell in accelerated else cores).submit(run_job, cell, variant, asked)
            for cell in order
            for variant in variants
        ]
        for done in as_completed(waiting):
            cell, variant, seconds = done.result()
            print(f"{cell}, {variant}: {seconds:.0f} s", file=sys.stderr, flush=True)
    result = table(cells, variants, asked)
    print(result)
    if options.markdown:
        options.markdown.write_text(result + "\n")


if __name__ == "__main__":
    main()
