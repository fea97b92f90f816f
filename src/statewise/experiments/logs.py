"""The logs of a study's cells, and what policies earn in the domains they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statewise.data.dataset import Dataset
from statewise.domains import DOMAINS
from statewise.domains.cartpole import leaning
from statewise.domains.source import Earned
from statewise.experiments.study import Cell

SCORE_SEED = 4242  # every policy is played with the same random numbers


def log_of(cell: Cell, seed: int) -> Dataset:
    """The cell's log with that seed."""
    act = None if cell.lean == 0 else leaning(cell.lean)
    return DOMAINS[cell.domain].collect(cell.episodes, seed, act=act)


def play(cell: Cell, policies: Sequence[Any], episodes: int) -> Earned:
    """What each policy earns in that many episodes of the cell's domain."""
    return DOMAINS[cell.domain].play(policies, episodes, SCORE_SEED)
