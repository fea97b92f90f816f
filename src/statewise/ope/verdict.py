"""Whether the log supports an estimate: the worst that any measure says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from statewise.ope.measures import Measurement

# supported: read the interval as it stands; weak: an order of magnitude; not identified: no number is shown
Verdict = Literal["supported", "weak", "not identified"]
MEANS: dict[str, Verdict] = {"bad": "not identified", "doubtful": "weak"}


def verdict_of(measures: Sequence[Measurement]) -> tuple[Verdict, str]:
    """The verdict, and the measure that decided it, in a sentence."""
    for outcome, verdict in MEANS.items():
        for measure in measures:
            if measure.outcome == outcome:
                return verdict, measure.sentence
    return "supported", next(measure.sentence for measure in measures if measure.name == "enough-episodes")
