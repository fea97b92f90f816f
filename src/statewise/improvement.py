"""`improve`: one log in, one decision out: learn, choose, evaluate, and write it down.

The log is split into three parts by whole unit (or episode): policies are learned on the first, one of them is chosen
on the second, and evaluated on the third, which no choice has seen.

run/                    the run of the first algorithm: manifest, metrics, checkpoints (see `learning.runs`)
  beside/<algorithm>/   the runs it is compared with
  policy.safetensors    the chosen policy, with its value on its card
  decision.json         everything that the report says
  report.html           the report

The module is not called `improve`, because importing it would then hide the function of that name.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, get_args

from statewise.algorithms import Settings, name_of
from statewise.data.dataset import Dataset
from statewise.data.discount import discount_of
from statewise.learning.fit import Progress, fit, settled
from statewise.learning.runs import RunFolder
from statewise.learning.trackers.parquet import write_metrics
from statewise.ope.gate import Decision, gate
from statewise.ope.quotient import standard_error
from statewise.ope.select import Selection, choose
from statewise.propensities.crossfit import Model
from statewise.propensities.estimate import estimate_propensities
from statewise.report.content import ReportContent
from statewise.report.decision import Candidate, from_decision
from statewise.report.folder import REPORT, curves_of, write_report

PARTS = (0.6, 0.2)  # to learn from, to choose by; the rest evaluates
FEWEST = 15  # episodes or units: leaves three to evaluate on, the fewest that allow an estimate
LEARNING = 0.8  # the share of a time budget for learning
FIRST = 2 / 3  # of that, the share of the first algorithm


@dataclass(frozen=True)
class Plan:
    """How to go from a log to a decision; what is None follows from the log."""

    discount: float | None = None
    beside: tuple[Any, ...] = ("offpac", "behaviour-cloning")  # algorithms to compare with, as settings or names
    seeds: int = 2
    updates: int | None = None  # None: as in the settings
    time_budget: float | None = None  # seconds; learning stops at the first checkpoint after its share
    level: float = 0.95
    propensities: str = "boosting"  # the model that estimates them, if the log has none
    seed: int = 0  # of the split, and of the first run

    def __post_init__(self) -> None:
        models = get_args(Model)
        for name, expected, holds in (
            ("seeds", "1 or more", self.seeds >= 1),
            ("updates", "1 or more", self.updates is None or self.updates >= 1),
            ("time_budget", "seconds, above 0", self.time_budget is None or 0 < self.time_budget < math.inf),
            ("propensities", f"one of {', '.join(models)}", self.propensities in models),
            ("level", "a number between 0 and 1", 0 < self.level < 1),
            ("seed", "0 or more", self.seed >= 0),
            ("discount", "a number above 0 and at most 1", self.discount is None or 0 < self.discount <= 1),
        ):
            if not holds:
                raise ValueError(f"{name}: expected {expected}, got {getattr(self, name)!r}")


@dataclass(frozen=True)
class Stage:
    """What is being done, and how much of it is done."""

    name: str
    done: int
    total: int
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Improvement:
    """The decision, the policy that it is about, and where everything was written."""

    decision: Decision
    selection: Selection
    algorithm: str
    content: ReportContent
    folder: Path
    stopped: tuple[str, ...] = ()  # algorithms whose learning was cut short by the time budget

    @property
    def policy(self) -> Any:
        return self.selection.policy

    @property
    def policy_file(self) -> Path:
        return RunFolder(self.folder).chosen

    @property
    def report(self) -> Path:
        return self.folder / REPORT

    def __str__(self) -> str:
        return f"{self.decision}\n  report: {self.report}\n  policy: {self.policy_file}"

    __repr__ = __str__


class _OutOfTime(Exception):
    """The time for learning is up; what was learned so far is kept."""


OnStage = Callable[[Stage], None]


def improve(
    log: Dataset,
    config: Settings | str | None = None,
    *,
    out: str | Path,
    plan: Plan | None = None,
    progress: OnStage = lambda stage: None,
) -> Improvement:
    """Learns from a log, chooses a policy, evaluates it, and writes policy and report to the folder `out`.

    `config` holds the settings of an algorithm, or is its name (default: OPPOSD). If interrupted, make the same call
    again to resume, with the same log, settings and plan.

    >>> answer = improve(sw.load("log.csv"), out="runs/first")  # doctest: +SKIP
    >>> answer.decision.answer, answer.report  # doctest: +SKIP
    """
    plan = Plan() if plan is None else plan
    configs = _configs(log, config, plan)
    parts = _parts(log, plan)
    folder = RunFolder.create(out)  # fails before anything is learned if the folder cannot be written
    with folder.locked():
        return _improved(log, configs, parts, plan, folder.path, progress)


def _improved(
    log: Dataset,
    configs: Mapping[str, Settings],
    parts: tuple[Dataset, ...],
    plan: Plan,
    out: Path,
    progress: OnStage,
) -> Improvement:
    first, discount = next(iter(configs)), next(iter(configs.values())).discount
    deadline = None if plan.time_budget is None else time.monotonic() + LEARNING * plan.time_budget
    learning, choosing, judging = (_with_propensities(part, plan, progress) for part in parts)
    runs, stopped = _learn(learning, configs, plan, Path(out), deadline, progress)
    chosen = {name: _choose(name, run, choosing, discount, plan, progress) for name, run in runs.items()}
    best = _best(chosen, first, choosing, plan)
    decisions = {}
    share = judging.episodes / log.episodes
    for done, (name, selection) in enumerate(chosen.items()):
        progress(Stage("evaluating", done, len(chosen)))
        decisions[name] = gate(
            selection.policy, judging, discount=discount, level=plan.level, seed=plan.seed, part=share
        )
    progress(Stage("evaluating", len(chosen), len(chosen)))
    content = from_decision(
        decisions[best],
        tuple(Candidate(name, chosen[name], decisions[name].estimate, name == best) for name in chosen),
        log=log,
        judging=judging,
        curves=tuple(curve for name, run in runs.items() for curve in curves_of(run, name)),
        settings=_settings(plan, discount, parts),
        notes=tuple(f"The time budget stopped learning with {name} after {when}." for name, when in stopped.items()),
    )
    _write(chosen[best].policy, decisions[best], content, RunFolder.open(out), log.fingerprint)
    return Improvement(decisions[best], chosen[best], best, content, Path(out), tuple(stopped))


def _configs(log: Dataset, config: Settings | str | None, plan: Plan) -> dict[str, Settings]:
    """The settings of every algorithm by name, the requested one first; all have the same discount."""
    first = settled(config, log)
    own = None if config is None or isinstance(config, str) else config.discount
    if plan.discount is not None and own not in (None, plan.discount):
        raise ValueError(f"discount: the settings say {own}, the plan {plan.discount}; set it in one of them")
    discount = discount_of(log, plan.discount if own is None else own)
    configs = {name_of(first): replace(first, discount=discount)}  # pyright: ignore[reportArgumentType]
    for one in plan.beside:
        other: Any = settled(one, log)
        configs.setdefault(name_of(other), replace(other, discount=discount))
    return configs


def _parts(log: Dataset, plan: Plan) -> tuple[Dataset, ...]:
    """The parts to learn from, to choose by and to evaluate on; refuses a log that is too small or has no choice."""
    if log.action_count == 1:
        raise ValueError(
            "the log has a single action, so there is nothing to choose between; if others were possible, load it with "
            "`actions=...`"
        )
    groups = int(log.groups.max()) + 1
    if groups < FEWEST:
        kind = "episode" if log.units is None else "unit"
        raise ValueError(
            f"the log has {groups} {kind}{'' if groups == 1 else 's'}: it needs at least {FEWEST}, so that training, "
            f"selection and evaluation use separate {kind}s, and a few hundred for an answer"
        )
    return log.split(*PARTS, seed=plan.seed)


def _with_propensities(part: Dataset, plan: Plan, progress: OnStage) -> Dataset:
    """The part with its propensities; where they must be estimated, each part is estimated without the others."""
    if part.propensities is not None and part.estimated is None:
        return part
    model: Any = plan.propensities if part.estimated is None else part.estimated.model
    return estimate_propensities(
        part, model, seed=plan.seed, progress=lambda done: progress(Stage("propensities", done, 5))
    )


def _learn(
    learning: Dataset,
    configs: Mapping[str, Settings],
    plan: Plan,
    out: Path,
    deadline: float | None,
    progress: OnStage,
) -> tuple[dict[str, RunFolder], dict[str, str]]:
    """Every algorithm's run, the first in `out` itself; and how far those got that ran out of time."""
    began = time.monotonic()
    runs, stopped = {}, {}
    for i, (name, config) in enumerate(configs.items()):
        folder = out if i == 0 else out / "beside" / name
        # time that the first algorithm does not use goes to the others
        until = None if deadline is None else began + (deadline - began) * (FIRST if i == 0 else 1)
        seeds = tuple(range(plan.seed, plan.seed + (plan.seeds if i == 0 else 1)))
        watch = _watch(name, until, progress)
        try:
            fit(learning, config, seeds=seeds, updates=plan.updates, out=folder, progress=watch)
        except _OutOfTime as out_of_time:
            stopped[name] = str(out_of_time)
        runs[name] = RunFolder.open(folder)
        write_metrics(runs[name])
    return runs, stopped


def _watch(name: str, until: float | None, progress: OnStage) -> Callable[[Progress], None]:
    """Reports progress, and stops learning at a checkpoint when its time is up."""

    def watch(learned: Progress) -> None:
        # NaN: the algorithm has no critic
        note = "" if math.isnan(learned.value) else f"V̂(s₀) {learned.value:.4g}"
        late = until is not None and time.monotonic() > until and learned.update < learned.updates
        note = "stopped by the time budget" if late else note
        progress(Stage(f"learning with {name}", learned.update, learned.updates, note))
        if late:
            raise _OutOfTime(f"{learned.update:,} of {learned.updates:,} updates")

    return watch


def _choose(
    name: str, run: RunFolder, choosing: Dataset, discount: float | None, plan: Plan, progress: OnStage
) -> Selection:
    policies = run.policies()
    return choose(
        policies,
        choosing,
        discount=discount,
        level=plan.level,
        seed=plan.seed,
        progress=lambda done: progress(Stage(f"choosing from {name}", done, len(policies))),
    )


def _best(chosen: Mapping[str, Selection], first: str, choosing: Dataset, plan: Plan) -> str:
    """The first algorithm's policy, unless another is better on the choosing episodes by more than chance."""
    scores = {name: one.scores[one.seed, one.update] for name, one in chosen.items()}
    own, best = scores[first], first
    if not own.identified:
        return best
    bar = NormalDist().inv_cdf(plan.level)
    for name, score in scores.items():
        error = standard_error(score.influence - own.influence, choosing.groups)
        if score.identified and score.value - own.value > bar * error and score.low > scores[best].low:
            best = name
    return best


def _settings(plan: Plan, discount: float | None, parts: tuple[Dataset, ...]) -> dict[str, Any]:
    episodes = dict(zip(("learning", "choosing", "judging"), (part.episodes for part in parts), strict=True))
    beside = [one if isinstance(one, str) else name_of(one) for one in plan.beside]
    return {**vars(plan), "beside": ", ".join(beside), "discount": discount, "episodes": episodes}


def _write(policy: Any, decision: Decision, content: ReportContent, folder: RunFolder, log: str) -> None:
    """Policy, decision and report; the report last, so that where there is one, the rest is there too."""
    known = decision.estimate.as_dict()
    known.pop("measures")  # the report has them
    card = {**policy.card, "log": log, "estimate": {"answer": decision.answer, **known}}
    replace(policy, card=card).save(folder.chosen)
    write_report(folder, content)
