"""Finds the columns of a frame by their names; a required column that is missing is a fault."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import polars as pl

from statewise.data.findings import Findings, no_observations
from statewise.data.left_out import why_left_out
from statewise.data.likely import likely_propensities
from statewise.data.rawlog import NAMED, Columns

Propensity = Literal["logged", "estimate"]
Ends = Literal["terminated", "truncated"]

OPTIONAL = ("step", "propensity", "terminated", "truncated", "unit", "logger")
LATER = ("action", "reward", "propensity", "terminated", "truncated")  # unknown before the decision
ALONE = ("action", "propensity")  # roles whose column has no other; a reward may well be the end, or the step


def check_words(propensity: str, ends: str | None) -> None:
    """Refuses what is none of the words that `load` and `scan` know."""
    if propensity not in get_args(Propensity):
        raise ValueError(f"propensity must be one of {get_args(Propensity)}, got {propensity!r}")
    if ends not in (None, *get_args(Ends)):
        raise ValueError(f"ends must be None or one of {get_args(Ends)}, got {ends!r}")


@dataclass(frozen=True)
class Families:
    """The columns of which there are several, by what they hold."""

    observations: list[str]
    distribution: list[str]
    legal: list[str]
    target: list[str]


def find_columns(
    frame: pl.DataFrame, columns: Columns, propensity: Propensity, ends: Ends | None, findings: Findings
) -> Families:
    """Finds every family of columns, and requires the single columns that no log can do without."""
    finder = _Finder(frame, columns, findings)
    families = Families(
        observations=finder.observations(),
        distribution=finder.family(columns.distribution_prefix, "propensity"),
        legal=finder.family(columns.legal_prefix, "legal-action"),
        target=finder.targets(),
    )
    if propensity == "estimate":
        families = finder.set_aside(families)
    needed = {columns.episode, columns.action, columns.reward}
    if propensity == "logged" and not families.distribution:
        needed.add(columns.propensity)
    if ends is None:
        needed.add(columns.terminated)
    usual = Columns()
    # an optional column may be absent, unless the caller named it
    needed |= {getattr(columns, name) for name in OPTIONAL if getattr(columns, name) != getattr(usual, name)}
    finder.require(needed)
    finder.one_role_each()
    return families


def check_declared(columns: Columns, observations: Sequence[str], findings: Findings) -> None:
    """What is said of the words of a column that is no observation would be lost without a word."""
    declared = dict.fromkeys(columns.words, "words") | dict.fromkeys((name for name, _ in columns.orders), "orders")
    for name, setting in declared.items():
        if name not in observations:
            prefixed = columns.observation_prefix + name
            near = [prefixed] if prefixed in observations else difflib.get_close_matches(name, observations, n=1)
            hint = f"Did you mean '{near[0]}'? " if near else f"The observations are {', '.join(observations[:12])}. "
            findings.fault(name, "it is not an observation", f"{hint}Check `Columns({setting}=...)`")


def listing(names: Sequence[str]) -> str:
    """The sentence that lists a log's columns, for those who do not see them."""
    more = len(names) - 12
    return f"The log's columns are {', '.join(names[:12])}{f' and {more} more' if more > 0 else ''}. "


class _Finder:
    """Looks for columns by name; a missing one becomes a fault."""

    def __init__(self, frame: pl.DataFrame, columns: Columns, findings: Findings):
        self.frame, self.columns, self.findings = frame, columns, findings
        self.listed = False  # whether a message has listed the log's columns

    def require(self, names: Iterable[str]) -> None:
        for name in sorted(set(names) - set(self.frame.columns)):
            self.findings.fault(name, "there is no such column", self._missing_advice(name))

    def one_role_each(self) -> None:
        """No column is both the action and its reward."""
        roles: dict[str, list[str]] = {}
        for role in NAMED:
            roles.setdefault(getattr(self.columns, role), []).append(role)
        for name, shared in roles.items():
            if name in self.frame.columns and len(shared) > 1 and not set(ALONE).isdisjoint(shared):
                advice = f"Give each a column of its own: {', '.join(f'`Columns({role}=...)`' for role in shared)}"
                self.findings.fault(name, f"it is given as {' and '.join(shared)}", advice)

    def _columns_once(self) -> str:
        if self.listed:
            return ""
        self.listed = True
        return listing(self.frame.columns)

    def _missing_advice(self, name: str) -> str:
        by_lower = {other.lower().strip(): other for other in self.frame.columns}
        near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
        advice = f"Did you mean '{by_lower[near[0]]}'? " if near else self._columns_once()
        if name == self.columns.propensity:
            likely = likely_propensities(self.frame)
            if likely:
                advice = f"Perhaps '{likely[0]}' holds them: `Columns(propensity={likely[0]!r})`. "
            return advice + "If probabilities were not logged, estimate them: `propensity='estimate'`"
        if name == self.columns.terminated:
            return (
                advice + "If all episodes ended by themselves, use `ends='terminated'`; if cut off, `ends='truncated'`"
            )
        role = next((role for role in NAMED if getattr(self.columns, role) == name), None)
        if role is None:
            return advice + "Check `Columns(observations=...)`"
        return advice + f"Rename the column, or give its name: `Columns({role}=...)`"

    def observations(self) -> list[str]:
        if self.columns.observations is None:
            prefix = self.columns.observation_prefix
            names = [name for name in self.frame.columns if name.startswith(prefix)]
            candidates = () if names else self._candidates()
            # once it is known what was done and earned, the candidates are taken for observations
            to_be_guessed = candidates and not {self.columns.action, self.columns.reward} <= set(self.frame.columns)
            if not names and self.frame.columns and not to_be_guessed:
                self.findings.items.append(no_observations(prefix, candidates))
            return names
        wanted = [name for name in self.columns.observations if name]
        self.require(wanted)
        for name in sorted({name for name in wanted if wanted.count(name) > 1}):
            self.findings.fault(name, "it is listed twice", "List it once in `Columns(observations=...)`")
        for name in sorted({getattr(self.columns, role) for role in LATER} & set(wanted)):
            self.findings.fault(
                name, "it is not known before the decision", "Remove it from `Columns(observations=...)`"
            )
        if self.columns.logger in wanted:
            advice = "Remove it from `Columns(observations=...)`, or call it something else"
            self.findings.fault(self.columns.logger, "it says who decided, not in which state", advice)
        return [name for name in dict.fromkeys(wanted) if name in self.frame.columns]

    def _candidates(self) -> tuple[str, ...]:
        """Columns that could describe the state before the decision; never a reward, an identifier or a probability."""
        other = {getattr(self.columns, name) for name in NAMED}
        families = (
            self.columns.distribution_prefix,
            self.columns.legal_prefix,
            self.columns.target_prefix or "target_",
        )
        free = [name for name in self.frame.columns if name not in other and not name.startswith(families)]
        likely = set(likely_propensities(self.frame))
        names = [name for name in free if name not in likely and why_left_out(self.frame, name, self.columns) is None]
        return tuple(names[:12])

    def family(self, prefix: str, what: str) -> list[str]:
        """Columns `prefix0 … prefixK`; a gap in the numbers is a fault."""
        ends = [name.removeprefix(prefix) for name in self.frame.columns if name.startswith(prefix)]
        numbers = {int(end) for end in ends if re.fullmatch(r"0|[1-9][0-9]{0,8}", end)}
        absent = next((a for a in range(len(numbers)) if a not in numbers), None)
        if absent is None:
            return [f"{prefix}{a}" for a in range(len(numbers))]
        self.findings.fault(f"{prefix}{absent}", "there is no such column", f"Give one {what} column for every action")
        return []

    def targets(self) -> list[str]:
        """Columns of a policy's probabilities, if they are asked for."""
        prefix = self.columns.target_prefix
        if prefix is None:
            return []
        names = self.family(prefix, "target-probability")
        if not names and not self.findings.faults:
            advice = "Give one column for each action, with the probability that the policy takes it"
            self.findings.fault(f"{prefix}0", "there is no such column", advice)
        return names

    def set_aside(self, families: Families) -> Families:
        """Without the logged distributions, and with a warning, where estimates are to replace them."""
        logged = [name for name in (self.columns.propensity, *families.distribution) if name in self.frame.columns]
        if logged:
            advice = "Leave out `propensity='estimate'` to use the logged ones"
            self.findings.warn(logged[0], "logged probabilities are ignored, since estimates were asked for", advice)
        return replace(families, distribution=[])
