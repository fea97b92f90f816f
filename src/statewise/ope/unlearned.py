"""Candidates that compete with what was learned, and take no learning."""

from __future__ import annotations

from typing import NamedTuple

from statewise.data.dataset import Dataset
from statewise.learning.today import CONSISTENT, more_consistent, shown_by
from statewise.policies.network import Policy
from statewise.policies.simple import constants


class Unlearned(NamedTuple):
    """By name: rules that always take one action; and doing as today, only more consistently, where that differs."""

    rules: dict[str, Policy]
    consistent: dict[str, Policy]


def unlearned(learning: Dataset, judging: Dataset, seed: int = 0) -> Unlearned:
    sharper = more_consistent(shown_by(learning, judging), seed)
    return Unlearned(constants(learning), {} if sharper is None else {CONSISTENT: sharper})
