"""`statewise inspect`: is this log fit for use, and what does it hold?"""

from __future__ import annotations

from pathlib import Path

import click
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from statewise.base.files import write_text
from statewise.cli.columns import ColumnRow, column_rows, columns_as_json, columns_table
from statewise.cli.config import write_config
from statewise.cli.flags import with_flags
from statewise.cli.options import json_option, log_arguments, log_options
from statewise.cli.scanned import read_any, scan_options
from statewise.cli.terminal import answers, echo_json, messages, note, table
from statewise.cli.types import FilePath
from statewise.data.findings import Finding, Findings
from statewise.data.summary import Spread, Summary, summarise
from statewise.propensities.logged import logged_calibration

WRONG = (
    "Log the probability that each action had in its state when it was drawn; if that was not kept, estimate it: "
    "`propensity='estimate'`"
)

GUESSED = (
    "Roles with a question mark were guessed; the flag beside each changes it. Numbers that are names: --words; words "
    "from least to most: --order."
)


@click.command(epilog="Example: statewise inspect visits.csv --unit-column patient")
@click.argument("log", type=FilePath())
@click.option(
    "--write-config",
    "config_file",
    metavar="FILE",
    type=FilePath(dir_okay=False),
    help="Write how the columns were read to a TOML file, for --config.",
)
@log_options
@scan_options
@json_option
def command(log: Path, config_file: Path | None, as_json: bool, **options) -> None:
    """Check LOG (Parquet, CSV, or a format of your own), and show what it contains and what becomes of every column.

    A folder of Parquet files, or an s3:// address, is one log, which may be larger than memory. Exit code 2 when the
    log has faults.
    """
    arguments = log_arguments(options)
    dataset, findings = read_any(log, arguments, options, messages(quiet=as_json))
    calibration = None if dataset is None else logged_calibration(dataset)
    if calibration is not None and not calibration.good:
        findings.warn(arguments["columns"].propensity, calibration.problem, WRONG)
    summary = None if dataset is None else summarise(dataset)
    schema = None if dataset is None else dataset.schema
    rows = [] if schema is None else column_rows(schema)
    if as_json:
        echo_json(_to_dict(log, findings, summary) | {"columns": columns_as_json(rows)}, indent=2)
    else:
        _show(log, findings, summary, rows)
    if summary is None:
        raise click.exceptions.Exit(2)
    if config_file is not None and schema is not None:
        write_text(config_file, write_config(schema))
        note(messages(quiet=as_json), f"Wrote {config_file}: use it as --config {config_file}")


def _to_dict(log: Path, findings: Findings, summary: Summary | None) -> dict:
    return {
        "log": str(log),
        "usable": summary is not None,
        "faults": [_finding_to_dict(fault) for fault in findings.faults],
        "warnings": [_finding_to_dict(warning) for warning in findings.warnings],
        "summary": None if summary is None else _summary_to_dict(summary),
    }


def _summary_to_dict(summary: Summary) -> dict:
    facts = summary.to_dict()
    facts["reading"]["sentence"] = with_flags(summary.reading.sentence)
    return facts


def _finding_to_dict(finding: Finding) -> dict:
    return finding.to_dict() | {"advice": with_flags(finding.advice)}


def _show(log: Path, findings: Findings, summary: Summary | None, rows: list[ColumnRow]) -> None:
    console = answers(wide=True)
    if summary is None:
        count = len(findings.faults)
        verdict = f"✗ {log.name} cannot be used: {count} fault{'s' if count > 1 else ''}"
        console.print(Text(verdict, "bold red"))
    else:
        console.print(Text(f"✓ {log.name} can be used", "bold green"))
    for fault in findings.faults:
        console.print(_line("fault", "red", fault))
    guessed = any(row.guessed for row in rows)
    for warning in findings.warnings:
        if guessed and warning.column == "columns":
            continue  # the table below says it
        console.print(_line("note", "yellow", warning))
    if summary is not None:
        spreads = _spreads(summary)
        if console.measure(spreads).maximum > console.width:
            spreads = _spreads(summary, left_out=("25 %", "75 %"))  # a number cut short would be another number
        reading = Padding(Text(with_flags(summary.reading.sentence)), (0, 1))
        if not all(row.usual for row in rows):
            console.print()
            console.print(columns_table(rows))
        if guessed:
            console.print()
            console.print(Padding(Text(GUESSED), (0, 1)))
        for each in (_facts(summary), reading, spreads, _observations(summary), _actions(summary)):
            console.print()
            console.print(each)


def _line(word: str, colour: str, finding: Finding) -> Text:
    return Text.assemble((f"  {word}  ", f"bold {colour}"), with_flags(str(finding)), overflow="fold")


def _facts(summary: Summary) -> Table:
    shown = table()
    shown.add_row("episodes", f"{summary.episodes:,}" + (f" of {summary.units:,} units" if summary.units else ""))
    shown.add_row("decisions", f"{summary.steps:,}")
    ends = f"{summary.terminated:,} terminated, {summary.truncated:,} truncated (cut off)"
    shown.add_row("ends", f"{ends}; {summary.final_states:,} final states logged")
    logged = "whole distributions" if summary.whole_distributions else "of the taken action"
    shown.add_row("propensities", logged if summary.propensities else "not logged, to be estimated")
    if summary.legal_masks:
        shown.add_row("legal actions", "masked")
    return shown


def _spreads(summary: Summary, left_out: tuple[str, ...] = ()) -> Table:
    names = ("mean", "std", "least", "5 %", "25 %", "median", "75 %", "95 %", "most")
    shown = table(("", *(name for name in names if name not in left_out)), left=("",), no_wrap=True)
    rows: list[tuple[str, Spread]] = [
        ("episode length", summary.lengths),
        ("episode return", summary.returns),
    ]
    rows.append(("reward", summary.rewards))
    if summary.propensities:
        rows.append(("propensity", summary.propensities))
    for name, spread in rows:
        values = zip(names, (spread.mean, spread.std, *spread.quantiles.values()), strict=True)
        shown.add_row(name, *(f"{value:.4g}" for which, value in values if which not in left_out))
    return shown


def _observations(summary: Summary) -> Table:
    shown = table(("observation", "mean", "std", "least", "most"), left=("observation",))
    columns = list(summary.observations.items())
    for name, numbers in columns[:20]:
        shown.add_row(Text(name), *(f"{value:.4g}" for value in numbers.values()))
    if len(columns) > 20:
        shown.add_row(f"… and {len(columns) - 20} more")
    return shown


def _actions(summary: Summary) -> Table:
    never = ("decisions where it had no chance",) if summary.whole_distributions else ()
    shown = table(("action", "taken", "share", "", *never), left=("action", ""))
    for action in summary.actions[:30]:
        bar = "█" * round(20 * action.share)
        row = [Text(action.name), f"{action.count:,}", f"{action.share:.1%}", f"[cyan]{bar}[/cyan]"]
        if summary.whole_distributions:
            row.append(f"{action.unsupported_steps:,}")
        shown.add_row(*row)
    if len(summary.actions) > 30:
        shown.add_row(f"… and {len(summary.actions) - 30} more")
    return shown
