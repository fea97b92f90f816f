"""A policy, asked about one row on a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from statewise.base.harmless import harmless
from statewise.data.encoding import MISSING, OTHER, Code
from statewise.policies.act import ObservationError, arrange, codes_of, decide, matched
from statewise.policies.files import StoredPolicy
from statewise.studio.folder import StudioError


@dataclass(frozen=True)
class Field:
    """A value to be typed or chosen."""

    name: str
    kind: str
    value: str
    words: tuple[str, ...] = ()
    gaps: bool = False


@dataclass(frozen=True)
class Tried:
    """What the policy does in a row: actions with their probabilities, the likeliest first."""

    actions: tuple[tuple[str, float], ...]


def fields_of(policy: StoredPolicy, frame: pl.DataFrame | None, row: int, given: Mapping[str, str]) -> list[Field]:
    """The policy's columns, with what was typed, or else the values of a row of the log."""
    codes = codes_of(policy)
    logged: dict[str, Any] = {}
    if frame is not None and frame.height:
        try:
            columns = matched([code.name for code in codes], frame.columns)
            logged = {name: frame[column][row % frame.height] for name, column in columns.items()}
        except ObservationError:
            logged = {}  # the log has other columns by now; the fields start empty
    fields = []
    for i, code in enumerate(codes):
        value = given.get(f"value-{i}", _text(logged.get(code.name, code.example())))
        words = (*code.words, *(OTHER,) * code.other) if code.kind in ("words", "order") else ()
        fields.append(Field(harmless(code.name), code.kind, value, words, code.gaps or code.kind == "words"))
    return fields


def tried(policy: StoredPolicy, fields: list[Field]) -> Tried:
    """What the policy would do; a value that it cannot read is refused in a sentence."""
    values = [_value(code, field.value) for code, field in zip(codes_of(policy), fields, strict=True)]
    try:
        observations = arrange(policy, [values])
        chances = decide(policy, observations, np.random.default_rng(0), "likeliest").probabilities[0]
    except ObservationError as error:
        raise StudioError(str(error).removeprefix("observation 1: ")) from None
    order = np.argsort(-chances, kind="stable")
    return Tried(tuple((harmless(policy.action_names[a]), float(chances[a])) for a in order))


def _value(code: Code, text: str) -> Any:
    if not text.strip() or (text == MISSING and text not in code.words):
        return None
    if code.kind == "number":
        try:
            return float(text.strip().replace(",", ".") if text.count(",") == 1 and "." not in text else text)
        except ValueError:
            return text  # refused below, with the column's name
    return text


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)
