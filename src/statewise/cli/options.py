"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import click

from statewise.base.files import check_writable, make_folder
from statewise.cli.config import config_option
from statewise.cli.terminal import messages, note
from statewise.cli.types import Actions, Order, listed
from statewise.data.horizon import CutOff
from statewise.data.rawlog import NAMED, Columns
from statewise.policies.files import StoredPolicy, load_policy
from statewise.propensities.estimate import Model

READ = ("actions", "ends", "cut_off", "horizon", "propensity")  # options that are arguments of `statewise.load`


def log_options(command: Callable) -> Callable:
    """How to read a log; `log_arguments` turns what was given into arguments of `statewise.load`."""
    for name in reversed(NAMED):
        command = click.option(f"--{name}-column", metavar="NAME", help=f"Name of the {name} column.")(command)
    command = click.option(
        "--observations",
        metavar="A,B,…",
        help="Columns that describe the state [default: all named obs_…, or else what `inspect` shows].",
    )(command)
    command = click.option(
        "--words", metavar="A,B,…", help="Observations whose numbers are names, such as ward numbers."
    )(command)
    command = click.option(
        "--order",
        "orders",
        type=Order(),
        multiple=True,
        help="The words of an observation from least to most, such as pain=low,mid,high; may be repeated.",
    )(command)
    command = click.option(
        "--actions",
        type=Actions(),
        help="Number of actions [default: the largest seen plus one], or their names in order, such as A,B,C [default: "
        "those seen, alphabetically].",
    )(command)
    command = click.option(
        "--ends",
        type=click.Choice(["terminated", "truncated"]),
        help="How every episode ended, if no column says so.",
    )(command)
    command = click.option(
        "--cut-off",
        type=click.Choice(get_args(CutOff)),
        help="What it means for an episode to be cut off: at a limit, its record stops, or it goes on [default: what "
        "the log shows].",
    )(command)
    command = click.option(
        "--horizon",
        type=click.IntRange(min=1),
        metavar="STEPS",
        help="Up to which step of an episode the value counts [default: as far as the log shows].",
    )(command)
    if not any(param.name == "config" for param in getattr(command, "__click_params__", ())):
        command = config_option()(command)
    return click.option(
        "--propensity",
        type=click.Choice(["logged", "estimate"]),
        default="logged",
        show_default=True,
        help="Use the logged probabilities of the actions taken, or estimate them.",
    )(command)


def log_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of `log_options` out of `given`."""
    names = {name: given.pop(f"{name}_column") for name in NAMED}
    names = {name: column for name, column in names.items() if column is not None}
    observations = given.pop("observations")
    if observations is not None:
        names["observations"] = listed(observations)
    words = given.pop("words")
    if words is not None:
        names["words"] = listed(words)
    names["orders"] = given.pop("orders")
    return {"columns": Columns(**names)} | {key: given.pop(key) for key in READ}


def writable(path: Path) -> None:
    """Fails before the work is done if its result could not be written."""
    try:
        make_folder(path.parent)
        check_writable(path)
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be written: {error.strerror}", param_hint="--out") from error


seed_option = click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True)
choose_option = click.option(
    "--choose",
    type=click.Choice(["draw", "likeliest"]),
    default="draw",
    show_default=True,
    help="Draw each action with its probability, as the policy was evaluated; or always take the likeliest.",
)
propensity_model_option = click.option(
    "--propensity-model",
    type=click.Choice(get_args(Model)),
    help="How to estimate propensities: gradient-boosted trees or a logistic model [default: boosting].",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")


def policy_at(path: Path) -> tuple[StoredPolicy, str]:
    """The policy of a file or of a run folder, and which one it is."""
    if path.is_dir():
        from statewise.learning.runs import RunFolder  # it waits for JAX, which a policy file does not need

        policy, which = RunFolder.open(path).policy()
    else:
        policy, which = load_policy(path), "the policy in that file"
    if policy.card.get("certified") is False:
        note(
            messages(),
            "This is a goal that no log vouches for yet. policy.safetensors beside it, where there is one, may be "
            "deployed; `statewise certify` finds the best step towards it.",
        )
    return policy, which


def misfit(policy: Any, source: Any) -> str | None:
    """Why a policy cannot be played in a domain; None where it can."""
    sizes = [(len(one.observation_names), len(one.action_names)) for one in (policy, source)]
    if sizes[0] == sizes[1]:
        return None
    (observations, actions), (observed, possible) = sizes
    return f"is for {observations} observations and {actions} actions, the domain has {observed} and {possible}"


def needs(extra: str, *modules: str) -> None:
    """Says which extra to install where a library is missing."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise click.ClickException(f"this needs {', '.join(missing)}: pip install 'statewise[{extra}]'")
