"""`statewise report`: a run's report, one page."""

from __future__ import annotations

from pathlib import Path

import click

from statewise.base.files import write_text
from statewise.cli.options import json_option, writable
from statewise.cli.terminal import echo_json
from statewise.cli.types import FilePath
from statewise.learning.runs import RunFolder
from statewise.report.folder import from_run
from statewise.report.page import render


@click.command(epilog="Example: statewise report runs/cartpole --out report.html")
@click.argument("run", type=FilePath())
@click.option("--out", type=FilePath(dir_okay=False), help="[default: RUN/report.html]")
@json_option
def command(run: Path, out: Path | None, as_json: bool) -> None:
    """Write RUN's report: one HTML file that opens without a network, the answer first.

    A run that was never evaluated gets a page that says so, with its learning curves.
    """
    folder = RunFolder.open(run)
    out = run / "report.html" if out is None else out
    writable(out)
    content = from_run(folder)
    write_text(out, render(content))
    if as_json:
        echo_json({"report": str(out), "answer": content.answer, "because": content.because})
    else:
        click.echo(f"Wrote {out}: {content.answer}. {content.because}")
