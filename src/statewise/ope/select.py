"""Which checkpoint? Chosen on held-out episodes by lower bound, reported on others; the last where none stands out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from statewise.data.dataset import Dataset
from statewise.learning.runs import RunFolder
from statewise.ope.estimate import Estimate
from statewise.ope.evaluate import USUAL, evaluate, prepare
from statewise.ope.intervals import standard_error

Place = tuple[int, int]  # seed and update

DRAWS = 200  # of the bootstrap behind a score's lower bound: enough to rank


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The chosen checkpoint, what it is worth on episodes that had no part in choosing it, and all scores."""

    policy: Any
    seed: int
    update: int
    estimate: Estimate  # on the report's episodes
    scores: dict[Place, Estimate]  # on the held-out ones
    told_apart: bool  # whether the scores chose it; otherwise it is a last iterate
    reason: str

    def __str__(self) -> str:
        return f"seed {self.seed}, update {self.update}: {self.reason}. {self.estimate}"

    __repr__ = __str__


def select(
    checkpoints: Any,
    held_out: Dataset,
    report: Dataset | None = None,
    *,
    estimator: str = USUAL,
    discount: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Selection:
    """Chooses among the checkpoints of a run.

    `checkpoints` is what `fit` returns, a run folder or its path, or policies by (seed, update). Each is scored on
    `held_out`; the one with the greatest lower bound is chosen, if it is better than the last iterates beyond what the
    best of so many would seem by luck. The value of the chosen one comes from `report`, or from half of `held_out` that
    is kept for it: of many scores the greatest is too great, and is no fair report of what it belongs to.

    Where the log cannot tell what the last iterates are worth, or none stands out, the last iterate is taken.

    >>> chosen = select(result, held_out)  # doctest: +SKIP
    >>> chosen.policy, chosen.estimate  # doctest: +SKIP
    """
    policies, usual = _policies(checkpoints)
    discount = usual if discount is None else discount
    if report is None:
        held_out, report = held_out.split(0.5, seed=seed)
    # scores only rank, so they take the propensities as known: refits would make each cost six times as much
    ready = prepare(replace(held_out, estimated=None), discount=discount, seed=seed)
    scores = {}
    for done, (place, policy) in enumerate(policies.items(), start=1):
        scores[place] = evaluate(policy, ready, estimator, level=level, draws=DRAWS, seed=seed)
        progress(done)
    place, told_apart, reason = choose(scores, held_out, level)
    return Selection(
        policy=policies[place],
        seed=place[0],
        update=place[1],
        estimate=evaluate(policies[place], report, estimator, discount=discount, level=level, seed=seed),
        scores=scores,
        told_apart=told_apart,
        reason=reason,
    )


def choose(scores: Mapping[Place, Estimate], log: Dataset, level: float) -> tuple[Place, bool, str]:
    """The place to take, whether the scores chose it, and why."""
    newest = {seed: max(update for other, update in scores if other == seed) for seed, _ in scores}
    last = sorted(newest.items())
    known = {place: one for place, one in scores.items() if one.identified and np.isfinite([one.value, one.low]).all()}
    known_last = [place for place in last if place in known]
    if not known_last:
        others = f", though {len(known)} earlier ones can be told" if known else ""
        told = f"the log cannot tell what the last iterates are worth{others}"
        return last[0], False, f"{told} ({scores[last[0]].reason}); the last iterate is taken"
    reference = max(known_last, key=lambda place: known[place].low)
    best = max(known, key=lambda place: known[place].low)
    if best == reference:
        return best, True, f"it has the greatest lower bound, {known[best].low:.4g}"
    gain = known[best].value - known[reference].value
    error = standard_error(known[best].influence - known[reference].influence, log.groups)
    # as many checkpoints were tried as there are: the best of them must be better than luck would make it
    bar = NormalDist().inv_cdf(1 - (1 - level) / len(known))
    if gain > bar * error:
        told = f"it has the greatest lower bound, {known[best].low:.4g}"
        return best, True, f"{told}, and is better than the last iterate by {gain:.4g} ± {error:.2g}"
    told = f"update {best[1]} of seed {best[0]}, the best by lower bound, cannot be told from the last iterate"
    return reference, False, f"{told} (difference {gain:.4g} ± {error:.2g}); the last iterate is taken"


def _policies(checkpoints: Any) -> tuple[dict[Place, Any], float | None]:
    """Policies by seed and update, and the discount they were learned with, where that is known."""
    if isinstance(checkpoints, str | Path):
        checkpoints = RunFolder.open(checkpoints)
    if isinstance(checkpoints, RunFolder):
        found, discount = checkpoints.policies(), checkpoints.manifest().get("config", {}).get("discount")
    elif isinstance(checkpoints, Mapping):
        found, discount = dict(checkpoints), None
    elif hasattr(checkpoints, "checkpoints") and hasattr(checkpoints, "config"):
        found, discount = dict(checkpoints.checkpoints), checkpoints.config.discount
    else:
        raise ValueError(
            "select takes what fit returns, a run folder, or policies by (seed, update), not "
            f"{type(checkpoints).__name__}"
        )
    if not found:
        raise ValueError("there are no checkpoints to choose from")
    return found, discount
