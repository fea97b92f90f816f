"""`statewise reproduce`: the paper's figures and claims, run again, with tables and a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from statewise.cli.backend import backend_options
from statewise.cli.options import writable
from statewise.cli.terminal import answers
from statewise.cli.types import FilePath
from statewise.experiments.paper import Preset, study_names


@click.command(epilog="Example: statewise reproduce cartpole --quick")
@click.argument("name", type=click.Choice(study_names()))
@click.option(
    "--quick",
    is_flag=True,
    help="A small run that takes minutes, to see that everything works; its numbers are not results.",
)
@click.option("--preset", type=click.Choice(get_args(Preset)), help="Only methods with this preset [default: both].")
@click.option("--methods", default="", metavar="A;B;…", help="Only these methods, by name.")
@click.option("--cells", default="", metavar="A;B;…", help="Only these logs, by name.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    help="For safe-improvement, certified and rounds: how many share the work [default: 1].",
)
@click.option("--out", type=FilePath(), help="Folder [default: runs/reproduce/NAME].")
@click.option("--docs", type=FilePath(), help="Also put the results into this Markdown page.")
@click.option("--no-run", is_flag=True, help="Only make tables and figures from earlier runs.")
@backend_options
def command(
    name: str,
    quick: bool,
    preset: Preset | None,
    methods: str,
    cells: str,
    processes: int,
    out: Path | None,
    docs: Path | None,
    no_run: bool,
) -> None:
    """Run one of the paper's experiments and write figures, tables and a manifest.

    If interrupted, run the same command again to resume: what was finished is not run again. Parts may come from other
    machines (python -m statewise.experiments.run, which needs only the learning libraries).
    """
    from statewise.base.files import write_text
    from statewise.experiments import manifest
    from statewise.experiments.plots import write_figure
    from statewise.experiments.results_page import add_to_page, markdown, section
    from statewise.experiments.run import requested, run
    from statewise.experiments.tables import tables_of, write_tables

    study = requested(name, quick=quick, preset=preset, methods=methods, cells=cells)
    out = Path("runs/reproduce") / (f"{name}-quick" if quick else name) if out is None else out
    writable(out / "results.md")
    if not no_run:
        run(study, out, lambda message: click.echo(message, err=True), processes)
    try:
        tables = tables_of(study, out)
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise click.ClickException(f"{out}: {missing} is missing; run the same command without --no-run") from error
    if manifest.read(out) is None:  # the folder's parts were run elsewhere
        manifest.write(out, study)
    write_tables(tables, out)
    write_figure(study, tables, out)
    write_text(out / "results.md", section(study, tables, out))
    if docs is not None:
        add_to_page(study, tables, out, docs)
    if "summary" in tables.frames:
        answers().print(markdown(tables.frames["summary"]), soft_wrap=True)
    click.echo(f"{out}/results.md, figure.png, figure.svg, {', '.join(f'{n}.parquet' for n in tables.frames)}")
