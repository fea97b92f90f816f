"""`improve`: one log in, one decision out. Learn, choose, judge, and write it down.

The log is cut into three parts by whole unit (or episode): policies are learned on the first, one of them is chosen on
the second, and what it is worth is told on the third, which no choice has seen.

run/                    the run of the first algorithm: manifest, metrics, checkpoints (see `runs`)
  beside/<algorithm>/   those it is compared with
  policy.safetensors    the chosen policy, with a card that says what it is worth
  decision.json         all that the report says
  report.html           the report
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, get_args

from statewise.base.decode import changed
from statewise.base.files import write_text
from statewise.data.dataset import Dataset
from statewise.data.discount import discount_of
from statewise.learning.fit import Progress, fit
from statewise.learning.presets import ALGORITHMS, OWN, preset
from statewise.learning.runs import RunFolder
from statewise.learning.trackers.parquet import write_metrics
from statewise.ope.gate import Decision, gate
from statewise.ope.intervals import standard_error
from statewise.ope.select import Selection, select
from statewise.propensities.estimate import Model, estimate_propensities
from statewise.report.content import ReportContent, to_json
from statewise.report.decided import Candidate, decided
from statewise.report.gather import DECISION, curves_of
from statewise.report.page import render

PARTS = (0.6, 0.2)  # to learn from, to choose by; the rest judges
BESIDE = ("offpac", "behaviour-cloning")  # what the first algorithm is compared with
FEWEST = 15  # episodes or units: three to judge on, below which there is no estimate at all
LEARNING = 0.8  # the share of a time budget that may go into learning
REPORT = "report.html"


@dataclass(frozen=True)
class Plan:
    """How to go from a log to a decision; what is None is chosen by the log."""

    discount: float | None = None
    algorithm: str = "opposd"
    preset: str = "default"  # or `quick`: a first look in half the time
    seeds: int = 2
    updates: int | None = None  # None: the preset's
    time_budget: float | None = None  # seconds; learning stops at a checkpoint when its share is used up
    level: float = 0.95
    propensities: str = "boosting"  # the model of them, where the log holds none
    seed: int = 0  # of the split, and of the first run
    settings: Mapping[str, Any] = field(default_factory=dict)  # changes to the algorithm's settings, by name

    def __post_init__(self) -> None:
        for name, wanted, holds in (
            (
                "discount",
                "a number above 0 and 1 at most",
                self.discount is None or _between(self.discount, 0.0, 1.0, 1.0),
            ),
            ("algorithm", f"one of {', '.join(ALGORITHMS)}", self.algorithm in ALGORITHMS),
            ("seeds", "1 or more", self.seeds >= 1),
            ("preset", f"one of {', '.join(OWN)}", self.preset in OWN),
            ("updates", "1 or more", self.updates is None or self.updates >= 1),
            ("time_budget", "seconds, above 0", self.time_budget is None or _between(self.time_budget, 0.0, math.inf)),
            ("propensities", f"one of {', '.join(get_args(Model))}", self.propensities in get_args(Model)),
            ("level", "a number between 0 and 1", _between(self.level, 0.0, 1.0)),
            ("seed", "0 or more", self.seed >= 0),
        ):
            if not holds:
                raise ValueError(f"'{name}' is {getattr(self, name)!r}, but should be {wanted}")


@dataclass(frozen=True)
class Stage:
    """What is being done, and how much of it."""

    name: str
    done: int
    total: int
    words: str = ""


@dataclass(frozen=True, eq=False)
class Improvement:
    """The decision, the policy it is about, and where everything was written."""

    decision: Decision
    selection: Selection
    algorithm: str
    content: ReportContent
    folder: Path
    stopped: tuple[str, ...] = ()  # the algorithms whose learning the time budget cut short

    @property
    def policy(self) -> Any:
        return self.selection.policy

    @property
    def policy_file(self) -> Path:
        return self.folder / "policy.safetensors"

    @property
    def report(self) -> Path:
        return self.folder / REPORT

    def __str__(self) -> str:
        return f"{self.decision}. Report: {self.report}. Policy: {self.policy_file}"


class _OutOfTime(Exception):
    """The time for learning is used up; what was learned so far is kept."""


def improve(
    log: Dataset, plan: Plan | None = None, *, out: str | Path, progress: Callable[[Stage], None] = lambda stage: None
) -> Improvement:
    """Learns from a log, chooses, judges, and writes policy and report into the folder `out`.

    An interrupted call goes on where it stopped when it is made again with the same log and plan.

    >>> answer = improve(sw.load("log.csv"), out="runs/first")  # doctest: +SKIP
    >>> answer.decision.answer, answer.report  # doctest: +SKIP
    """
    plan = Plan() if plan is None else plan
    plan = replace(plan, discount=discount_of(log, plan.discount))
    configs = _configs(plan)
    parts = _parts(log, plan)
    RunFolder.create(out)  # what cannot be written is found out before anything is learned
    deadline = None if plan.time_budget is None else time.monotonic() + LEARNING * plan.time_budget
    learn, choose, judge = (_with_propensities(part, plan, progress) for part in parts)
    runs, stopped = _learn(learn, configs, plan, Path(out), deadline, progress)
    candidates = {name: _select(name, run, choose, judge, plan, progress) for name, run in runs.items()}
    best = _best(candidates, choose, plan)
    progress(Stage("judging", 0, 1))
    decision = gate(candidates[best].policy, judge, discount=plan.discount, level=plan.level, seed=plan.seed)
    progress(Stage("judging", 1, 1))
    rows = tuple(Candidate(name, chosen, name == best) for name, chosen in candidates.items())
    curves = tuple(curve for name, run in runs.items() for curve in curves_of(run, name))
    content = decided(
        decision,
        rows,
        log=log,
        judge=judge,
        curves=curves,
        settings=_settings(plan, parts),
        notes=tuple(f"The time budget stopped learning by {name} after {words}." for name, words in stopped.items()),
    )
    improvement = Improvement(decision, candidates[best], best, content, Path(out), tuple(stopped))
    _write(improvement, runs[plan.algorithm], log.fingerprint)
    return improvement


def _parts(log: Dataset, plan: Plan) -> tuple[Dataset, ...]:
    """The parts to learn from, to choose by and to judge on; a log from which nothing can come is refused."""
    if log.action_count == 1:
        raise ValueError(
            "the log has a single action, so there is nothing to choose between; if others were possible, load it with "
            "`actions=...`"
        )
    groups = int(log.groups.max()) + 1
    if groups < FEWEST:
        kind = "episode" if log.units is None else "unit"
        has = f"{groups} {kind}{'' if groups == 1 else 's'}"
        raise ValueError(
            f"the log has {has}: to learn, to choose and to judge on different ones takes {FEWEST} at the very least, "
            "and for an answer a few hundred"
        )
    return log.split(*PARTS, seed=plan.seed)


def _with_propensities(part: Dataset, plan: Plan, progress: Callable[[Stage], None]) -> Dataset:
    """The part as it is where propensities were logged; each part is estimated by itself, so that none sees another."""
    if part.propensities is not None and part.estimated is None:
        return part
    model: Any = plan.propensities if part.estimated is None else part.estimated.model
    tell = lambda done: progress(Stage("propensities", done, 5))  # noqa: E731
    return estimate_propensities(part, model, seed=plan.seed, progress=tell)


def _configs(plan: Plan) -> dict[str, Any]:
    """The settings of every algorithm, the plan's own first."""
    names = [plan.algorithm, *(name for name in BESIDE if name != plan.algorithm)]
    configs = {name: preset(plan.preset, name, plan.discount) for name in names}
    return configs | {plan.algorithm: changed(configs[plan.algorithm], plan.settings, "settings")}


def _learn(
    learn: Dataset,
    configs: Mapping[str, Any],
    plan: Plan,
    out: Path,
    deadline: float | None,
    progress: Callable[[Stage], None],
) -> tuple[dict[str, RunFolder], dict[str, str]]:
    """Every algorithm's run, the first one's in the folder itself; and how far those came that had to stop."""
    began = time.monotonic()
    runs, stopped = {}, {}
    for i, (name, config) in enumerate(configs.items()):
        first = name == plan.algorithm
        folder = out if first else out / "beside" / name
        # the first algorithm gets two thirds of the time, and what it leaves goes to the others
        part = None if deadline is None else began + (deadline - began) * (2 / 3 if i == 0 else 1)

        def told(told: Progress, name: str = name, part: float | None = part) -> None:
            # NaN says that the algorithm has no critic
            words = "" if math.isnan(told.value) else f"V̂(s₀) {told.value:.4g}"
            late = part is not None and time.monotonic() > part and told.update < told.updates
            words = "stopped by the time budget" if late else words
            progress(Stage(f"learning by {name}", told.update, told.updates, words))
            if late:
                raise _OutOfTime(f"{told.update:,} of {told.updates:,} updates")

        seeds = range(plan.seed, plan.seed + (plan.seeds if first else 1))
        try:
            fit(learn, config, seeds=tuple(seeds), updates=plan.updates, out=folder, progress=told)
        except _OutOfTime as out_of_time:
            stopped[name] = str(out_of_time)
        runs[name] = RunFolder.open(folder)
        write_metrics(runs[name])
    return runs, stopped


def _select(
    name: str,
    run: RunFolder,
    choose: Dataset,
    judge: Dataset,
    plan: Plan,
    progress: Callable[[Stage], None],
) -> Selection:
    total = len(run.policies())
    tell = lambda done: progress(Stage(f"choosing by {name}", done, total))  # noqa: E731
    return select(run, choose, judge, discount=plan.discount, level=plan.level, seed=plan.seed, progress=tell)


def _best(candidates: Mapping[str, Selection], choose: Dataset, plan: Plan) -> str:
    """The first algorithm's policy, unless another's is better on the choosing episodes beyond what chance would do."""
    scores = {name: one.scores[one.seed, one.update] for name, one in candidates.items()}
    first, best = scores[plan.algorithm], plan.algorithm
    if not first.identified:
        return best
    bar = NormalDist().inv_cdf(plan.level)
    for name, score in scores.items():
        error = standard_error(score.influence - first.influence, choose.groups)
        if score.identified and score.value - first.value > bar * error and score.low > scores[best].low:
            best = name
    return best


def _between(number: Any, low: float, high: float, most: float | None = None) -> bool:
    """Above `low` and below `high`, or `most` itself."""
    known = isinstance(number, int | float) and not isinstance(number, bool)
    return known and (low < number < high or number == most)


def _settings(plan: Plan, parts: tuple[Dataset, ...]) -> dict[str, Any]:
    episodes = dict(zip(("learning", "choosing", "judging"), (part.episodes for part in parts), strict=True))
    return {**{name: getattr(plan, name) for name in plan.__dataclass_fields__}, "episodes": episodes}


def _write(improvement: Improvement, folder: RunFolder, log: str) -> None:
    """Policy, decision and report; the report last, so that where there is one there is all of it."""
    estimate, policy = improvement.selection.estimate, improvement.policy
    told = {
        "answer": improvement.decision.answer,
        "estimator": estimate.estimator,
        "verdict": estimate.verdict,
        "reason": estimate.reason,
        "discount": estimate.discount,
    }
    if estimate.identified:
        told |= {"value": estimate.value, "low": estimate.low, "high": estimate.high, "level": estimate.level}
    replace(policy, card={**policy.card, "log": log, "estimate": told}).save(improvement.policy_file)
    write_text(folder.path / DECISION, to_json(improvement.content))
    page = render(replace(improvement.content, manifest=folder.manifest(), folder=folder.path.name))
    write_text(improvement.report, page)
