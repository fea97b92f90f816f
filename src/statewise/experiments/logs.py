"""The logs of a study's cells, and what policies earn in the domains they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statewise.data.dataset import Dataset
from statewise.domains import DOMAINS
from statewise.domains.cartpole import leaning
from statewise.domains.source import Earned, Exact, Family
from statewise.experiments.study import Cell

SCORE_SEED = 4242  # every policy is played with the same random numbers


def log_of(cell: Cell, seed: int) -> Dataset:
    """The cell's log with that seed."""
    act = None if cell.lean == 0 else leaning(cell.lean)
    return DOMAINS[cell.domain].collect(cell.episodes, seed, act=act)


def play(cell: Cell, policies: Sequence[Any], episodes: int, seed: int = 0) -> Earned:
    """What each policy earns in that many episodes of the cell's domain; `seed` is that of their log."""
    world: Any = DOMAINS[cell.domain]
    if isinstance(world, Family):  # another world for each seed
        world = world.problem(seed)
    if not cell.gain:
        return world.play(policies, episodes, SCORE_SEED)
    best = world.problem.optimal(world.discount) if isinstance(world, Exact) else world.best
    earned = world.play([None, best, *policies], episodes, SCORE_SEED)
    return Earned(*((values[2:] - values[:1]) / (values[1:2] - values[:1]) for values in earned))


def plays_apart(cell: Cell) -> bool:
    """Whether policies that were learned from different logs must be played in different worlds."""
    return isinstance(DOMAINS[cell.domain], Family)
