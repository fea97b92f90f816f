"""How wide intervals are on one-step logs, beside those of IPS, SNIPS and DR by a plain NumPy script.

python benchmarks/one_step.py [--logs 40] [--first 1000] [--only NAME …] [--json FILE]

The worlds are one-step-2, -5 and -50 of 20,000 and of 500 rows (tests/worlds/one_step.py), and the script is
tests/worlds/plain.py. Of each log, `evaluate`'s 95 % interval is compared with the narrowest of the three, value ± 1.96
standard errors: the median of the quotients of widths over logs on which the policy is supported. Also: how often each
interval contains the truth on those logs. A narrow interval that misses is no merit.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import statewise as sw
from statewise.policies.probabilities import probabilities_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from worlds import WORLDS
from worlds.one_step import SIZES
from worlds.plain import plain_estimates
from worlds.world import World

NAMES = [f"one-step-{actions}-of-{rows}{suffix}" for rows, actions in SIZES for suffix in ("", "-worse")]


def measure(world: World, seed: int) -> dict[str, Any]:
    """Of one log: the verdict, and of each interval its width, and whether the truth lies in it."""
    log = world.log(seed)
    ours = sw.evaluate(world.policy, log)
    chances = probabilities_of(world.policy, log)
    assert log.propensities is not None
    plain = plain_estimates(log.observations, log.actions, log.rewards, log.propensities, chances)
    widths, holds = {"statewise": ours.high - ours.low}, {"statewise": ours.low <= world.truth <= ours.high}
    for name, one in plain.items():
        widths[name], holds[name] = one.width(), abs(one.value - world.truth) <= one.width() / 2
    return {"world": world.name, "seed": seed, "verdict": ours.verdict, "widths": widths, "holds": holds}


def line(name: str, logs: list[dict[str, Any]]) -> str:
    supported = [log for log in logs if log["verdict"] == "supported"]
    counted = f"| {name} | {len(supported)} of {len(logs)} "
    if not supported:
        return counted + "| – | – | – | – | – |"
    methods = list(supported[0]["widths"])
    quotients = [log["widths"]["statewise"] / min(log["widths"][one] for one in methods[1:]) for log in supported]
    cells = [f"{np.median(quotients):.2f}"]
    for method in methods:
        width = np.median([log["widths"][method] for log in supported])
        cells.append(f"{width:.3g} ({100 * np.mean([log['holds'][method] for log in supported]):.0f} %)")
    return counted + "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--json", type=Path, help="where what was measured is kept")
    options = parser.parse_args()
    print("| world | supported | width, of the best of three | statewise | IPS | SNIPS | DR |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    kept = []
    for name in options.only:
        logs = [measure(WORLDS[name], options.first + i) for i in range(options.logs)]
        print(line(name, logs), flush=True)
        kept += logs
    if options.json is not None:
        options.json.write_text(json.dumps(kept, default=float))


if __name__ == "__main__":
    main()
