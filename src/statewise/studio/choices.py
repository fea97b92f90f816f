"""What the menus of a log's page say: which column is what, and what no column says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from statewise.base.decode import decode
from statewise.base.files import write_text
from statewise.base.jsonfile import read_json
from statewise.data.rawlog import NAMED, Columns
from statewise.studio.folder import StudioError

OBSERVED, WORDS, LEFT_OUT = "observation", "words", "left out"
# where such a column is missing, the menus that do without it: what a button says, and what it sets
MENDS = {
    "propensity": (("Estimate them from the log", "propensity=estimate"),),
    "terminated": (("Every episode ended by itself", "ends=terminated"), ("All were cut off", "ends=truncated")),
}
# each role as the menus call it
ROLES = {
    "episode": "episode: rows that belong together",
    "unit": "unit: whom it is about",
    "logger": "logger: who decided",
    "step": "number of the step",
    "time": "date or time",
    "action": "decision that was taken",
    "reward": "reward: what should increase",
    "propensity": "probability of the decision",
    "terminated": "whether it ended there",
    "truncated": "whether it was cut off there",
    OBSERVED: "known before the decision",
    WORDS: "known before; numbers are names",
    LEFT_OUT: "not used",
}
PROPENSITY = {"logged": "they are in a column", "estimate": "estimate them from the log"}
ENDS = {
    "": "a column says so",
    "terminated": "every episode ended by itself",
    "truncated": "every episode was cut off",
}
CUT_OFF = {
    "": "what the log shows",
    "limit": "at a limit; what follows does not count",
    "censored": "its record stops, but it went on",
    "continuing": "it goes on for ever",
}


@dataclass(frozen=True)
class Choices:
    """What was chosen; without roles they are found by names and contents."""

    roles: tuple[tuple[str, str], ...] = ()  # of every column
    orders: tuple[tuple[str, str], ...] = ()  # the words of a column from least to most, separated by commas
    propensity: Literal["logged", "estimate"] = "logged"
    ends: Literal["", "terminated", "truncated"] = ""
    cut_off: Literal["", "limit", "censored", "continuing"] = ""

    def arguments(self) -> dict[str, Any]:
        """As `statewise.load` takes them."""
        roles = dict(self.roles)
        twice = next((role for role, count in Counter(roles.values()).items() if count > 1 and role in NAMED), None)
        if twice is not None:
            names = " and ".join(f"'{column}'" for column, role in self.roles if role == twice)
            raise StudioError(f"{names} cannot both be the {twice}: choose something else for one of them")
        named = {role: column for column, role in self.roles if role in NAMED}
        observations = tuple(column for column, role in self.roles if role in (OBSERVED, WORDS))
        columns = Columns(
            **named,
            observations=observations or None,
            words=tuple(column for column, role in self.roles if role == WORDS),
            orders=tuple((name, _listed(name, words)) for name, words in self.orders if name in observations),
        )
        return {
            "columns": columns,
            "propensity": self.propensity,
            "ends": self.ends or None,
            "cut_off": self.cut_off or None,
        }

    def save(self, path: Path) -> None:
        write_text(path, json.dumps(asdict(self), indent=1, ensure_ascii=False))

    @classmethod
    def at(cls, path: Path) -> Choices:
        return decode(cls, read_json(path), path.name) if path.is_file() else cls()

    def mended(self, mend: str) -> Choices:
        """With one menu set, as the buttons beside a fault ask for: `propensity=estimate`."""
        name, _, chosen = mend.partition("=")
        return decode(Choices, {**asdict(self), name: chosen}, "")

    @classmethod
    def from_form(cls, form: Mapping[str, str], columns: Sequence[str]) -> Choices:
        """From the fields `role-0`, `order-0`, … of the columns in their order, and the three menus below them."""
        roles = tuple((name, form.get(f"role-{i}", LEFT_OUT)) for i, name in enumerate(columns))
        unknown = next((role for _, role in roles if role not in ROLES), None)
        if unknown is not None:
            raise StudioError(f"'{unknown}' is not one of the roles")
        orders = ((name, form.get(f"order-{i}", "").strip()) for i, name in enumerate(columns))
        menus = {name: form[name] for name in ("propensity", "ends", "cut_off") if name in form}
        given = {"roles": roles, "orders": tuple((name, words) for name, words in orders if words), **menus}
        return decode(cls, given, "")


def _listed(name: str, words: str) -> tuple[str, ...]:
    order = tuple(word.strip() for word in words.split(","))
    if len(order) < 2 or not all(order) or len(set(order)) < len(order):
        raise StudioError(f"{name}: write its words from least to most, each once, as in: low, medium, high")
    return order
