"""Loading a large log: seconds and peak memory of `statewise.load`, and of polars reading the same file.

    python benchmarks/load.py [--rows 10000000] [--folder runs]

Each measurement is a separate process, so that peak memory is its own. The file is read once before, so that both find
it in the page cache; the two alternate, and the best of three runs counts.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

POLARS = "import polars as pl; result = pl.read_parquet(path); size = result.estimated_size()"
STATEWISE = """
import statewise.data.table as table
result, findings = table.read(path)
assert not findings.items, findings.items
size = sum(value.nbytes for value in vars(result).values() if hasattr(value, "nbytes"))
"""
MEASURE = """
import json, sys, time
path = sys.argv[1]
import polars, statewise.data.table

def memory(field):
    line = next(line for line in open("/proc/self/status") if line.startswith(field))
    return int(line.split()[1]) * 1024

before = memory("VmRSS")
started = time.perf_counter()
{body}
seconds = time.perf_counter() - started
peak = memory("VmHWM") - before
print(json.dumps({{"seconds": seconds, "peak": peak, "size": size}}))
"""


def make(path: Path, rows: int, length: int = 100) -> None:
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(0)
    step = np.arange(rows) % length
    decided = pl.when(pl.col("step") < length - 1)  # an episode's last row holds its final state
    pl.DataFrame(
        {
            "episode": np.arange(rows) // length,
            "step": step,
            **{f"obs_{j}": rng.normal(size=rows) for j in range(8)},
            "action": rng.integers(4, size=rows),
            "reward": rng.normal(size=rows),
            "propensity": rng.uniform(0.1, 1, size=rows),
            "terminated": step == length - 2,
        }
    ).with_columns(decided.then(pl.col(name)).alias(name) for name in ("action", "reward", "propensity")).write_parquet(
        path
    )


def measure(body: str, path: Path) -> dict:
    out = subprocess.run(
        [sys.executable, "-c", MEASURE.format(body=body), str(path)], capture_output=True, text=True, check=True
    )
    return json.loads(out.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    path = options.folder / f"load-{options.rows}.parquet"
    if not path.exists():
        make(path, options.rows)
    path.read_bytes()
    runs = [(measure(POLARS, path), measure(STATEWISE, path)) for _ in range(3)]
    polars = min((pair[0] for pair in runs), key=lambda run: run["seconds"])
    ours = min((pair[1] for pair in runs), key=lambda run: run["seconds"])
    for name, run in (("polars.read_parquet", polars), ("statewise.load", ours)):
        peak, size = run["peak"] / 2**20, run["size"] / 2**20
        print(f"{name:20s} {run['seconds']:6.2f} s   peak {peak:7.0f} MiB   holds {size:6.0f} MiB")
    print(f"time: {ours['seconds'] / polars['seconds']:.2f} × polars (goal: at most 3)")
    print(f"peak memory: {ours['peak'] / ours['size']:.2f} × the arrays (goal: at most 3)")


if __name__ == "__main__":
    main()
