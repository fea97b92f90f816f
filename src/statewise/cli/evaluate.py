"""`statewise evaluate`: what a policy would earn, by every estimator, and whether to deploy it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from statewise.cli.backend import backend_options
from statewise.cli.decision import checks_table, decision_as_json, hidden_reason
from statewise.cli.options import json_option, log_options, propensity_model_option, seed_option
from statewise.cli.progress import bar
from statewise.cli.propensities import estimated, propensities_as_json, read_log
from statewise.cli.reward_parts import of_half, parts_as_json, read_parts, reward_parts_option, values
from statewise.cli.scanned import is_scanned, scan_options
from statewise.cli.terminal import answers, coloured, echo_json, messages, note, table
from statewise.cli.types import FilePath, RegisteredName
from statewise.data.dataset import Dataset
from statewise.data.discount import discount_of
from statewise.data.horizon import sentence
from statewise.learning.runs import RunFolder
from statewise.ope.estimate import Estimate
from statewise.ope.estimators import ESTIMATORS, USUAL
from statewise.ope.evaluate import evaluate, prepare
from statewise.ope.gate import Decision, gate
from statewise.ope.reward_sensitivity import RewardPart, reward_sensitivity
from statewise.ope.select import Selection, select
from statewise.policies.external import as_target


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All that is shown."""

    name: str
    log: Path
    episodes: int
    discount: float
    estimates: dict[str, Estimate]
    decision: Decision
    selection: Selection | None
    judged: Dataset
    reward_parts: tuple[RewardPart, ...] | None  # None: they were not asked about

    @property
    def counted(self) -> str:
        """How far the value counts, in one sentence."""
        return sentence(self.judged, self.discount)


@click.command(epilog="Example: statewise evaluate runs/hiv held-out.parquet --discount 0.98")
@click.argument("policy", type=FilePath())
@click.argument("log", type=FilePath(), required=False)
@click.option(
    "--estimator",
    "estimators",
    type=RegisteredName(ESTIMATORS, "estimator", also=("all",)),
    multiple=True,
    help="May be repeated; the gate and the selection of a checkpoint use the first [default: all, or the first alone "
    "where LOG is a folder].",
)
@click.option(
    "--discount",
    type=click.FloatRange(0, 1, min_open=True),
    help="γ [default: the run's, or else 1 or 0.98, depending on the log; inspect says which and why].",
)
@click.option(
    "--target-columns", is_flag=True, help="The policy is in columns target_0, target_1, … of LOG; give LOG alone."
)
@reward_parts_option
@seed_option
@log_options
@scan_options
@propensity_model_option
@json_option
@backend_options
def command(
    policy: Path,
    log: Path | None,
    estimators: tuple[str, ...],
    discount: float | None,
    target_columns: bool,
    reward_parts: dict[str, float] | None,
    seed: int,
    as_json: bool,
    **options,
) -> None:
    """Estimate what POLICY would have earned, from a LOG that another policy wrote.

    POLICY is a run folder, a policy file (.safetensors) or an ONNX file (.onnx). For a run, a checkpoint is selected on
    one half of LOG and evaluated on the other. LOG should contain episodes that the policy was not trained on. If it is
    a folder of Parquet files, or an s3:// address, it may be larger than memory.
    """
    if target_columns:
        policy, log = policy if log is None else log, policy if log is None else log
    if log is None:
        raise click.UsageError("Missing argument 'LOG'. (With --target-columns, LOG alone is enough.)")
    console = messages(quiet=as_json)
    run = RunFolder.open(policy) if policy.is_dir() else None
    target = None if run else as_target("target-columns" if target_columns else policy)
    known_by = run.policy()[0] if run else target  # what a run would act by stands for all of its checkpoints
    dataset, estimate = read_log(log, options, console, "target_" if target_columns else None, policy=known_by)
    _warn_of_training_data(dataset, run, known_by, console)
    parts = read_parts(log, dataset, reward_parts) if reward_parts else {}
    known = run.manifest().get("config", {}).get("discount") if run else None
    gamma = discount_of(dataset, known if discount is None else discount)
    estimators = estimators or ((USUAL,) if is_scanned(log) else ("all",))
    asked = [name for name in (ESTIMATORS if "all" in estimators else estimators) if name != "behaviour"]
    names = tuple(dict.fromkeys(("behaviour", *asked)))
    first = asked[0] if asked else USUAL
    selection, held_out, whole = None, None, dataset.episodes
    if run is not None:
        held_out, dataset = dataset.split(0.5, seed=seed)
        parts = of_half(parts, seed)
    report = estimated(dataset, console, options["propensity_model"]) if estimate else dataset
    if held_out is not None:
        scored = estimated(held_out, console, options["propensity_model"]) if estimate else held_out
        selection = _choose(policy, scored, report, first, gamma, seed, console.quiet)
        target = selection.policy
    estimates, ready = {}, prepare(report, discount=gamma, seed=seed)
    with bar("evaluating", len(names) + 1, quiet=console.quiet) as progress:
        for done, name in enumerate(names, start=1):
            estimates[name] = evaluate(target, ready, name)
            progress(done)
        decision = gate(target, ready, estimator=first, part=dataset.episodes / whole)
    asked_about = reward_sensitivity(target, ready, values(parts), estimator=first) if parts else None
    evaluation = Evaluation(
        name="target columns" if target_columns else str(policy),
        log=log,
        episodes=dataset.episodes,
        discount=gamma,
        estimates=estimates,
        decision=decision,
        selection=selection,
        judged=report,
        reward_parts=asked_about,
    )
    if as_json:
        echo_json(_to_dict(evaluation), indent=2)
    else:
        _show(evaluation)


def _warn_of_training_data(dataset: Dataset, run: RunFolder | None, policy: Any, console: Console) -> None:
    """A policy looks better than it is on the episodes it was trained on."""
    card, manifest = getattr(policy, "card", {}), run.manifest() if run else {}
    if dataset.fingerprint in (card.get("data"), card.get("log"), manifest.get("data")):
        note(console, "the policy was trained on these very episodes and looks better on them than it is; use others")


def _choose(run: Path, scored: Any, report: Any, estimator: str, discount: float, seed: int, quiet: bool) -> Selection:
    policies = RunFolder.open(run).policies()
    with bar("choosing a checkpoint", len(policies), quiet=quiet) as progress:
        return select(policies, scored, report, estimator=estimator, discount=discount, seed=seed, progress=progress)


# Showing


def _show(evaluation: Evaluation) -> None:
    console = answers(wide=True)
    chosen, decision = evaluation.selection, evaluation.decision
    if chosen is not None:
        where = f"Of {len(chosen.scores)} checkpoints, update {chosen.update:,} of seed {chosen.seed}"
        console.print(Text(f"{where}: on the other half of the log, {chosen.reason}."))
    head = (
        f"{evaluation.name} on {evaluation.episodes:,} episodes of {evaluation.log.name}, γ = {evaluation.discount:g}"
    )
    console.print(Text(head, "bold"))
    console.print(Text(evaluation.counted))
    console.print()
    console.print(_estimates_table(evaluation.estimates))
    doubts = {name: one for name, one in evaluation.estimates.items() if one.verdict != "supported"}
    if doubts:
        console.print()
        console.print(_reasons_table(doubts))
    console.print()
    console.print(
        coloured(decision.answer.capitalize()) + Text(f" (by {decision.estimate.estimator}): {decision.reason}.")
    )
    if decision.hidden_reason is not None:
        console.print(Text(hidden_reason(decision)))
    for one in evaluation.reward_parts or ():
        console.print(Text(str(one)))
    if evaluation.reward_parts == ():
        console.print(Text("The answer is not deploy: other weights of the reward have nothing to overturn."))
    console.print()
    console.print(checks_table(decision))


def _estimates_table(estimates: dict[str, Estimate]) -> Table:
    level = next(iter(estimates.values())).level
    interval = f"{100 * level:g} % interval"
    shown = table(("estimator", "value", interval, "effective\nsample", "verdict"), left=("estimator", "verdict"))
    for name, one in estimates.items():
        value, ends = (f"{one.value:.4g}", f"{one.low:.4g} to {one.high:.4g}") if one.identified else ("–", "–")
        shown.add_row(name, value, ends, f"{one.effective_sample_size:.0f}", coloured(one.verdict))
    return shown


def _reasons_table(estimates: dict[str, Estimate]) -> Table:
    shown = table()
    same: dict[tuple[str, str], list[str]] = {}
    for name, one in estimates.items():
        same.setdefault((one.verdict, one.reason), []).append(name)
    for (verdict, reason), names in same.items():
        shown.add_row("\n".join(names), coloured(verdict) + Text(f": {reason}"))
    return shown


def _to_dict(evaluation: Evaluation) -> dict[str, Any]:
    chosen = evaluation.selection
    return {
        "policy": evaluation.name,
        "log": str(evaluation.log),
        "episodes": evaluation.episodes,
        "discount": evaluation.discount,
        "horizon": evaluation.judged.horizon._asdict() | {"sentence": evaluation.counted},
        "estimates": [one.as_dict() for one in evaluation.estimates.values()],
        "gate": decision_as_json(evaluation.decision),
        "reward_parts": parts_as_json(evaluation.reward_parts),
        "selection": None
        if chosen is None
        else {
            "seed": chosen.seed,
            "update": chosen.update,
            "decisive": chosen.decisive,
            "reason": chosen.reason,
            "scores": [
                {"seed": seed, "update": update} | one.as_dict() for (seed, update), one in chosen.scores.items()
            ],
        },
        "propensities": propensities_as_json(evaluation.judged),
    }
