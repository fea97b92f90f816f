"""Rounds of deploying, logging and learning again, in simulators: does every round lead upwards, and how far?

    python benchmarks/rounds.py --domains cartpole --seeds 10 --rounds 6 --jobs 8 --json rounds.json
    python benchmarks/rounds.py --seeds 0 --json rounds.json --out docs/certified.md

A round is what `statewise rounds` does, without its files: log what is done, learn from all logs but the half of the
newest that judges, certify, deploy. Runs with the learning libraries alone. Reported runs have the seeds from 60 on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from certified import PLAYED, renew

# episodes of a round, and the preset that OPPOSD learns with
DOMAINS: dict[str, tuple[int, str]] = {
    "cartpole": (500, "quick"),
    "hiv": (300, "default"),
    "hiv-weak": (300, "default"),
}
FIRST = 60
APART = 10_000  # between the seeds of two runs


def one(domain: str, seed: int, rounds: int, kept: str) -> list[dict[str, Any]]:
    """One run, a line of JSON for every round in the file `kept` as soon as it is done."""
    rows = []
    for row in played(domain, seed, rounds):
        rows.append(row)
        with Path(kept).open("a") as file:
            file.write(json.dumps(row) + "\n")
    return rows


def played(domain: str, seed: int, rounds: int) -> Iterator[dict[str, Any]]:
    import statewise as sw
    from statewise.domains import DOMAINS as SOURCES
    from statewise.domains.behaviours import as_act
    from statewise.learning.presets import preset
    from statewise.policies.simple import constants

    episodes, name = DOMAINS[domain]
    source = SOURCES[domain]
    settings = {algorithm: preset(name, algorithm, discount=source.discount) for algorithm in ("opposd", "cql")}
    worth: Callable[[Any], float] = lambda policy: float(  # noqa: E731
        source.play([policy], PLAYED, 7 * APART + seed).discounted.mean()
    )
    logs, today, deployed = [], None, True
    value = worth(None)
    for number in range(1, rounds + 1):
        began = time.perf_counter()
        log = source.collect(episodes, APART * seed + number, act=None if today is None else as_act(today))
        if logs and not deployed:
            log = sw.concat([logs.pop(), log])  # of the same policy
        logs.append(log)
        learning, judging = log.split(0.5, seed=0)
        everything = sw.concat([*logs[:-1], learning]) if len(logs) > 1 else learning
        learned = {each: sw.fit(everything, config, seeds=[0]).policies[0] for each, config in settings.items()}
        rules = constants(learning)
        found = sw.certify(
            {**learned, **rules},
            judging,
            learning=learning,
            simple=rules,
            today=today,
            discount=source.discount,
            part=0.5,
        )
        deployed, before = found.policy is not None, value
        today, value = (found.policy, worth(found.policy)) if deployed else (today, value)
        yield {
            "domain": domain,
            "seed": seed,
            "round": number,
            "today": before,
            "deployed": deployed,
            "candidate": found.candidate,
            "way": found.way,
            "step": found.step,
            "low": found.low if deployed else None,
            "value": value,
            "goal": worth(found.goal_policy),
            "seconds": time.perf_counter() - began,
        }


def page(rows: list[dict[str, Any]]) -> str:
    """The table of docs/certified.md."""
    lines = [
        "| domain, episodes a round | after round | runs | worth, mean (least … greatest) | × the first behaviour "
        "| deployed | bound held | worse than before |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for domain, (episodes, _) in DOMAINS.items():
        own = [row for row in rows if row["domain"] == domain]
        first = {row["seed"]: row["today"] for row in own if row["round"] == 1}
        for number in sorted({row["round"] for row in own}):
            these = [row for row in own if row["round"] == number]
            values = [row["value"] for row in these]
            steps = [row for row in these if row["deployed"]]
            held = sum(row["value"] - row["today"] >= row["low"] for row in steps)
            times = sum(row["value"] / first[row["seed"]] for row in these) / len(these)
            worse = sum(row["value"] < row["today"] for row in steps)
            mean = f"{sum(values) / len(values):.4g} ({min(values):.4g} … {max(values):.4g})"
            lines.append(
                f"| {domain}, {episodes} | {number} | {len(these)} | {mean} | {times:.3g} | {len(steps)} "
                f"| {held} | {worse} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", default=",".join(DOMAINS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, default=Path("rounds.json"), help="A line of JSON for every round.")
    parser.add_argument("--out", type=Path, help="Page whose table is renewed.")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.json.read_text().splitlines()] if given.json.is_file() else []
    known = {(row["domain"], row["seed"]) for row in rows}
    asked = [(domain, FIRST + i) for i in range(given.seeds) for domain in given.domains.split(",")]
    asked = [place for place in asked if place not in known]
    if asked:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        with ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            runs = [pool.submit(one, *place, given.rounds, str(given.json)) for place in asked]
            for future in as_completed(runs):
                rows += future.result()
                print(*future.result(), sep="\n", flush=True)
    table = page(rows)
    print(table)
    if given.out is not None:
        renew(given.out, "rounds", table)


if __name__ == "__main__":
    main()
