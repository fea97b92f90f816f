"""How time and memory grow with a log: read, inspected, judged and learned from, in memory and in files.

    python benchmarks/scale.py [--rows 100000 1000000] [--folder runs/scale] [--updates 500] [--page docs/scale.md]
    python benchmarks/scale.py --seeds 1 4 16 64 [--rows 100000] [--updates 20]

Every log is made on the spot: 8 observations, 4 actions, episodes of 20 decisions in the mean that end by themselves.
Every measurement is a process of its own. `peak` is the greatest resident memory (getrusage), files that are mapped
included; `own` is that without them, which the system cannot take back (sampled fifty times a second). The answers of
both ways are compared. With --page, the table is written between the page's two markers. What was made is deleted.
Of `fit`, the processor time of an update is printed too, without what comes before the first. With --seeds, how `fit`
grows with them instead, on a log of the first of --rows, in memory: the policies of all seeds are learned by one call.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl

PER_FILE = 2_500_000
MARKERS = "<!-- growth -->", "<!-- end of growth -->"
MEASURE = """
import json, resource, sys, threading, time
import numpy as np
import statewise as sw
folder, scratch, way, task, updates, seeds = sys.argv[1:]
own, marks = [0], []

def watch():
    while True:
        line = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
        own[0] = max(own[0], int(line.split()[1]))
        time.sleep(0.02)

def policy(observations):
    weights = np.exp(np.asarray(observations, np.float64)[:, :4])
    return weights / weights.sum(axis=1, keepdims=True)

def read():
    if way == "files":
        return sw.scan(folder, scratch=scratch)
    import polars as pl
    return sw.load(pl.read_parquet(folder + "/*.parquet"))

def work(log):
    if task == "read":
        return [len(log)]
    if task == "inspect":
        from statewise.data.summary import summarise
        from statewise.propensities.logged import logged_calibration
        return [logged_calibration(log).error, summarise(log).returns.mean]
    if task == "evaluate":
        estimate = sw.evaluate(policy, log)
        return [estimate.value, estimate.low, estimate.high]
    def note(progress):
        marks.append((progress.update, time.process_time()))

    result = sw.fit(log, "opposd", seeds=int(seeds), updates=int(updates), progress=note)
    return [float(np.abs(weights).sum()) for weights in result.policies[0].weights]

threading.Thread(target=watch, daemon=True).start()
started, busy = time.perf_counter(), time.process_time()
log = read()
if task != "read":
    started, busy = time.perf_counter(), time.process_time()
answer = work(log)
seconds, busy = time.perf_counter() - started, time.process_time() - busy
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
measured = {"seconds": seconds, "busy": busy, "peak": peak * 1024, "own": own[0] * 1024, "answer": answer}
if len(marks) > 1:  # the first stretch compiles, and hashes the log
    (first, began), (last, ended) = marks[0], marks[-1]
    measured["update"] = (ended - began) / (last - first)
print(json.dumps(measured))
"""


def make(folder: Path, rows: int, seed: int = 0) -> None:
    """Episodes whose state drifts, and whose behaviour looks at it."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, episodes = np.random.default_rng(seed), 0
    for number, first in enumerate(range(0, rows, PER_FILE)):
        count = min(PER_FILE, rows - first)
        ends = rng.random(count) < 1 / 20
        ends[-1] = True
        begins = np.append(True, ends[:-1])
        episode = np.cumsum(begins) - 1
        states = rng.normal(size=(count, 8)).astype(np.float32)
        states[1:] = np.where(begins[1:, None], states[1:], 0.6 * states[1:] + 0.6 * states[:-1])
        chances = np.exp(0.5 * states[:, :4])
        chances /= chances.sum(axis=1, keepdims=True)
        action = (chances.cumsum(axis=1) < rng.random((count, 1))).sum(axis=1).clip(0, 3)
        reward = states[:, 0] * (action == 0) + 0.3 * (action == 1) + 0.5 * rng.normal(size=count)
        pl.DataFrame(
            {
                "episode": episode + episodes,
                "step": np.arange(count) - np.flatnonzero(begins)[episode],
                **{f"obs_{j}": states[:, j] for j in range(8)},
                "action": action.astype(np.int32),
                "reward": reward.astype(np.float64),
                "propensity": chances[np.arange(count), action].astype(np.float64),
                "terminated": ends,
            }
        ).write_parquet(folder / f"{number:05}.parquet", row_group_size=250_000)
        episodes += int(episode[-1]) + 1


def measured(folder: Path, scratch: Path, way: str, task: str, updates: int, seeds: int = 1) -> dict:
    arguments = [str(folder), str(scratch), way, task, str(updates), str(seeds)]
    ended = subprocess.run([sys.executable, "-c", MEASURE, *arguments], stdout=subprocess.PIPE, text=True)
    return json.loads(ended.stdout) if ended.returncode == 0 else {}


def row(rows: int, task: str, ways: dict[str, dict]) -> str:
    """One line of the table."""
    cells = [f"{rows:,}", task]
    for way in ("memory", "files"):
        one = ways.get(way)
        if not one:
            cells += ["–"] * 3
            continue
        cells += [f"{one['seconds']:.1f}", f"{one['peak'] / 1e9:.2f}", f"{one['own'] / 1e9:.2f}"]
    answers = [one["answer"] for one in ways.values() if one]
    off = np.max(np.abs(np.subtract(*answers) / answers[0])) if len(answers) == 2 else None
    cells.append("–" if off is None else "same" if off == 0 else f"{off:.0e}")
    return "| " + " | ".join(cells) + " |"


def by_seeds(folder: Path, rows: int, seeds: list[int], updates: int) -> None:
    """How `fit` grows with the number of seeds."""
    print("| seeds | s | processor s | an update of a seed, ms | peak GB | own GB |", "|" + "---:|" * 6, sep="\n")
    try:
        make(folder / "seeds", rows)
        for count in seeds:
            one = measured(folder / "seeds", folder, "memory", "fit", updates, count)
            cells = (one["seconds"], one["busy"], 1000 * one["update"] / count, one["peak"] / 1e9, one["own"] / 1e9)
            print(f"| {count} | " + " | ".join(f"{cell:.3g}" for cell in cells) + " |", flush=True)
    finally:
        shutil.rmtree(folder / "seeds", ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--folder", type=Path, default=Path("runs/scale"))
    parser.add_argument("--tasks", nargs="+", default=["read", "inspect", "evaluate", "fit"])
    parser.add_argument("--ways", nargs="+", default=["memory", "files"])
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    if given.seeds is not None:
        by_seeds(given.folder, given.rows[0], given.seeds, given.updates)
        return
    lines = [
        "| rows | task | s | peak GB | own GB | s, in files | peak GB | own GB | answers differ by |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for rows in given.rows:
        log, scratch = given.folder / str(rows), given.folder / "scratch"
        try:
            make(log, rows)
            for task in given.tasks:
                ways = {way: measured(log, scratch, way, task, given.updates) for way in given.ways}
                lines.append(row(rows, task, ways))
                print(lines[-1], flush=True)
                for way in (way for way in ways if "update" in ways[way]):
                    print(f"  an update, {way}: {1000 * ways[way]['update']:.0f} ms of processor time", flush=True)
        finally:
            shutil.rmtree(log, ignore_errors=True)
            shutil.rmtree(scratch, ignore_errors=True)
    if given.page is not None:
        before, rest = given.page.read_text().split(MARKERS[0])
        after = rest.split(MARKERS[1])[1]
        table = "\n".join(lines)
        given.page.write_text(f"{before}{MARKERS[0]}\n\n{table}\n\n{MARKERS[1]}{after}")


if __name__ == "__main__":
    main()
