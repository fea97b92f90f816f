"""A log as its page shows it: what was made of every column, what is wrong and in which rows, and what it holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from statewise.base.harmless import harmless
from statewise.data.columns import listing
from statewise.data.dataset import Dataset
from statewise.data.findings import Finding, Findings
from statewise.data.formats import open_file
from statewise.data.frame import Opened
from statewise.data.rawlog import NAMED, Columns
from statewise.data.roles import guess_roles
from statewise.data.schema import Schema
from statewise.data.summary import Summary, summarise
from statewise.data.table import read
from statewise.propensities.logged import logged_calibration
from statewise.studio.choices import CUT_OFF, ENDS, LEFT_OUT, MENDS, OBSERVED, PROPENSITY, WORDS, Choices
from statewise.studio.folder import StudioError, StudioFolder

FIRST_ROWS = 6
EXAMPLES = 3
LONGEST = 60  # characters of a cell
MISSING = "there is no such column"
PARAMETER = re.compile(r"`(Columns\()?(\w+)=([^`]*?)\)?`")
# parameters of the library, as the page calls the menus that set them: their titles, and what they offer
MENUS = {
    "propensity": ("Probabilities", PROPENSITY),
    "ends": ("Ends of episodes", ENDS),
    "cut_off": ("Cut off means", CUT_OFF),
}


@dataclass(frozen=True)
class ColumnView:
    """A column, what it is taken for, and what becomes of it."""

    name: str
    role: str
    guessed: bool
    becomes: str
    examples: tuple[str, ...]
    fixed: str = ""  # what it is, where no menu can change that
    order: str = ""  # its words from least to most, if it has any
    wordy: bool = False


@dataclass(frozen=True)
class Rows:
    """Some rows of the log, each with its number as an editor counts it."""

    word: str  # line or row
    numbers: tuple[int, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class FindingView:
    """A fault or a note, in the page's words, with the rows that it is about."""

    severity: str
    column: str
    sentence: str
    rows: Rows | None = None
    mends: tuple[tuple[str, str], ...] = ()  # buttons that mend it: what they say, and what they set


@dataclass(frozen=True, eq=False)
class Reading:
    """A log as it was read; `dataset` is None where it has faults."""

    columns: tuple[ColumnView, ...]
    findings: tuple[FindingView, ...]
    first: Rows
    frame: pl.DataFrame | None
    dataset: Dataset | None = None
    summary: Summary | None = None

    @property
    def faults(self) -> list[FindingView]:
        return [finding for finding in self.findings if finding.severity == "fault"]

    @property
    def notes(self) -> list[FindingView]:
        return [finding for finding in self.findings if finding.severity != "fault"]

    @property
    def schema(self) -> Schema | None:
        return None if self.dataset is None else self.dataset.schema


def reading_of(folder: StudioFolder, id: str, first: str | None = None) -> Reading:
    """The log with what was chosen for it; read as the log `first` was, where it follows that one."""
    path, log = folder.log_file(id), folder.log(id)
    choices = Choices.at(folder.choices_file(id if first is None else first))
    schema = None if first is None else reading_of(folder, first).schema
    return _read(path, path.stat().st_mtime_ns, log.name, choices, schema)


@lru_cache(maxsize=4)  # a page is asked for again and again, and a log may be large
def _read(path: Path, _changed: int, name: str, choices: Choices, schema: Schema | None) -> Reading:
    findings = Findings()
    opened = open_file(path, Columns(), findings)
    if opened is None:
        views = tuple(_view(each, path, name, None) for each in findings.items)
        return Reading((), views, Rows("row", (), (), ()), None)
    try:
        arguments = choices.arguments()
    except StudioError as error:
        views = (FindingView("fault", "", f"{error}."),)
        return Reading(_columns(opened, choices, {}, None, None), views, _rows(opened, range(FIRST_ROWS)), opened.frame)
    if schema is not None:
        arguments |= {"schema": schema, "propensity": "logged"}
    dataset, findings = read(path, **arguments)
    if dataset is not None:
        _check_propensities(dataset, arguments["columns"], findings)
    shown = [each for each in findings.items if each.column != "columns" or each.severity == "fault"]
    return Reading(
        columns=_columns(opened, choices, arguments, schema, None if dataset is None else dataset.schema),
        findings=tuple(_view(each, path, name, opened) for each in shown),
        first=_rows(opened, range(FIRST_ROWS)),
        frame=opened.frame,
        dataset=dataset,
        summary=None if dataset is None else summarise(dataset),
    )


def _check_propensities(dataset: Dataset, columns: Columns, findings: Findings) -> None:
    calibration = logged_calibration(dataset)
    if calibration is not None and not calibration.good:
        advice = "If they are not those with which decisions were drawn, estimate them: `propensity='estimate'`"
        findings.warn(columns.propensity, calibration.problem, advice)


# Columns


def _columns(
    opened: Opened, choices: Choices, arguments: dict[str, Any], first: Schema | None, schema: Schema | None
) -> tuple[ColumnView, ...]:
    frame = opened.frame
    columns = arguments.get("columns", Columns()).as_spelt_in(frame.columns)
    columns = columns if first is None else first.over(columns).as_spelt_in(frame.columns)
    ends, estimate = arguments.get("ends"), arguments.get("propensity") == "estimate"
    guess = guess_roles(frame, columns, ends, estimate, first)
    chosen = dict(choices.roles) if first is None else {}
    roles = {getattr(guess.columns, role): role for role in NAMED}
    observed = guess.columns.observations
    prefix = guess.columns.observation_prefix
    sources = observed or tuple(name for name in frame.columns if name.startswith(prefix))
    codes = {} if schema is None else dict(zip(sources, schema.codes, strict=True))
    orders = dict(choices.orders)
    views = []
    for name in frame.columns:
        role = roles.get(name) or (OBSERVED if name in sources else LEFT_OUT)
        role = WORDS if role == OBSERVED and name in guess.columns.words else role
        role = chosen.get(name, role)
        code = codes.get(name)
        words = code is not None and code.kind in ("words", "order")
        why = dict(guess.left_out).get(name, "")
        becomes = code.sentence if code is not None else why if role == LEFT_OUT else _becomes(role, schema)
        views.append(
            ColumnView(
                name=name,
                role=role,
                guessed=name not in chosen and (role in guess.roles or "observations" in guess.roles),
                becomes=becomes,
                examples=_examples(frame[name]),
                fixed=_family(name, guess.columns),
                order=orders.get(name, ""),
                wordy=words,
            )
        )
    return tuple(views)


def _becomes(role: str, schema: Schema | None) -> str:
    if role == "action" and schema is not None and schema.actions:
        return f"one of {', '.join(schema.actions[:8])}{', …' if len(schema.actions) > 8 else ''}"
    if role == "propensity" and schema is not None and schema.propensity == "ignored":
        return "ignored, since probabilities are estimated"
    said = {
        "unit": "is never split between learning and judging",
        "time": "orders the rows of an episode",
        "logger": "tells what is done today from what was done before",
    }
    return said.get(role, "")


def _family(name: str, columns: Columns) -> str:
    """What a column is that belongs to a family by its name, one for each action."""
    prefixes = {columns.distribution_prefix: "probability of", columns.legal_prefix: "whether it was allowed:"}
    for prefix, what in prefixes.items():
        number = name.removeprefix(prefix)
        if name.startswith(prefix) and number.isdecimal():
            return f"{what} action {number}"
    return ""


def _examples(series: pl.Series) -> tuple[str, ...]:
    known = series.drop_nulls().unique(maintain_order=True).head(EXAMPLES)
    return tuple(_cell(value) for value in known.to_list())


# Findings


def _view(finding: Finding, path: Path, name: str, opened: Opened | None) -> FindingView:
    column = name if finding.column == str(path) else finding.column
    place = f" ({finding.where})" if finding.where else ""
    advice = finding.advice if opened is None else finding.advice.replace(listing(opened.frame.columns), "")
    sentence = f"{finding.problem}{place}. {advice}".rstrip(".")
    sentence = harmless(with_menus(sentence.replace(str(path), name)))
    rows = None
    if opened is not None and finding.rows and all(row < opened.frame.height for row in finding.rows):
        rows = _rows(opened, finding.rows)
    missing = finding.severity == "fault" and finding.problem == MISSING
    return FindingView(
        finding.severity, harmless(column), f"{sentence}.", rows, MENDS.get(column, ()) if missing else ()
    )


def with_menus(message: str) -> str:
    """A message of the library, with the page's menus in place of its parameters.

    >>> with_menus("Estimate them: `propensity='estimate'`, or name the column: `Columns(propensity=...)`")
    'Estimate them: “Probabilities: estimate them from the log”, or name the column: the menu of its column'
    """
    return PARAMETER.sub(_menu, message)


def _menu(found: re.Match[str]) -> str:
    if found[1]:
        return "the menu of its column"
    if found[2] not in MENUS:
        return f"“{found[2]}” on the command line"
    title, choices = MENUS[found[2]]
    chosen = choices.get(found[3].strip("'\""))
    return f"“{title}: {chosen}”" if chosen else f"“{title}”"


def _rows(opened: Opened, numbers: Sequence[int]) -> Rows:
    frame, names = opened.frame, opened.row_names
    numbers = tuple(number for number in numbers if number < frame.height)
    part = frame[list(numbers)]
    places = [number if names.places is None else int(names.places[number]) for number in numbers]
    return Rows(
        word=names.word,
        numbers=tuple(place + names.first for place in places),
        columns=tuple(frame.columns),
        cells=tuple(tuple(map(_cell, row)) for row in part.rows()),
    )


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    text = harmless(text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
