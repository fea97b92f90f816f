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
from statewise.ope.estimators import USUAL
from statewise.ope.evaluate import evaluate, prepare
from statewise.ope.quotient import standard_error

Place = tuple[int, int]  # seed and update

DRAWS = 200  # of the bootstrap behind a score's lower bound: enough to rank


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The chosen checkpoint, what it is worth on episodes that had no part in choosing it, and all scores."""

    policy: Any
    seed: int
    update: int
    scores: dict[Place, Estimate]  # on the held-out episodes
    decisive: bool  # whether the scores chose it; otherwise it is a last iterate
    reason: str
    estimate: Estimate | None = None  # on the report's episodes

    def __str__(self) -> str:
        worth = "" if self.estimate is None else f". {self.estimate}"
        return f"seed {self.seed}, update {self.update}: {self.reason}{worth}"

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
    """Chooses among the checkpoints of a run, and says what the chosen one is worth.

    `checkpoints` is what `fit` returns, a run folder or its path, or policies by (seed, update). Each is scored on
    `held_out`; the one with the greatest lower bound is chosen, if it is better than the last iterates beyond what the
    best of so many would seem by luck. The value of the chosen one comes from `report`, or from half of `held_out` that
    is kept for it: of many scores the greatest is too great, and is no fair report of what it belongs to.

    Where the log cannot tell what the last iterates are worth, or none stands out, the last iterate is taken.

    >>> chosen = select(result, held_out)  # doctest: +SKIP
    >>> chosen.policy, chosen.estimate  # doctest: +SKIP
    """
    if report is None:
        held_out, report = held_out.split(0.5, seed=seed)
    policies, learned_with = _policies(checkpoints)
    discount = learned_with if discount is None else discount
    options: dict[str, Any] = {"estimator": estimator, "discount": discount, "level": level, "seed": seed}
    chosen = choose(policies, held_out, **options, progress=progress)
    return replace(chosen, estimate=evaluate(chosen.policy, report, **options))


def choose(
    checkpoints: Any,
    held_out: Dataset,
    *,
    estimator: str = USUAL,
    discount: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Selection:
    """The same without a word on what the chosen one is worth: that takes episodes which did not choose it."""
    policies, learned_with = _policies(checkpoints)
    # scores only rank, so they take the propensities as known: refits would make each cost six times as much
    known = replace(held_out, estimated=None)
    ready = prepare(known, discount=learned_with if discount is None else discount, seed=seed)
    scores = {}
    for done, (place, policy) in enumerate(policies.items(), start=1):
        scores[place] = evaluate(policy, ready, estimator, level=level, draws=DRAWS)
        progress(done)
    place, decisive, reason = best_of(scores, held_out, level)
    return Selection(policies[place], *place, scores, decisive, reason)


def best_of(scores: Mapping[Place, Estimate], log: Dataset, level: float) -> tuple[Place, bool, str]:
    """The place to take, whether the scores chose it, and why."""
    newest = {seed: max(update for other, update in scores if other == seed) for seed, _ in scores}
    last = sorted(newest.items())
    known = {place: one for place, one in scores.items() if one.identified and np.isfinite([one.value, one.low]).all()}
    known_last = [place for place in last if place in known]
    if not known_last:
        others = f", only of {len(known)} earlier ones" if known else ""
        unknown = f"the log does not identify what the last iterates are worth{others}"
        return last[0], False, f"{unknown} ({scores[last[0]].reason}); the last iterate is taken"
    reference = max(known_last, key=lambda place: known[place].low)
    best = max(known, key=lambda place: known[place].low)
    greatest = f"it has the greatest lower bound, {known[best].low:.4g}"
    if best == reference:
        return best, True, greatest
    gain = known[best].value - known[reference].value
    error = standard_error(known[best].influence - known[reference].influence, log.groups)
    # as many checkpoints were tried as there are: the best of them must be better than luck would make it
    bar = NormalDist().inv_cdf(1 - (1 - level) / len(known))
    if gain > bar * error:
        return best, True, f"{greatest}, and is better than the last iterate by {gain:.4g} ± {error:.2g}"
    alike = f"update {best[1]} of seed {best[0]}, the best by lower bound, may be so by chance"
    return reference, False, f"{alike} (difference {gain:.4g} ± {error:.2g}); the last iterate is taken"


def _policies(checkpoints: Any) -> tuple[dict[Place, Any], float | None]:
    """Policies by seed and update, and the discount they were learned with, where that is known."""
    if isinstance(checkpoints, str | Path):
        checkpoints = RunFolder.open(checkpoints)
    if isinstance(checkpoints, RunFolder):
        policies, discount = checkpoints.policies(), checkpoints.manifest().get("config", {}).get("discount")
    elif isinstance(checkpoints, Mapping):
        policies, discount = dict(checkpoints), None
    elif hasattr(checkpoints, "checkpoints") and hasattr(checkpoints, "config"):
        policies, discount = dict(checkpoints.checkpoints), checkpoints.config.discount
    else:
        raise ValueError(
            "checkpoints: expected what fit returns, a run folder, or policies by (seed, update), got "
            f"{type(checkpoints).__name__}"
        )
    if not policies:
        raise ValueError("there are no checkpoints to choose from")
    return policies, discount
