"""Who loses: how the change is spread over the situations in which episodes begin.

Nobody is seen under both policies, so that no log tells who in particular would lose. What it tells is how much better
or worse episodes that begin alike fare on average: the difference of the judge's two critics there, each fitted to
other episodes,

    change(s₀) = V̂(s₀; policy) − V̂(s₀; today).

Critics err, and their errors spread the changes further than they are. So episodes are sorted by their change into
parts of equal size, and what each part gains is measured by what its own episodes show (`ope.subgroups`), not by the
critics. Chernozhukov, Demirer, Duflo and Fernández-Val (2018) do so for experiments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from statewise.ope.evaluate import Judged
from statewise.ope.gate import Decision
from statewise.ope.linear_critic import cross_fitted
from statewise.ope.prepared import Case
from statewise.ope.subgroups import FEWEST, GroupGain, gains_of

MOST_PARTS = 5
BINS = 24
NAMES = {
    2: ("the lower half", "the upper half"),
    3: ("the lowest third", "the middle third", "the highest third"),
    4: ("the lowest quarter", "the second quarter", "the third quarter", "the highest quarter"),
    5: ("the lowest fifth", "the second fifth", "the middle fifth", "the fourth fifth", "the highest fifth"),
}


@dataclass(frozen=True)
class Changes:
    """How the estimated change is spread, and what those at either end gain."""

    negative: float  # the share of episodes that begin where the critics expect a loss
    median: float
    edges: tuple[float, ...]  # of a histogram of the changes
    shares: tuple[float, ...]
    parts: tuple[GroupGain, ...]  # from the least change to the greatest


def changes_of(decision: Decision, judged: Judged, today: Float[np.ndarray, "steps actions"]) -> Changes | None:
    """Of the policy that was judged; `today` holds the probabilities of today's. None where all begin alike."""
    data = judged.log.dataset
    change = expected_changes(judged.case, today)
    if not np.isfinite(change).all() or not np.ptp(data.observations[data.starts[:-1]], axis=0).any():
        return None
    counts, edges = np.histogram(np.clip(change, *np.quantile(change, (0.005, 0.995))), BINS)
    count = min(MOST_PARTS, (int(data.groups.max()) + 1) // FEWEST)
    parts: tuple[GroupGain, ...] = ()
    if count in NAMES:
        place = change.argsort(kind="stable").argsort() * count // len(change)
        members = {("", name): place == number for number, name in enumerate(NAMES[count])}
        parts = gains_of(decision, data, members)
    return Changes(
        negative=float((change < 0).mean()),
        median=float(np.median(change)),
        edges=tuple(edges.tolist()),
        shares=tuple((counts / counts.sum()).tolist()),
        parts=parts,
    )


def expected_changes(case: Case, today: Float[np.ndarray, "steps actions"]) -> Float[np.ndarray, " episodes"]:
    """V̂(s₀; policy) − V̂(s₀; today) of every episode, by critics of other episodes."""
    log = case.prepared
    here, there = (cross_fitted(one, log.dataset.rewards) for one in (case, Case(log, today)))
    return here.first - there.first
