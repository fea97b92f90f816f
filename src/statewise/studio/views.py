"""What each page is given to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statewise.ope.sensitivity import sentence as hidden_reason
from statewise.policies.files import load_policy
from statewise.report.page import ANSWERS
from statewise.report.svg import Interval, intervals
from statewise.studio.choices import CUT_OFF, ENDS, LEFT_OUT, OBSERVED, PROPENSITY, ROLES, WORDS, Choices
from statewise.studio.folder import Run, StudioError, StudioFolder
from statewise.studio.reading import reading_of, with_menus
from statewise.studio.rounds import content_of, rounds_up_to
from statewise.studio.runs import Progress, Runs
from statewise.studio.trial import fields_of, tried

PRESETS = {"quick": "A first look", "default": "The real thing"}
BUDGETS = {"": "no limit", "5m": "5 minutes", "30m": "30 minutes", "2h": "2 hours", "8h": "8 hours"}
STATES = {
    "running": ("Working", "accent"),
    "finished": ("Finished", "good"),
    "failed": ("Failed", "bad"),
    "stopped": ("Stopped", "muted"),
    "interrupted": ("Interrupted", "doubtful"),
}
LEARNING = "learning with "
ALGORITHMS = {"opposd": "OPPOSD", "offpac": "Off-PAC", "cql": "CQL", "fitted-q": "fitted Q"}
TITLES = {"propensities": "Estimating probabilities", "certifying": "Testing steps towards what was learned"}
POLICIES = {"policy": "policy.safetensors", "goal": "goal.safetensors"}


def home_view(folder: StudioFolder, runs: Runs) -> dict[str, Any]:
    logs = folder.logs()
    rows = []
    for id, run in folder.runs().items():
        state = runs.progress(id).state
        content = content_of(folder, id) if state == "finished" else None
        rows.append({"id": id, "run": run, "state": state, "content": content, "names": _names(folder, run)})
    used = {log for run in folder.runs().values() for log in run.logs}
    return {
        "runs": rows,
        "logs": {id: log for id, log in logs.items() if id not in used},
        "used": {id: log for id, log in logs.items() if id in used},
        "states": STATES,
        "answers": ANSWERS,
        "folder": folder.path,
    }


def log_view(folder: StudioFolder, runs: Runs, id: str) -> dict[str, Any]:
    log = folder.log(id)
    before = folder.run_before(id)
    reading = reading_of(folder, id, None if before is None else before.logs[0])
    observed = [column for column in reading.columns if column.role in (OBSERVED, WORDS)]
    return {
        "id": id,
        "log": log,
        "reading": reading,
        "sentence": "" if reading.summary is None else with_menus(reading.summary.reading.sentence),
        "choices": Choices.at(folder.choices_file(id)),
        "roles": ROLES,
        "menus": {
            "propensity": ("Probabilities", "How likely was each decision when it was taken?", PROPENSITY),
            "ends": ("Ends of episodes", "How is it known that an episode was over?", ENDS),
            "cut_off": ("Cut off means", "What if a record stops before the end?", CUT_OFF),
        },
        "counts": {
            "used": len(reading.columns) - sum(column.role == LEFT_OUT for column in reading.columns),
            "observed": len(observed),
        },
        "before": before,
        "deployed": None if before is None or log.after is None else deployed_after(folder, runs, log.after),
        "presets": PRESETS,
        "budgets": BUDGETS,
        "busy": runs.running(),
    }


def deployed_after(folder: StudioFolder, runs: Runs, id: str) -> str | None:
    """The newest of this run and those of the rounds before it that has a policy to deploy."""
    chain = [one.id for one in reversed(rounds_up_to(folder, id))]
    return next((one for one in chain if _has(runs, one, POLICIES["policy"])), None)


def start_options(folder: StudioFolder, runs: Runs, id: str, form: Mapping[str, str]) -> dict[str, Any]:
    """What the form below a log asks `Runs.start` for."""
    log = folder.log(id)
    before = folder.run_before(id)
    settings: dict[str, Any] = {}
    if form.get("time_budget"):
        if form["time_budget"] not in BUDGETS:
            raise StudioError("the time limit: choose one from the menu")
        settings["time_budget"] = form["time_budget"]
    discount = form.get("discount", "").strip().replace(",", ".")
    if discount:
        try:
            settings["discount"] = float(discount)
        except ValueError:
            raise StudioError(f"the discount: expected a number such as 0.98, got '{discount}'") from None
        if not 0 < settings["discount"] <= 1:
            raise StudioError(f"the discount: expected a number above 0 and at most 1, got {discount}")
    preset = form.get("preset", "default")
    if preset not in PRESETS:
        raise StudioError("how thorough: choose one of the two")
    return {
        "logs": (id,) if before is None else (*before.logs, id),
        "preset": preset,
        "after": None if before is None else log.after,
        "today": deployed_after(folder, runs, log.after) if log.after and form.get("today") == "policy" else None,
        "settings": settings,
    }


def run_view(folder: StudioFolder, runs: Runs, id: str) -> dict[str, Any]:
    run, progress = folder.run(id), runs.progress(id)
    content = content_of(folder, id) if progress.state == "finished" else None
    tiles = () if content is None else tuple(filter(None, map(content.worth, ("current", "chosen", "gain", "goal"))))
    return {
        "id": id,
        "run": run,
        "names": _names(folder, run),
        "progress": progress,
        "stages": _stages(runs.planned(id), progress),
        "state": STATES[progress.state],
        "content": content,
        "tiles": tiles,
        "answer": None if content is None else ANSWERS[content.answer],
        "hidden_reason": ""
        if content is None or content.hidden_reason is None
        else hidden_reason(content.hidden_reason),
        "deployable": _has(runs, id, "policy.safetensors"),
        "rounds": len(rounds_up_to(folder, id)),
    }


def try_view(folder: StudioFolder, runs: Runs, id: str, row: int, form: Mapping[str, str]) -> dict[str, Any]:
    run = folder.run(id)
    deployable = _has(runs, id, POLICIES["policy"])
    which = form.get("which", "policy" if deployable else "goal")
    policy = load_policy(runs.file(id, POLICIES.get(which, POLICIES["goal"])))
    first, newest = run.logs[0], run.logs[-1]
    there = {first, newest} <= set(folder.logs())
    frame = reading_of(folder, newest, None if newest == first else first).frame if there else None
    rows = 0 if frame is None else frame.height
    row = min(max(1, row), max(1, rows))
    given = {} if form.get("from") == "log" else form
    fields = fields_of(policy, frame, row - 1, given)
    answer, error = None, ""
    try:
        answer = tried(policy, fields)
    except StudioError as mistake:
        error = f"{str(mistake)[:1].upper()}{str(mistake)[1:]}."
    return {
        "id": id,
        "fields": fields,
        "tried": answer,
        "error": error,
        "row": row,
        "rows": rows,
        "which": which,
        "deployable": deployable,
        "names": _names(folder, run),
    }


def rounds_view(folder: StudioFolder, id: str) -> dict[str, Any]:
    rounds = rounds_up_to(folder, id)
    rows = []
    for one in rounds:
        if one.content is None:
            continue
        for role, words, tone in (("current", "today", "current"), ("chosen", "deploy", "good")):
            worth = one.content.worth(role)
            if worth is not None:
                label = f"Round {one.number}: {words}"
                rows.append(Interval(label, worth.value, worth.low, worth.high, tone))
    said = "; ".join(f"{row.label} {'not identified' if row.value is None else f'{row.value:.4g}'}" for row in rows)
    picture = intervals(rows, f"What each round is worth. {said}.") if rows else ""
    return {"id": id, "rounds": rounds, "picture": picture, "answers": ANSWERS}


def _names(folder: StudioFolder, run: Run) -> list[str]:
    return [folder.log_name(log) for log in run.logs]


def _has(runs: Runs, id: str, name: str) -> bool:
    try:
        return runs.file(id, name).is_file()
    except StudioError:
        return False


@dataclass(frozen=True)
class StageView:
    """A stage that is done, being worked on, or still to come."""

    title: str
    state: str
    share: float
    count: str


def _stages(planned: Sequence[str], progress: Progress) -> list[StageView]:
    known = {stage.name: stage for stage in progress.stages}
    names = [name for name in planned if name in known or name not in _passed_over(planned, known)]
    views = []
    for name in dict.fromkeys([*names, *known]):
        stage = known.get(name)
        done = progress.state == "finished" or (stage is not None and stage.done >= stage.total)
        first_open = all(view.state == "done" for view in views)
        state = "done" if done else "now" if first_open and progress.state == "running" else "open"
        count = "" if stage is None else f"{stage.done:,} of {stage.total:,}"
        views.append(StageView(_title(name), state, 0.0 if stage is None else stage.share, count))
    return views


def _passed_over(planned: Sequence[str], known: Mapping[str, Any]) -> set[str]:
    """Stages that a resumed run does not repeat, since a later one has begun."""
    begun = [i for i, name in enumerate(planned) if name in known]
    return set(planned[: max(begun)]) - set(known) if begun else set()


def _title(stage: str) -> str:
    name = stage.removeprefix(LEARNING)
    return f"Learning with {ALGORITHMS.get(name, name)}" if stage.startswith(LEARNING) else TITLES.get(stage, stage)
