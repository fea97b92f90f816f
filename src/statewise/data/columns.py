"""Which columns of a frame hold what, by name; a column that is needed and missing is a fault."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from statewise.data.findings import Findings, no_observations
from statewise.data.rawlog import NAMED, Columns

Propensity = Literal["logged", "estimate"]
Ends = Literal["terminated", "truncated"]

OPTIONAL = ("step", "propensity", "terminated", "truncated", "unit")
LATER = ("action", "reward", "propensity", "terminated", "truncated")  # what no one knows before the decision


@dataclass(frozen=True)
class Families:
    """The columns that come in families, by what they hold."""

    observations: list[str]
    distribution: list[str]
    legal: list[str]
    target: list[str]


def find_columns(
    frame: pl.DataFrame, columns: Columns, propensity: Propensity, ends: Ends | None, findings: Findings
) -> Families:
    """Finds every family of columns, and that the single ones are there which the log cannot do without."""
    finder = _Finder(frame, columns, findings)
    found = Families(
        observations=finder.observations(),
        distribution=finder.family(columns.distribution_prefix, "propensity"),
        legal=finder.family(columns.legal_prefix, "legal-action"),
        target=finder.targets(),
    )
    if propensity == "estimate":
        found = finder.set_aside(found)
    needed = {columns.episode, columns.action, columns.reward}
    if propensity == "logged" and not found.distribution:
        needed.add(columns.propensity)
    if ends is None:
        needed.add(columns.terminated)
    usual = Columns()
    # a name that was given must exist; a usual one may be absent
    needed |= {getattr(columns, name) for name in OPTIONAL if getattr(columns, name) != getattr(usual, name)}
    finder.require(needed)
    return found


class _Finder:
    """Looks for columns by name; what is missing becomes a fault."""

    def __init__(self, frame: pl.DataFrame, columns: Columns, findings: Findings):
        self.frame, self.columns, self.findings = frame, columns, findings
        self.listed = False  # whether the reader was told the log's columns

    def require(self, names: Iterable[str]) -> None:
        for name in sorted(set(names) - set(self.frame.columns)):
            self.findings.fault(name, "there is no such column", self._missing_advice(name))

    def _columns_once(self) -> str:
        if self.listed:
            return ""
        self.listed = True
        names = self.frame.columns
        return f"The log has {', '.join(names[:12])}{f' and {len(names) - 12} more' if len(names) > 12 else ''}. "

    def _missing_advice(self, name: str) -> str:
        by_lower = {other.lower().strip(): other for other in self.frame.columns}
        near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
        advice = f"Did you mean '{by_lower[near[0]]}'? " if near else self._columns_once()
        if name == self.columns.propensity:
            return advice + "Where probabilities were not logged they can be estimated: `propensity='estimate'`"
        if name == self.columns.terminated:
            return advice + (
                "If every episode ended by itself, say `ends='terminated'`; if it was only cut off, `ends='truncated'`"
            )
        role = next((role for role in NAMED if getattr(self.columns, role) == name), None)
        if role is None:
            return advice + "Check `Columns(observations=...)`"
        return advice + f"Rename the column, or say what it is called: `Columns({role}=...)`"

    def observations(self) -> list[str]:
        if self.columns.observations is None:
            prefix = self.columns.observation_prefix
            found = [name for name in self.frame.columns if name.startswith(prefix)]
            if not found and self.frame.columns:
                self.findings.items.append(no_observations(prefix, self._numeric_columns()))
            return found
        wanted = [name for name in self.columns.observations if name]
        self.require(wanted)
        for name in sorted({name for name in wanted if wanted.count(name) > 1}):
            self.findings.fault(name, "it is listed twice", "Check `Columns(observations=...)`")
        for name in sorted({getattr(self.columns, role) for role in LATER} & set(wanted)):
            self.findings.fault(
                name, "it is not known before the decision", "Take it out of `Columns(observations=...)`"
            )
        return [name for name in dict.fromkeys(wanted) if name in self.frame.columns]

    def _numeric_columns(self) -> tuple[str, ...]:
        """Which columns could be the state: those of numbers that are nothing else."""
        other = {getattr(self.columns, name) for name in NAMED}
        families = (
            self.columns.distribution_prefix,
            self.columns.legal_prefix,
            self.columns.target_prefix or "target_",
        )
        names = [
            name
            for name, kind in self.frame.schema.items()
            if kind.is_numeric() and name not in other and not name.startswith(families)
        ]
        return tuple(names[:12])

    def family(self, prefix: str, what: str) -> list[str]:
        """Columns `prefix0 … prefixK`; a hole in the numbering is a fault."""
        ends = [name.removeprefix(prefix) for name in self.frame.columns if name.startswith(prefix)]
        numbers = {int(end) for end in ends if re.fullmatch(r"0|[1-9][0-9]{0,8}", end)}
        absent = next((a for a in range(len(numbers)) if a not in numbers), None)
        if absent is None:
            return [f"{prefix}{a}" for a in range(len(numbers))]
        self.findings.fault(f"{prefix}{absent}", "there is no such column", f"Give one {what} column for every action")
        return []

    def targets(self) -> list[str]:
        """Columns of a policy's probabilities, where they are asked for."""
        prefix = self.columns.target_prefix
        if prefix is None:
            return []
        found = self.family(prefix, "target-probability")
        if not found and not self.findings.faults:
            advice = "Give the policy's probability of every action, one column each"
            self.findings.fault(f"{prefix}0", "there is no such column", advice)
        return found

    def set_aside(self, found: Families) -> Families:
        """Estimated propensities take the place of logged ones, and that is said."""
        logged = [name for name in (self.columns.propensity, *found.distribution) if name in self.frame.columns]
        if logged:
            advice = "Leave `propensity='estimate'` out to use what was logged"
            self.findings.warn(logged[0], "logged probabilities are set aside for estimated ones", advice)
        return replace(found, distribution=[])
