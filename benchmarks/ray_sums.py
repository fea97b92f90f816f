"""How much faster two Ray workers are than one, on the sums by which one policy is judged.

    python benchmarks/ray_sums.py [--rows 2000000] [--repeats 5] [--workers 1 2]

For each number of workers: the shortest of the repeats, and the processor time on the longest path (this process, plus
the worker that worked most), which tells what idle cores would take where other work shares them. The first repeat,
which sends the arrays, is told apart. The digits of all are compared.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as Ray's workers have: more threads round otherwise
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import ray
from scale import make

import statewise as sw
from statewise.base.tasks import mapped
from statewise.ope.prepared import Case
from statewise.ope.solution import solve


def clocks(workers: int) -> dict[int, float]:
    """The processor time that each worker has had."""

    def clock(_: int) -> tuple[int, float]:
        time.sleep(0.3)
        return os.getpid(), time.process_time()

    return dict(mapped(clock, range(4 * workers)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), given.rows)
        log = sw.load(pl.read_parquet(f"{folder}/*.parquet"))
    weights = np.exp(np.asarray(log.observations[:, :4], np.float64))
    case = Case(sw.prepare(log), weights / weights.sum(axis=1, keepdims=True))
    equations, ratio = case.prepared.horizon_equations, case.ratio
    expected, shortest, longest_path = solve(equations, ratio, case.probabilities), {}, {}
    for workers in given.workers:
        ray.init("local", num_cpus=workers, log_to_driver=False, include_dashboard=False)
        with sw.on_ray():
            walls, paths = [], []
            for _ in range(given.repeats + 1):
                before, own, began = clocks(workers), time.process_time(), time.perf_counter()
                solved = solve(equations, ratio, case.probabilities)
                walls.append(time.perf_counter() - began)
                own = time.process_time() - own
                after = clocks(workers)
                paths.append(own + max(after[pid] - before.get(pid, 0.0) for pid in after))
                assert np.array_equal(solved.signed, expected.signed)
        ray.shutdown()
        shortest[workers], longest_path[workers] = min(walls[1:]), min(paths[1:])
        print(
            f"{workers} workers: first {walls[0]:.2f} s, then {shortest[workers]:.2f} s at least; "
            f"processor time on the longest path {longest_path[workers]:.2f} s",
            flush=True,
        )
    one, most = min(given.workers), max(given.workers)
    faster, by_processor = shortest[one] / shortest[most], longest_path[one] / longest_path[most]
    print(f"{faster:.2f} times as fast, {by_processor:.2f} by processor time")


if __name__ == "__main__":
    main()
