"""γ: what is given, or what the log suggests; one rule for learning and judging alike."""

from __future__ import annotations

from statewise.data.dataset import Dataset

SHORT = 50  # steps: a limit that decisions are made for, rather than where a record happens to stop


def usual_discount(dataset: Dataset) -> float:
    """1 where whole episodes' returns count, .98 where episodes go on.

    They count where at least half of the episodes end by themselves, and where all others are cut off at one limit,
    if that is `SHORT` or some do end before it.
    """
    ended = int(dataset.terminated.sum())
    cut_off, steps = dataset.horizon
    at_limit = cut_off == "limit" and steps is not None and (ended > 0 or steps <= SHORT)
    return 1.0 if 2 * ended >= dataset.episodes or at_limit else 0.98


def discount_of(dataset: Dataset, given: float | None) -> float:
    """The discount that was given, or else the log's own."""
    if given is None:
        return usual_discount(dataset)
    if not 0 < given <= 1:
        raise ValueError(f"discount: expected a number above 0 and at most 1, got {given}")
    return float(given)
