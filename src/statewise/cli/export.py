"""`statewise export`: write a policy for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from statewise.base.files import written_whole
from statewise.cli.options import json_option, policy_at, writable
from statewise.cli.terminal import echo_json
from statewise.cli.types import FilePath, RegisteredName
from statewise.policies.act import codes_of
from statewise.policies.exports import EXPORTS, export_policy


@click.command(epilog="Example: statewise export runs/cartpole --format onnx --out policy.onnx")
@click.argument("source", metavar="RUN|POLICY", type=FilePath())
@click.option(
    "--format",
    "kind",
    type=RegisteredName(EXPORTS),
    required=True,
    help="onnx: for any ONNX runtime; numpy: one Python file that needs NumPy and nothing else.",
)
@click.option(
    "--out",
    type=FilePath(dir_okay=False),
    required=True,
    help="File with the ending of the format: .onnx, .py.",
)
@json_option
def command(source: Path, kind: str, out: Path, as_json: bool) -> None:
    """Write the policy of a run folder or policy file in another format, scaling and softmax included.

    From a run, this is the selected policy if there is one, otherwise the last one of the first seed. The file is
    checked against the policy before it is written.
    """
    ending = EXPORTS[kind].ending
    if out.suffix != ending:
        raise click.BadParameter(f"{out.name} must end in {ending}", param_hint="--out")
    writable(out)
    policy, which = policy_at(source)
    contents = export_policy(policy, kind, out.stem)
    with written_whole(out) as part:
        part.write_bytes(contents)
    if as_json:
        echo_json({"out": str(out), "format": kind, "policy": which, "card": policy.full_card()})
    else:
        click.echo(f"Wrote {out}: {which}, for {', '.join(code.name for code in codes_of(policy))}")
