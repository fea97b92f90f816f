"""What a log certifies: learn on half, walk and test on the other half, and play what was certified.

    python benchmarks/certified.py --logs 20 --jobs 8 --json certified.json      # runs, and adds to what is there
    python benchmarks/certified.py --logs 0 --json certified.json --out docs/certified.md

Runs with the learning libraries alone; on a machine with a GPU, learning uses it. Reported logs have the seeds from 40
on (random MDPs from 2000 on), which nothing was tuned on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

# domain, episodes of a log, first seed, and what 0 and 1 stand for where the score is a share
CELLS: dict[str, tuple[str, int, int]] = {
    "cartpole": ("cartpole", 500, 40),
    "hiv": ("hiv", 1000, 40),
    "hiv-weak": ("hiv-weak", 1000, 40),
    "random-mdp-20": ("random-mdp", 20, 2000),
    "random-mdp-100": ("random-mdp", 100, 2000),
    "random-mdp-500": ("random-mdp", 500, 2000),
}
PLAYED = 1000  # episodes by which the truth is known, where it is not exact


def one(cell: str, seed: int) -> dict[str, Any]:
    """One log, from learning to the truth."""
    import statewise as sw
    from statewise.domains import DOMAINS
    from statewise.domains.source import Family
    from statewise.experiments.safe.certified import learned
    from statewise.ope.certify import learning_part
    from statewise.policies.simple import constants

    domain, episodes, _ = CELLS[cell]
    source = DOMAINS[domain]
    source = source.problem(seed) if isinstance(source, Family) else source
    log = source.collect(episodes, seed)
    part = learning_part(log)
    learning, judging = log.split(part, seed=0)
    began = time.perf_counter()
    policies = learned(learning, 0, source.discount)
    fitted = time.perf_counter()
    rules = constants(learning)
    found = sw.certify(
        {**policies, **rules}, judging, learning=learning, simple=rules, discount=source.discount, part=1 - part
    )
    certified = time.perf_counter()

    def worth(policy: Any) -> float:
        return float(source.play([policy], PLAYED, 10_000 + seed).discounted.mean())

    best = None
    if hasattr(source, "problem"):
        best = source.problem.value_within(source.problem.optimal(source.discount), source.discount, source.horizon)
    today = worth(None)
    return {
        "cell": cell,
        "seed": seed,
        "answer": found.answer,
        "candidate": found.candidate,
        "step": found.step,
        "low": found.low if found.policy is not None else None,
        "today": today,
        "value": today if found.policy is None else worth(found.policy),
        "goal": worth(found.goal_policy),
        "best": best,
        "tried": [[step.step, step.decision.verdict, step.passed] for step in found.tried],
        "learning_s": fitted - began,
        "certifying_s": certified - fitted,
    }


def page(rows: list[dict[str, Any]]) -> str:
    """The table of docs/certified.md."""
    lines = [
        "| logs | certified | bound held | today → deployed, in truth | the goal, in truth "
        "| share of the possible gain | certifying / learning time |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for cell in CELLS:
        own = [row for row in rows if row["cell"] == cell]
        if not own:
            continue
        deployed = [row for row in own if row["low"] is not None]
        held = sum(row["value"] - row["today"] >= row["low"] for row in deployed)
        today, value, goal = (sum(row[name] for row in own) / len(own) for name in ("today", "value", "goal"))
        share = "–"
        if own[0]["best"] is not None:
            share = f"{sum((row['value'] - row['today']) / (row['best'] - row['today']) for row in own) / len(own):.2f}"
        cost = sum(row["certifying_s"] for row in own) / sum(row["learning_s"] for row in own)
        gain = f"{today:.3g} → {value:.3g} (× {value / today:.2f})"
        lines.append(
            f"| {cell}, {CELLS[cell][1]:,} episodes | {len(deployed)} of {len(own)} | {held} of {len(deployed)} "
            f"| {gain} | {goal:.3g} | {share} | {cost:.2f} |"
        )
    return "\n".join(lines)


def renew(path: Path, name: str, table: str) -> None:
    """Puts the table between the page's marks of that name."""
    text = path.read_text()
    first, last = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    begin, end = text.index(first) + len(first), text.index(last)
    path.write_text(text[:begin] + table + text[end:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, default=Path("certified.json"))
    parser.add_argument("--out", type=Path, help="Page whose table is renewed.")
    given = parser.parse_args()
    rows = json.loads(given.json.read_text()) if given.json.is_file() else []
    known = {(row["cell"], row["seed"]) for row in rows}
    asked = [(cell, CELLS[cell][2] + i) for i in range(given.logs) for cell in given.cells.split(",")]
    asked = [place for place in asked if place not in known]
    if asked:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        with ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            for future in as_completed([pool.submit(one, *place) for place in asked]):
                row = future.result()
                rows.append(row)
                given.json.write_text(json.dumps(rows))
                print({name: value for name, value in row.items() if name != "tried"}, flush=True)
    table = page(rows)
    print(table)
    if given.out is not None:
        renew(given.out, "table", table)


if __name__ == "__main__":
    main()
