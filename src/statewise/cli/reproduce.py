"""`statewise reproduce`: the paper's figures and claims, run again, with tables and a manifest."""

from __future__ import annotations

from pathlib import Path

import click

from statewise.cli.options import writable
from statewise.cli.terminal import answers

NAMES = ("hard-example", "cartpole", "hiv", "hiv-selection", "hiv-variants", "where-it-matters")


@click.command(epilog="Example: statewise reproduce cartpole --quick")
@click.argument("name", type=click.Choice(NAMES))
@click.option(
    "--quick", is_flag=True, help="A small run of minutes, to see that all works; its numbers are not results."
)
@click.option("--preset", type=click.Choice(["default", "paper"]), help="Only methods of this preset [default: both].")
@click.option("--methods", default="", metavar="A;B;…", help="Only these methods, by name.")
@click.option("--cells", default="", metavar="A;B;…", help="Only these logs, by name.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder [default: runs/reproduce/NAME].")
@click.option("--docs", type=click.Path(path_type=Path), help="Also put the results into this Markdown page.")
@click.option("--no-run", is_flag=True, help="Only make tables and figures of what was run before.")
def command(
    name: str,
    quick: bool,
    preset: str | None,
    methods: str,
    cells: str,
    out: Path | None,
    docs: Path | None,
    no_run: bool,
) -> None:
    """Run one of the paper's experiments and write figures, tables and a manifest.

    If interrupted, run the same command again to resume: what was finished is not run again. Parts may come from other
    machines (python -m statewise.experiments.run, which needs only the learning libraries).
    """
    from statewise.base.files import write_text
    from statewise.experiments import records
    from statewise.experiments.figures import write_figure
    from statewise.experiments.page import add_to_page, markdown, section
    from statewise.experiments.run import listed, run
    from statewise.experiments.study import named
    from statewise.experiments.tables import tables_of, write_tables

    whole = named(name, quick)
    study = whole.restricted(methods=listed(methods), cells=listed(cells), group=preset)  # pyright: ignore
    out = Path("runs/reproduce") / (f"{name}-quick" if quick else name) if out is None else out
    writable(out / "results.md")
    if not no_run:
        run(study, out, lambda message: click.echo(message, err=True))
    try:
        tables = tables_of(study, out)
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise click.ClickException(f"{out}: {missing} is missing; run the same command without --no-run") from error
    if records.manifest(out) is None:  # a folder put together of parts that ran elsewhere
        records.finish(out, study)
    write_tables(tables, out)
    write_figure(study, tables, out)
    write_text(out / "results.md", section(study, tables, out))
    if docs is not None:
        add_to_page(study, tables, out, docs)
    if "summary" in tables.frames:
        answers().print(markdown(tables.frames["summary"]), soft_wrap=True)
    click.echo(f"{out}/results.md, figure.png, figure.svg, {', '.join(f'{n}.parquet' for n in tables.frames)}")
