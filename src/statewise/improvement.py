"""`improve`: a log in, a decision out: learn, walk towards what was learned, and write down what may be deployed.

The log is split in two by whole unit (or episode). Policies are learned on the first half, which also says which of
them promises most and in which order steps towards it are to be tested. The second half, kept out of every choice,
tests those steps against what is done today (`ope.certify`).

run/                    the run of the first algorithm: manifest, metrics, checkpoints (see `learning.runs`)
  beside/<algorithm>/   the runs it is compared with
  policy.safetensors    the policy that may be deployed, if a step was certified
  goal.safetensors      the policy that was learned: what the log vouches for in part
  decision.json         everything that the report says
  report.html           the report

The module is not called `improve`, because importing it would then hide the function of that name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from statewise.algorithms import Settings, name_of
from statewise.base.drawn import drawn
from statewise.data.concat import concat
from statewise.data.dataset import Dataset
from statewise.data.discount import discount_of
from statewise.data.loggers import by_logger
from statewise.learning.apart import Run
from statewise.learning.candidates import OnStage, Stage, last_policies, learn
from statewise.learning.fit import settled
from statewise.learning.runs import RunFolder
from statewise.learning.today import model_of_today
from statewise.ope.certify import Certificate, certify, learning_part
from statewise.ope.next_log import NextLog
from statewise.ope.subgroups import named_columns
from statewise.ope.unlearned import unlearned
from statewise.plan import Plan
from statewise.policies.external import as_target
from statewise.policies.files import StoredPolicy
from statewise.propensities.balanced import together
from statewise.propensities.estimate import estimate_propensities
from statewise.report.content import ReportContent
from statewise.report.decision import from_certificate
from statewise.report.folder import REPORT, curves_of, write_report

FEWEST = 15  # episodes or units: fewer leave too few to judge by
LEARNING = 0.8  # the share of a time budget for learning


@dataclass(frozen=True, eq=False, repr=False)
class Improvement:
    """What may be deployed, what the goal is, what to log next, and where everything was written."""

    certificate: Certificate
    content: ReportContent
    folder: Path
    stopped: tuple[str, ...] = ()  # algorithms whose learning was cut short by the time budget

    @property
    def answer(self) -> str:
        return self.certificate.answer

    @property
    def policy(self) -> Any:
        """What may be deployed; None where no step was certified."""
        return self.certificate.policy

    @property
    def goal(self) -> Any:
        """What was learned."""
        return self.certificate.goal_policy

    @property
    def algorithm(self) -> str:
        """What learned the goal, or the rule that it is."""
        return self.certificate.candidate

    @property
    def next(self) -> NextLog:
        return self.certificate.next

    @property
    def policy_file(self) -> Path | None:
        return None if self.policy is None else RunFolder(self.folder).chosen

    @property
    def goal_file(self) -> Path:
        return RunFolder(self.folder).goal

    @property
    def report(self) -> Path:
        return self.folder / REPORT

    def __str__(self) -> str:
        deploy = "" if self.policy_file is None else f"\n  deploy: {self.policy_file}"
        return f"{self.certificate}{deploy}\n  goal: {self.goal_file}\n  next: {self.next.sentence}\n  {self.report}"

    __repr__ = __str__
    _repr_html_ = drawn("statewise.report.notebook:improvement")
    plot = drawn("statewise.report.plots:improvement", "Draws the path that was tested on matplotlib's axes `ax`.")


def improve(
    log: Dataset | Sequence[Dataset],
    config: Settings | str | None = None,
    *,
    out: str | Path,
    today: Any = None,
    loggers: Sequence[Any] = (),
    plan: Plan | None = None,
    progress: OnStage = lambda stage: None,
) -> Improvement:
    """Learns from a log, certifies a step towards what was learned, and writes policies and report to the folder `out`.

    `log` may be several, oldest first: all are learned from, and the newest is what is done today. So it is with a log
    whose column `logger` names several: its newest logger is what is done today. `config` holds the
    settings of an algorithm, or is its name (default: OPPOSD). `today` is the policy that wrote the newest log, where
    it is known; otherwise it is modelled from the logged probabilities. `loggers` are the policies that wrote the logs,
    or all but the first, whose own is then modelled: with them rows are weighed by the probability under all of them
    together, where that is the more even (`propensities.balanced`). If interrupted, make the same call again to resume,
    with the same logs, settings and plan.

    >>> answer = improve(sw.load("log.csv"), out="runs/first")  # doctest: +SKIP
    >>> answer.answer, answer.certificate.low, answer.next.sentence  # doctest: +SKIP
    """
    plan = Plan() if plan is None else plan
    given = (log,) if isinstance(log, Dataset) else tuple(log)
    logs = tuple(part for one in given for part in by_logger(one))
    concat(logs)  # refuses logs that do not fit together
    named_columns(logs[-1], plan.subgroups or ())
    _check_loggers(loggers, logs, today)
    known = _known(loggers[-1] if loggers else today)
    configs = _configs(logs[-1], config, plan)
    parts = _parts(logs[-1], plan)
    folder = RunFolder.create(out)  # fails before anything is learned if the folder cannot be written
    with folder.locked():
        return _improved(logs, configs, parts, plan, known, loggers, folder.path, progress)


def _improved(
    logs: tuple[Dataset, ...],
    configs: Mapping[str, Settings],
    parts: tuple[Dataset, ...],
    plan: Plan,
    today: Any,
    loggers: Sequence[Any],
    out: Path,
    progress: OnStage,
) -> Improvement:
    newest, discount = logs[-1], next(iter(configs.values())).discount
    deadline = None if plan.time_budget is None else time.monotonic() + LEARNING * plan.time_budget
    learning, judging = (_with_propensities(part, plan, progress) for part in parts)
    older = [_with_propensities(one, plan, progress) for one in logs[:-1]]
    everything = _everything([*older, learning], loggers, plan.seed)
    runs, stopped = learn(everything, _runs(configs, plan, out), deadline, progress)
    rules, consistent = unlearned(learning, judging, plan.seed)
    certificate = certify(
        {**last_policies(runs), **consistent, **rules},
        judging,
        learning=learning,
        simple=rules,
        unlearned=consistent,
        today=today,
        discount=discount,
        level=plan.level,
        seed=plan.seed,
        part=judging.episodes / newest.episodes,
        progress=lambda done, total: progress(Stage("certifying", done, total)),
    )
    content = from_certificate(
        certificate,
        logs=logs,
        learning=learning,
        judging=judging,
        subgroups=plan.subgroups,
        curves=tuple(curve for name, run in runs.items() for curve in curves_of(run, name)),
        settings=_settings(plan, discount, learning, judging, logs),
        notes=tuple(f"The time budget stopped learning with {name} after {when}." for name, when in stopped.items()),
    )
    _write(certificate, content, RunFolder.open(out), newest.fingerprint)
    return Improvement(replace(certificate, judged=None), content, out, tuple(stopped))


def _known(today: Any) -> Any:
    """What is done today, as a policy that can be saved: the file of a step towards the goal holds it too."""
    known = None if today is None else as_target(today)
    if known is not None and not isinstance(known, StoredPolicy):
        raise ValueError(
            f"today: expected a policy that has a file of its own, got a {type(today).__name__}; without `today` it is "
            "modelled from the log"
        )
    return known


def _check_loggers(loggers: Sequence[Any], logs: Sequence[Dataset], today: Any) -> None:
    if not loggers:
        return
    if today is not None:
        raise ValueError("today: the last of `loggers` is what is done today; give one or the other")
    if len(logs) < 2 or len(loggers) not in (len(logs) - 1, len(logs)):
        raise ValueError(
            f"loggers: expected a policy for each of the {len(logs)} logs, or for all but the first, got {len(loggers)}"
        )


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
    """The parts to learn from and to judge by; refuses a log that is too small or has no choice."""
    if log.action_count == 1:
        raise ValueError(
            "the log has a single action, so there is nothing to choose between; if others were possible, load it with "
            "`actions=...`"
        )
    groups = int(log.groups.max()) + 1
    if groups < FEWEST:
        kind = "episode" if log.units is None else "unit"
        which = "the log" if log.logged_by is None else f"the newest logger, {log.logged_by[-1]},"
        raise ValueError(
            f"{which} has {groups} {kind}{'' if groups == 1 else 's'}: it needs at least {FEWEST}, so that training "
            f"and evaluation use separate {kind}s, and a few hundred for an answer"
        )
    return log.split(learning_part(log), seed=plan.seed)


def _with_propensities(part: Dataset, plan: Plan, progress: OnStage) -> Dataset:
    """The part with its propensities; where they must be estimated, each part is estimated without the others."""
    if part.propensities is not None and part.estimated is None:
        return part
    model: Any = plan.propensities if part.estimated is None else part.estimated.model
    return estimate_propensities(
        part, model, seed=plan.seed, progress=lambda done: progress(Stage("propensities", done, 5))
    )


def _everything(logs: Sequence[Dataset], loggers: Sequence[Any], seed: int) -> Dataset:
    """All that is learned from, each row with its own propensity, or weighed together where the loggers are known.

    Estimated propensities count as known, to learn.
    """
    if len(logs) == 1:
        return logs[0]
    known = [replace(one, estimated=None) for one in logs]
    if not loggers:
        return concat(known)
    first = [] if len(loggers) == len(logs) else [model_of_today(known[0], seed)]
    return together(known, [*first, *loggers])


def _runs(configs: Mapping[str, Settings], plan: Plan, out: Path) -> dict[str, Run]:
    """What is to be learned: the first algorithm in `out` itself, with all seeds; the others beside it, with one."""
    runs = {}
    for number, (name, config) in enumerate(configs.items()):
        seeds = tuple(range(plan.seed, plan.seed + (plan.seeds if number == 0 else 1)))
        runs[name] = Run(config, seeds, plan.updates, out if number == 0 else out / "beside" / name)
    return runs


def _settings(
    plan: Plan, discount: float | None, learning: Dataset, judging: Dataset, logs: Sequence[Dataset]
) -> dict[str, Any]:
    episodes = {"older logs": sum(log.episodes for log in logs[:-1])} if len(logs) > 1 else {}
    episodes |= {"learning": learning.episodes, "judging": judging.episodes}
    beside = [one if isinstance(one, str) else name_of(one) for one in plan.beside]
    return {**vars(plan), "beside": ", ".join(beside), "discount": discount, "episodes": episodes}


def _write(certificate: Certificate, content: ReportContent, folder: RunFolder, log: str) -> None:
    """Policies, decision and report; the report last, so that where there is one, the rest is there too."""
    goal = certificate.goal_policy
    replace(goal, card={**goal.card, "log": log, "certified": False}).save(folder.goal)
    folder.chosen.unlink(missing_ok=True)
    if certificate.policy is not None:
        card = {**certificate.policy.card, "algorithm": certificate.candidate, "log": log, **certificate.as_card()}
        replace(certificate.policy, card=card).save(folder.chosen)
    write_report(folder, content)
