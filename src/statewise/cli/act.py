"""`statewise act`: what a policy would do in each row of a table."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np

from statewise.cli.harmless import harmless
from statewise.cli.options import choose_option, json_option, policy_at, seed_option, writable
from statewise.cli.terminal import echo_json, messages, note
from statewise.cli.types import FilePath, listed
from statewise.data.formats import any_of
from statewise.data.observations import read_observations, table_endings, table_text, write_table
from statewise.data.rawlog import Columns
from statewise.policies.act import codes_of, decide, matched


@click.command(epilog="Example: statewise act runs/cartpole patients.csv --keep patient --out decisions.csv")
@click.argument("policy_path", metavar="POLICY", type=FilePath())
@click.argument("observations", type=FilePath())
@choose_option
@click.option("--keep", metavar="A,B,…", help="Columns to copy into the answer, such as an identifier.")
@click.option("--out", type=FilePath(dir_okay=False), help=f"A {any_of(table_endings())} file.")
@seed_option
@json_option
def command(
    policy_path: Path, observations: Path, choose, keep: str | None, out: Path | None, seed: int, as_json: bool
) -> None:
    """Apply POLICY (a file or a run folder) to each row of OBSERVATIONS (a table, in any format of logs).

    Columns are matched by name, with or without obs_ in front; legal_0, legal_1, … say which actions are allowed. The
    answer has the action, the probability with which it was chosen (log it: the next round needs it) and the
    probability of every action. The same seed gives the same answer.
    """
    if out is not None:
        if out.suffix.lower() not in table_endings():
            raise click.BadParameter(f"{out.name} must end in {any_of(table_endings())}", param_hint="--out")
        writable(out)
    policy, which = policy_at(policy_path)
    table = read_observations(observations)
    codes = codes_of(policy)
    columns = matched([code.name for code in codes], table.names)
    kept = [] if keep is None else listed(keep)
    unknown = [name for name in kept if name not in table.names]
    if unknown:
        raise click.BadParameter(f"{observations} has no column '{unknown[0]}'", param_hint="--keep")
    numbers, notes = table.encoded(codes, list(columns.values()))
    masks = [f"{Columns().legal_prefix}{a}" for a in range(len(policy.action_names))]
    masked = all(name in table.names for name in masks)
    decisions = decide(policy, numbers, np.random.default_rng(seed), choose, table.flags(masks) if masked else None)
    answer = {
        "action": decisions.names,
        "propensity": decisions.propensities,
        **{f"probability_{name}": decisions.probabilities[:, a] for a, name in enumerate(policy.action_names)},
    }
    twice = sorted(set(kept) & set(answer))
    if twice:
        raise click.BadParameter(f"'{twice[0]}' is also a column of the answer; rename it first", param_hint="--keep")
    answer = {name: table.frame[name] for name in kept} | answer
    console = messages()
    used = {*columns.values(), *kept, *(masks if masked else [])}
    if policy_path.is_dir() and policy.card.get("certified") is not False:  # of a goal, `policy_at` has said so
        note(console, f"This is {which}.")
    for each in notes:
        note(console, f"{each}.")
    unused = [name for name in table.names if name not in used]
    if unused:
        note(console, f"Not used: {', '.join(unused)}.")
    if out is None:
        text = table_text(answer, as_json)
        click.echo(harmless(text) if sys.stdout.isatty() else text, nl=as_json)
        return
    write_table(answer, out)
    if as_json:
        echo_json({"out": str(out), "decisions": len(numbers)})
    else:
        click.echo(f"Wrote {out}: {len(numbers):,} decisions")
