"""Measures what `docs/reliability.md` says: tables and files made to break a reader, and what became of each.

    python tools/reliability.py [--tables 100000] [--files 10000]

A fault is an exception that is no sentence, a value that was silently changed, more than 1 GB of memory or ten seconds.
The page's table is written anew; the exit code is 1 where there was a fault.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- measured -->", "<!-- end -->"
BATCH = 2000  # by one process, whose memory is then looked at
MOST_MEMORY, MOST_SECONDS = 1_000_000, 10.0  # kilobytes
KINDS = {"tables": "tables (CSV, TSV, Parquet)", "files": "policies, runs and settings"}


def batch(kind: str, first: int, count: int) -> None:
    """Checks seeds `first` … in this process and prints what became of them."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
    from importlib import import_module

    check, outcomes, slowest = import_module(f"fuzz.{kind}").check, Counter(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            started = time.perf_counter()
            try:
                outcomes[check(seed, Path(folder))] += 1
            except BaseException as error:
                outcomes["fault"] += 1
                print(f"fault {kind} {seed}: {type(error).__name__}: {str(error)[:200]!r}", file=sys.stderr)
            slowest = max(slowest, time.perf_counter() - started)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(outcomes["read"], outcomes["refused"], outcomes["fault"], memory, f"{slowest:.3f}")


def measured(kind: str, count: int, seconds: float | None) -> tuple[Counter, int, float]:
    """What became of `count` of a kind, or of as many as the seconds allow; the most memory, and the slowest."""
    outcomes, memory, slowest, started = Counter(), 0, 0.0, time.perf_counter()
    for first in range(0, count, BATCH):
        if seconds is not None and time.perf_counter() - started > seconds:
            break
        size = min(BATCH, count - first)
        command = [sys.executable, __file__, "--batch", kind, str(first), str(size)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:  # the process itself was killed
            outcomes["fault"] += size
            continue
        read, refused, fault, most, slow = done.stdout.split()
        outcomes.update(read=int(read), refused=int(refused), fault=int(fault))
        memory, slowest = max(memory, int(most)), max(slowest, float(slow))
        print(f"{kind}: {outcomes.total():,} {dict(outcomes)}", file=sys.stderr)
    return outcomes, memory, slowest


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, help="at most so long for each kind")
    parser.add_argument("--batch", nargs=3)
    asked = parser.parse_args()
    if asked.batch:
        batch(asked.batch[0], int(asked.batch[1]), int(asked.batch[2]))
        return
    lines = [
        "| made to break a reader | tried | read right | refused in a sentence | faults | most memory | slowest |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    failed = False
    for kind, title in KINDS.items():
        outcomes, memory, slowest = measured(kind, getattr(asked, kind), asked.seconds)
        counts = " | ".join(f"{outcomes[name]:,}" for name in ("read", "refused", "fault"))
        lines.append(f"| {title} | {outcomes.total():,} | {counts} | {memory / 1000:,.0f} MB | {slowest:.1f} s |")
        failed |= outcomes["fault"] > 0 or memory > MOST_MEMORY or slowest > MOST_SECONDS
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    lines += ["", f"Python {platform.python_version()}, {os.cpu_count()} cores, commit {commit.stdout.strip()}."]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    text = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(text)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
