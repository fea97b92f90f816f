"""`statewise record`: from the record of a served policy to the next log."""

from __future__ import annotations

from pathlib import Path

import click

from statewise.cli.options import json_option, writable
from statewise.cli.terminal import echo_json, messages, note
from statewise.cli.types import FilePath
from statewise.data.findings import Findings
from statewise.data.formats import any_of, writable_endings
from statewise.data.recorded import is_record, read, write


@click.command(epilog="Example: statewise record decisions --out round2.parquet")
@click.argument("folder", type=FilePath())
@click.option(
    "--out",
    type=FilePath(dir_okay=False),
    required=True,
    help=f"A {any_of(writable_endings())} file.",
)
@json_option
def command(folder: Path, out: Path, as_json: bool) -> None:
    """Write the log of FOLDER, where `statewise serve --record` keeps its decisions.

    Episodes go as far as their outcomes were reported. The server may be running.
    """
    if out.suffix.lower() not in writable_endings():
        raise click.BadParameter(f"{out.name} must end in {any_of(writable_endings())}", param_hint="--out")
    if not is_record(folder):
        raise click.BadParameter(f"{folder} is not a folder that `statewise serve --record` has written to")
    writable(out)
    findings = Findings()
    record = read(folder, findings)
    findings.raise_faults()
    assert record is not None
    opened, counts = record
    for warning in findings.warnings:
        note(messages(quiet=as_json), str(warning))
    if not counts.episodes:
        raise click.ClickException(f"{folder}: no outcome of its {counts.decisions:,} decisions has been reported yet")
    write(opened, out)
    if as_json:
        echo_json({"log": str(out), **counts._asdict()})
    else:
        click.echo(
            f"Wrote {out}: {counts.episodes:,} episodes; the record has {counts.decisions:,} decisions, "
            f"{counts.outcomes:,} with an outcome"
        )
