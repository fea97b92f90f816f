"""Which column is what, where the names are not the usual ones: guessed from names and contents, and said so.

A guess is made only for a log that lacks a usual name that it needs, and never against what its owner says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from statewise.data.columns import Ends, Propensity
from statewise.data.encoding import Code
from statewise.data.findings import Finding
from statewise.data.left_out import why_left_out
from statewise.data.likely import SYNONYMS, fits, likely_propensities, normal
from statewise.data.rawlog import NAMED, Columns
from statewise.data.schema import Schema

NEEDED = ("episode", "action", "reward")
# one after the other: what is taken is no candidate for the next
ORDER = ("episode", "unit", "terminated", "truncated", "action", "reward", "propensity", "step", "time")


@dataclass(frozen=True)
class Guess:
    """The columns of a log, how its episodes ended, and what of it was guessed."""

    columns: Columns
    ends: Ends | None
    roles: tuple[str, ...] = ()  # those that were guessed
    left_out: tuple[tuple[str, str], ...] = ()
    codes: Mapping[str, Code] | None = field(default=None)  # by column, where a policy settles them

    def has_propensities(self, names: Sequence[str]) -> bool:
        whole = self.columns.distribution_prefix
        return self.columns.propensity in names or any(_numbered(name, whole) for name in names)

    def _unused(self, names: Sequence[str]) -> list[str]:
        columns = self.columns
        used = {getattr(columns, role) for role in NAMED} | set(columns.observations or ())
        if columns.observations is None:
            used |= {name for name in names if name.startswith(columns.observation_prefix)}
        return [name for name in names if name not in used and not _in_family(name, columns)]

    def warnings(self, observations: Sequence[str]) -> Iterator[Finding]:
        """What was guessed, in one sentence; nothing where nothing was."""
        named = {role: getattr(self.columns, role) for role in self.roles if role in NAMED}
        said = [f"{role} is '{column}' (`Columns({role}=...)`)" for role, column in named.items()]
        if "observations" in self.roles and observations:
            said.append(f"the observations are {', '.join(observations)} (`Columns(observations=...)`)")
        if "ends" in self.roles:
            said.append("every episode is one decision, and ends by itself (`ends=...`)")
        if said:
            out = f". Left out: {', '.join(name for name, _ in self.left_out)}" if self.left_out else ""
            advice = "Check them; each can be changed by the setting in brackets"
            yield Finding("warning", "columns", f"guessed from names and contents: {'; '.join(said)}{out}", advice)

    def schema(
        self, names: Sequence[str], codes: tuple[Code, ...], propensity: Propensity, actions: tuple[str, ...] | None
    ) -> Schema:
        """What the log, whose columns have these names, was read as."""
        logged = self.has_propensities(names)
        return Schema(
            columns=replace(self.columns, target_prefix=None),
            codes=codes,
            ends=self.ends,
            propensity="ignored" if propensity == "estimate" and logged else propensity,
            actions=actions,
            present=tuple(role for role in NAMED if getattr(self.columns, role) in names),
            guessed=self.roles,
            left_out=self.left_out or tuple((name, "not used") for name in self._unused(names)),
            settled=self.codes is not None,
        )


def _in_family(name: str, columns: Columns) -> bool:
    """Whether it is one of `propensity_0`, `legal_0`, `target_0`, …"""
    return any(_numbered(name, prefix) for prefix in (columns.distribution_prefix, columns.legal_prefix, "target_"))


def _numbered(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name.removeprefix(prefix).isdecimal()


def guess_roles(
    frame: pl.DataFrame, columns: Columns, ends: Ends | None, estimate: bool, schema: Schema | None
) -> Guess:
    """The columns as given, and for those that are missing what names and contents suggest."""
    if schema is not None:
        sources = {_source(code.name, columns, frame): code for code in schema.codes}
        columns = replace(columns, observations=tuple(sources))
        return _with_roles(Guess(columns, ends, codes=sources), frame, estimate)
    return _with_roles(Guess(columns, ends), frame, estimate)


def _with_roles(guess: Guess, frame: pl.DataFrame, estimate: bool) -> Guess:
    columns, usual = guess.columns, Columns()
    prefixed = any(name.startswith(columns.observation_prefix) for name in frame.columns)
    observed = columns.observations is not None or prefixed
    lacking = [role for role in NEEDED if getattr(columns, role) not in frame.columns]
    lacking += ["propensity"] * (not estimate and not guess.has_propensities(frame.columns))
    lacking += ["terminated"] * (guess.ends is None and columns.terminated not in frame.columns)
    if frame.height == 0 or (observed and not lacking):
        return guess
    known = {"propensity": estimate or guess.has_propensities(frame.columns), "terminated": guess.ends is not None}
    found: dict[str, str] = {}
    for role in ORDER:
        # what its owner named is not guessed, even if it is not there
        if known.get(role) or getattr(columns, role) in frame.columns or getattr(columns, role) != getattr(usual, role):
            continue
        column = None if role == "time" and columns.step in frame.columns else _likely(role, frame, columns)
        if column is not None:
            # one record for each patient, with no other name for it, or with one that spans patients
            spanning = "episode" in found and role == "unit" and not _within(frame, columns.episode, column)
            alone = role == "unit" and (spanning or columns.episode not in frame.columns)
            found["episode" if alone else role] = column
            columns = replace(columns, **{"episode" if alone else role: column})
    guess = replace(guess, columns=columns, roles=tuple(found))
    if any(getattr(columns, role) not in frame.columns for role in NEEDED):
        return guess  # too little is known to tell what else there is
    if guess.ends is None and columns.terminated not in frame.columns and frame[columns.episode].is_unique().all():
        guess = replace(guess, ends="terminated", roles=(*guess.roles, "ends"))
    return guess if observed else _with_observations(guess, frame)


def _within(frame: pl.DataFrame, episode: str, unit: str) -> bool:
    """Whether every episode is of one unit."""
    return bool((frame.group_by(episode).agg(pl.col(unit).n_unique())[unit] == 1).all())


def _likely(role: str, frame: pl.DataFrame, columns: Columns) -> str | None:
    """The first column whose name is usual for the role, or holds such a name, and whose contents fit."""
    taken = {getattr(columns, other) for other in NAMED} | set(columns.observations or ())
    free = [name for name in frame.columns if name not in taken and not name.startswith(columns.observation_prefix)]
    names = SYNONYMS[role]
    if role == "propensity":
        names = (*(f"{p}_{normal(columns.action)}" for p in ("p", "prob", "pr", "probability")), *names)
    if role == "action":
        names = (*names, *_with_probability(frame))
    exact = [name for known in names for name in free if normal(name) == known]
    partly = [name for known in names for name in free if len(known) > 3 and known in re.split("_", normal(name))]
    candidates = dict.fromkeys([*exact, *partly])
    return next((name for name in candidates if fits(role, frame, name, columns.episode)), None)


def _with_probability(frame: pl.DataFrame) -> list[str]:
    """`template` where there is a `p_template`, unless it is the name of an outcome."""
    named = [normal(name).partition("_")[2] for name in likely_propensities(frame)]
    return [name for name in named if name and name not in SYNONYMS["reward"]]


def _with_observations(guess: Guess, frame: pl.DataFrame) -> Guess:
    """All columns that could describe the state before the decision, and why the others do not."""
    columns = guess.columns
    taken = {getattr(columns, role) for role in NAMED}
    free = [name for name in frame.columns if name not in taken and not _in_family(name, columns)]
    reasons = {name: why_left_out(frame, name, columns) for name in free}
    observations = tuple(name for name, reason in reasons.items() if reason is None)
    if not observations:
        return guess
    return replace(
        guess,
        columns=replace(columns, observations=observations),
        roles=(*guess.roles, "observations"),
        left_out=tuple((name, reason) for name, reason in reasons.items() if reason is not None),
    )


def _source(name: str, columns: Columns, frame: pl.DataFrame) -> str:
    """The column that a policy calls `name`; where there is none, the name, so that it is missed."""
    spelt = {other.lower(): other for other in reversed(frame.columns)}
    for known in (name, columns.observation_prefix + name):
        if known in frame.columns or known.lower() in spelt:
            return known if known in frame.columns else spelt[known.lower()]
    return name
