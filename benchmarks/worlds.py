"""How often the judge is wrong in worlds that are made to mislead it, each with a known truth.

python benchmarks/worlds.py [--logs 200] [--only NAME …] [--jobs N] [--json FILE] [--out docs/worlds.md]

Each world (`tests/worlds`) is a small problem with a trap, a policy, and the values of both policy and behaviour: exact
by dynamic programming, or simulated where that cannot be (`--truths` computes those again). On every log,
`gate(policy, log)` is asked once.

- *truth − today* is also given in standard errors of the difference, the judge's or plain importance sampling's,
  whichever is less. A gain of two should be found in 80 % of logs.
- *deploy*: how often that was the answer. Where the policy is not better it is false, and should be rare (2.5 %); where
  nobody ever tried what the policy does, it should never be. Where the policy is better, it is what should be found.
- *value* and *difference*: how often the 95 % interval of the policy's value, and of its difference from today's,
  contains the truth, among logs with that verdict. In worlds where what intervals rest on is not so (*no* in the column
  *holds*), only the answer is asked for. Where nearly all logs are *supported*, a few are *weak* because a question
  with a known answer was answered wrongly on them: these are the ones that are off, and say so.
- *beyond*: how many logs had a printed value outside what can be earned: the least and greatest logged reward, at every
  step, to the shortest or longest end.
- *error*: the mean error of the value, and the root mean square in standard errors, which is 1 if they are right.

Cells in bold miss the aim. Reported logs have seeds from 1000 on. Whatever is tuned on these worlds must be tuned on
seeds from 50000 on (`--first 50000`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import statewise as sw
from statewise.policies.probabilities import probabilities_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from worlds import WORLDS
from worlds.limits import TRUTHS
from worlds.world import World, earnable

FIRST = 1000  # seed of the first reported log
AT_ONCE = 5  # logs that a process is handed at a time
SAVING = 10  # seconds between two saves
SIMULATED = 400_000  # episodes behind a simulated truth
FALSE, LEAST, POWER = 0.025, 0.92, 0.8  # the aims
EFFECTIVE = 50  # episodes
CLEAR = 2.0  # standard errors: a gain that should be found
ONE_CORE = {  # of each process
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
Record = dict[str, Any]
Records = dict[str, dict[str, Record]]  # by world and seed


def judged(name: str, seed: int) -> Record:
    """What the gate says of one log."""
    world, start = WORLDS[name], time.perf_counter()
    log = world.log(seed)
    try:
        decision = sw.gate(world.policy, log, discount=world.discount)
    except Exception as error:  # a judge that breaks is counted, and the others still run
        return {"answer": f"{type(error).__name__}: {error}"}
    low, high = earnable(log, world.discount)
    numbers = {
        "value": decision.estimate.value,
        "low": decision.estimate.low,
        "high": decision.estimate.high,
        "error": decision.estimate.standard_error,
        "difference": decision.difference,
        "difference_low": decision.low,
        "difference_high": decision.high,
        "difference_error": decision.standard_error,
        "baseline": decision.baseline.value,
        "baseline_low": decision.baseline.low,
        "baseline_high": decision.baseline.high,
        "plain_error": plain_error(world, log),
        "least": low,
        "most": high,
        "seconds": time.perf_counter() - start,
    }
    words = {"answer": decision.answer, "verdict": decision.estimate.verdict, "reason": decision.reason}
    return words | {key: float(value) if np.isfinite(value) else None for key, value in numbers.items()}


def plain_error(world: World, log: sw.Dataset) -> float:
    """The standard error of the difference by plain importance sampling, which needs no state, critic or ratio.

    Infinite where fewer than `EFFECTIVE` episodes carry it: then it is not known.
    """
    chances = np.take_along_axis(probabilities_of(world.policy, log), log.actions[:, None].astype(int), axis=1)[:, 0]
    with np.errstate(divide="ignore"):
        weights = np.exp(np.add.reduceat(np.log(chances / log.propensities), log.starts[:-1]))
    if weights.sum() ** 2 < EFFECTIVE * (weights**2).sum():
        return np.inf
    returns = log.returns(world.discount)
    added = np.bincount(log.groups, (weights - 1) * (returns - returns.mean()))
    return float(added.std() * np.sqrt(len(added)) / log.episodes)


def some(name: str, seeds: list[int]) -> tuple[str, dict[str, Record]]:
    return name, {str(seed): judged(name, seed) for seed in seeds}


def run(names: Iterable[str], seeds: Iterable[int], jobs: int, known: Records, path: Path | None) -> None:
    """Adds what is not yet known, the first logs of all worlds first; saved now and then, so that a run can go on."""
    wanted = {name: [seed for seed in seeds if str(seed) not in known.get(name, {})] for name in names}
    longest = max(map(len, wanted.values()), default=0)
    blocks = [(name, left[i : i + AT_ONCE]) for i in range(0, longest, AT_ONCE) for name, left in wanted.items()]
    tasks = [(name, block) for name, block in blocks if block]
    total, done, start = sum(map(len, wanted.values())), 0, time.perf_counter()
    saved = start
    os.environ.update(ONE_CORE)  # processes that are spawned inherit it
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for finished in as_completed([pool.submit(some, *task) for task in tasks]):
            name, records = finished.result()
            known.setdefault(name, {}).update(records)
            done += len(records)
            answers = Counter(record["answer"] for record in known[name].values())
            said = ", ".join(f"{answer[:60]} {count}" for answer, count in answers.most_common())
            print(f"{done}/{total} in {time.perf_counter() - start:.0f} s  {name}: {said}", flush=True)
            if path is not None and time.perf_counter() > saved + SAVING:
                save(known, path)
                saved = time.perf_counter()


def save(records: Records, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".part").write_text(json.dumps(records))
    path.with_suffix(".part").replace(path)


def merged(paths: Iterable[Path]) -> Records:
    records: Records = {}
    for path in paths:
        for name, mine in json.loads(path.read_text()).items():
            records.setdefault(name, {}).update(mine)
    return records


HEAD = (
    "world",
    "holds",
    "truth − today (in errors)",
    "deploy",
    "do not",
    "more data",
    "value: supported",
    "value: weak",
    "difference: supported",
    "difference: weak",
    "beyond",
    "error",
)


def row(world: World, records: list[Record]) -> list[str]:
    """One world's line of the table."""
    answers = Counter(record["answer"] for record in records)
    printed = [record for record in records if record.get("verdict") in ("supported", "weak")]
    gap, count = world.truth - world.today, len(records)
    size = abs(gap) / error_of(records)
    share = answers["deploy"] / count
    if world.gain and world.identified:
        missed = world.holds and size >= CLEAR and share < POWER
    else:
        missed = not world.exempt and share > (FALSE if world.identified else 0)
    beyond = sum(not inside(record) for record in printed)
    broken = count - sum(answers[answer] for answer in ("deploy", "do not deploy", "collect more data"))
    cells = [
        world.name + (" (exempt)" if world.exempt else ""),
        "yes" if world.holds else "no",
        f"{gap:+.3g}" + (f" ({np.copysign(size, gap):+.1f})" if 0 < size < np.inf else ""),
        bold(percent(share) + ("" if world.gain else " false" if share else ""), missed),
        percent(answers["do not deploy"] / count),
        percent(answers["collect more data"] / count) + (f", **{broken} failed**" if broken else ""),
    ]
    for truth, prefix in ((world.truth, ""), (gap, "difference_")):
        for verdict in ("supported", "weak"):
            held = [covers(record, prefix, truth) for record in printed if record["verdict"] == verdict]
            cells.append(coverage(held, world.holds) if held else "")
    off = np.array([(record["value"] - world.truth, record["error"]) for record in printed if record["error"]])
    ratio = f"{off[:, 0].mean():+.2g} ({np.sqrt((off[:, 0] ** 2 / off[:, 1] ** 2).mean()):.2g})" if len(off) else ""
    return [*cells, bold(str(beyond), beyond > 0) if beyond else "", ratio]


def coverage(held: list[bool], asked: bool) -> str:
    """Bold below the aim, if not by chance: 1.64 standard errors below 95 %."""
    share, chance = float(np.mean(held)), 0.95 - 1.64 * np.sqrt(0.95 * 0.05 / len(held))
    return bold(f"{percent(share)} of {len(held)}", asked and share < min(LEAST, chance))


def error_of(records: list[Record]) -> float:
    """The standard error of the difference: the judge's or plain importance sampling's, whichever is less."""
    kinds = ([record[name] for record in records if record.get(name)] for name in ("difference_error", "plain_error"))
    return min((float(np.median(errors)) for errors in kinds if errors), default=np.inf)


def inside(record: Record) -> bool:
    slack = 1e-6 * max(abs(record["least"]), abs(record["most"]))
    return record["least"] - slack <= record["value"] <= record["most"] + slack


def covers(record: Record, prefix: str, truth: float) -> bool:
    """An end that is not finite is no bound."""
    low, high = record[f"{prefix}low"], record[f"{prefix}high"]
    slack = 1e-9 * abs(truth)
    return (low is None or low <= truth + slack) and (high is None or truth - slack <= high)


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def bold(text: str, really: bool) -> str:
    return f"**{text}**" if really else text


def table(records: Records, earlier: dict[str, str] | None = None) -> Iterator[str]:
    """The lines of worlds that were not run are those of an earlier page."""
    yield "| " + " | ".join(HEAD) + " |"
    yield "|---|---|" + "---:|" * (len(HEAD) - 2)
    for name, world in WORLDS.items():
        if records.get(name):
            yield "| " + " | ".join(row(world, list(records[name].values()))) + " |"
        elif earlier and name in earlier:
            yield earlier[name]


class Earlier(NamedTuple):
    """What a page says already: the lines of its table by world, and how many logs they are of."""

    lines: dict[str, str]
    counts: list[int]

    @classmethod
    def of(cls, text: str) -> Earlier:
        names = {line.split(" ")[1]: line for line in text.splitlines() if line.startswith("| ")}
        counts = re.search(r"^(\d+)(?: to (\d+))? logs of each world", text, re.M)
        return cls(
            {name: line for name, line in names.items() if name in WORLDS},
            [int(count) for count in counts.groups() if count] if counts else [],
        )


def page(records: Records, earlier: Earlier) -> str:
    title, command, text = (__doc__ or "").split("\n\n", 2)
    counts = sorted({*(len(mine) for mine in records.values()), *earlier.counts})
    logs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    lines = [
        "# Worlds that mislead",
        "",
        title,
        "",
        f"`{command}`",
        "",
        text.strip(),
        "",
        f"{logs} logs of each world:",
    ]
    shown = {*(name for name in records if records[name]), *earlier.lines}
    traps = [f"- **{name}**: {world.trap}" for name, world in WORLDS.items() if name in shown]
    return "\n".join([*lines, "", *table(records, earlier.lines), "", "## The traps", "", *traps]) + "\n"


def simulate() -> None:
    """Computes the truths that dynamic programming cannot give, and writes them where the worlds read them."""
    truths = {}
    for name, world in WORLDS.items():
        if not np.isnan(world.error) and world.error == 0:
            continue
        values = []
        for new in (True, False):
            rng = np.random.default_rng(7)
            parts = [world.play(new, SIMULATED // 40, rng).returns(world.discount) for _ in range(40)]
            values.append(np.concatenate(parts))
        error = max(one.std() for one in values) / np.sqrt(SIMULATED)
        truths[name] = [round(float(number), 4) for number in (*(one.mean() for one in values), error)]
        print(name, truths[name], flush=True)
    TRUTHS.write_text(json.dumps(truths, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the first log")
    parser.add_argument("--only", nargs="*", default=list(WORLDS), help="worlds by name, or by how their names begin")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where results are kept; what is there already is not run again")
    parser.add_argument("--merge", type=Path, nargs="*", default=[], help="further results, of runs elsewhere")
    parser.add_argument("--out", type=Path, help="the page to write")
    parser.add_argument("--keep", action="store_true", help="leave the lines of worlds that were not run on the page")
    parser.add_argument("--truths", action="store_true", help="compute simulated truths again, and nothing else")
    options = parser.parse_args()
    if options.truths:
        simulate()
        return
    known = [path for path in (options.json, *options.merge) if path is not None and path.exists()]
    records = merged(known)
    unknown = [one for one in options.only if not any(name.startswith(one) for name in WORLDS)]
    if unknown:
        parser.error(f"--only: expected names of worlds, got {', '.join(unknown)}; there are {', '.join(WORLDS)}")
    names = [name for name in WORLDS if any(name == one or name.startswith(one) for one in options.only)]
    for name in list(names):
        missing = [library for library in WORLDS[name].needs if find_spec(library) is None]
        if missing and options.logs:
            print(f"{name}: left out, since it needs {', '.join(missing)}")
            names.remove(name)
    run(names, range(options.first, options.first + options.logs), options.jobs, records, options.json)
    if options.json is not None:
        save(records, options.json)
    print(*table(records), sep="\n")
    if options.out is not None:
        earlier = options.out.read_text(encoding="utf-8") if options.keep else ""
        options.out.write_text(page(records, Earlier.of(earlier)), encoding="utf-8")


if __name__ == "__main__":
    main()
