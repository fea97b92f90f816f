"""What became of every column of a log, and which flag changes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from statewise.data.encoding import Code
from statewise.data.rawlog import Columns
from statewise.data.schema import Schema

MANY = 40  # columns shown


@dataclass(frozen=True)
class ColumnRow:
    """One column of the log."""

    column: str
    role: str  # episode, …, observation, left out
    guessed: bool
    becomes: str
    flag: str

    @property
    def usual(self) -> bool:
        """Whether its name says what it is, and it stays as it is."""
        named = self.column in (self.role, f"{Columns().observation_prefix}{self.column.partition('_')[2]}")
        return named and (self.role != "observation" or self.becomes == Code("").sentence)


def column_rows(schema: Schema) -> list[ColumnRow]:
    """The roles first, then the observations, then what was left out."""
    columns, guessed = schema.columns, schema.guessed
    rows = [
        ColumnRow(getattr(columns, role), role, role in guessed, _becomes(role, schema), f"--{role}-column")
        for role in schema.present
    ]
    sources = columns.observations or tuple(f"{columns.observation_prefix}{code.name}" for code in schema.codes)
    for source, code in zip(sources, schema.codes, strict=True):
        rows.append(ColumnRow(source, "observation", "observations" in guessed, code.sentence, "--observations"))
    for name, reason in schema.left_out:
        rows.append(ColumnRow(name, "left out", "observations" in guessed, reason, "--observations"))
    return rows


def _becomes(role: str, schema: Schema) -> str:
    if role == "action" and schema.actions:
        return f"one of {', '.join(schema.actions[:8])}{', …' if len(schema.actions) > 8 else ''}"
    if role == "propensity" and schema.propensity == "ignored":
        return "ignored: propensities are estimated"
    ordered = "not used, since step orders the rows" if "step" in schema.present else "orders the rows of an episode"
    newest = "tells what is done today from what was done before"
    return {"time": ordered, "unit": "is never split between parts", "logger": newest}.get(role, "")


def columns_table(rows: list[ColumnRow]) -> Table:
    """Guessed roles have a question mark."""
    table = Table(box=None, header_style="bold", pad_edge=True)
    for title in ("column", "is", "becomes", "changed by"):
        table.add_column(title, overflow="fold", no_wrap=title == "changed by")
    for row in rows[:MANY]:
        role = Text(f"{row.role}?" if row.guessed else row.role, "yellow" if row.guessed else "")
        table.add_row(Text(row.column), role, Text(row.becomes), Text(row.flag, "dim"))
    if len(rows) > MANY:
        table.add_row(f"… and {len(rows) - MANY} more")
    return table


def columns_as_json(rows: list[ColumnRow]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]
