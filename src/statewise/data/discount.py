"""γ: what is given, or what the log suggests; one rule for learning and judging alike."""

from __future__ import annotations

from typing import NamedTuple

from statewise.data.dataset import Dataset

GOING_ON = 0.98  # γ where episodes go on: about fifty decisions ahead
SHORT = 50  # steps: a limit that decisions are made for, rather than where a record happens to stop


class Suggested(NamedTuple):
    """A log's own discount, and why."""

    discount: float
    because: str


def suggested(dataset: Dataset) -> Suggested:
    """1 where whole episodes' returns count, .98 where episodes go on.

    They count where at least half of the episodes end by themselves, and where all others are cut off at one limit,
    if that is `SHORT` or some do end before it.
    """
    ended = int(dataset.terminated.sum())
    cut_off, steps = dataset.horizon
    assert steps is not None
    if 2 * ended >= dataset.episodes:
        return Suggested(1.0, "at least half of the episodes end by themselves")
    if cut_off == "limit" and ended > 0:
        return Suggested(1.0, "episodes end by themselves or at the limit")
    if cut_off == "limit" and steps <= SHORT:
        return Suggested(1.0, f"all episodes are cut off at a limit of at most {SHORT} steps")
    if cut_off == "limit":
        return Suggested(GOING_ON, f"no episode ends by itself before a limit of more than {SHORT} steps")
    return Suggested(GOING_ON, "most episodes were cut off before they ended, and not at one limit")


def discount_of(dataset: Dataset, given: float | None) -> float:
    """The discount that was given, or else the log's own."""
    if given is None:
        return suggested(dataset).discount
    if not 0 < given <= 1:
        raise ValueError(f"discount: expected a number above 0 and at most 1, got {given}")
    return float(given)
