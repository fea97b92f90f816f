"""γ: what is given, or what the log suggests; one rule for learning and judging alike."""

from __future__ import annotations

from statewise.data.dataset import Dataset


def usual_discount(dataset: Dataset) -> float:
    """1 where episodes end by themselves, so that a whole episode's return counts; .98 where they go on."""
    return 1.0 if dataset.terminated.any() else 0.98


def discount_of(dataset: Dataset, given: float | None) -> float:
    """The discount that was given, or else the log's own."""
    if given is None:
        return usual_discount(dataset)
    if not 0 < given <= 1:
        raise ValueError(f"discount: expected a number above 0 and at most 1, got {given}")
    return float(given)
