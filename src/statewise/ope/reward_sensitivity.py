"""How far the weights of a reward could be wrong before *deploy* is overturned.

Many rewards are sums, r = Σⱼ wⱼ xⱼ: ten for a survival, minus one for a day in hospital. What is measured is x; the
weights w are an opinion. With all others as they are, the least gain as a function of one weight,

    low(wⱼ) = Δ + (wⱼ − wⱼ⁰) Δⱼ − z ‖ψ + (wⱼ − wⱼ⁰) ψⱼ‖,

is concave, gains Δ and influences ψ being linear in rewards. So the weights with which the answer is *deploy* are an
interval, and its two ends are all there is to say. The judge itself is linear in rewards only nearly (critics are cut
off at what can be earned, features are turned towards what was), so its ends are found by judging again with other
weights, not from the formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset
from statewise.ope.estimators import USUAL
from statewise.ope.evaluate import prepare
from statewise.ope.gate import Decision, compare
from statewise.ope.prepared import Prepared

MOST = 10.0  # a weight changed by more than so many times itself is another question
# Of the weight, or of the change where that is more: so well ends are known. Most are known far better, since between
# neighbours the least gain is all but a line.
EXACT = 1e-2
ROUNDING = 1e-5  # of the greatest reward: so much may the sum of the parts differ from it


@dataclass(frozen=True)
class RewardPart:
    """A part of a reward, and the weights between which the answer remains *deploy*, all others as they are."""

    name: str
    weight: float
    lower: float | None  # None: it remains so down to a change of `MOST` times the weight
    upper: float | None  # None: likewise upwards

    @property
    def least_change(self) -> float | None:
        """The least change that overturns it, as a share of the weight; None: none up to `MOST` does."""
        ends = [end for end in (self.lower, self.upper) if end is not None]
        return min((abs(end - self.weight) / abs(self.weight) for end in ends), default=None)

    def __str__(self) -> str:
        """One sentence."""
        if self.least_change is None:
            return (
                f"No change of the weight of {self.name} ({self.weight:g}) up to {MOST:.0f} times would overturn this."
            )
        ends = [f"{kind} {end:.3g}" for kind, end in (("below", self.lower), ("above", self.upper)) if end is not None]
        return (
            f"A weight of {self.name} {' or '.join(ends)} would overturn this: it is {self.weight:g}, so that the "
            f"least change is one of {100 * self.least_change:.3g} %."
        )


def reward_sensitivity(
    policy: Any,
    dataset: Dataset | Prepared,
    parts: Mapping[str, tuple[float, Float[np.ndarray, " steps"]]],
    *,
    estimator: str = USUAL,
    discount: float | None = None,
    level: float = 0.95,
    draws: int = 1000,
    seed: int | None = None,
) -> tuple[RewardPart, ...]:
    """Between which weights of each part of the reward `gate` still says *deploy*; empty where it does not say so.

    `parts` has the weight of each part and what it was on every row, in the order of `dataset.rewards`, which must be
    their weighted sum. Each end takes about seven evaluations.

    >>> reward_sensitivity(policy, log, {"alive": (10.0, alive), "days": (-1.0, days)})  # doctest: +SKIP
    """
    log = prepare(dataset, discount=discount, seed=seed)
    weights = {name: float(weight) for name, (weight, _) in parts.items()}
    rows = {name: np.asarray(values, np.float64) for name, (_, values) in parts.items()}
    _check(log.dataset, weights, rows)

    def judged(name: str, change: float) -> Decision:
        """With one weight changed by so many times itself."""
        rewards = log.dataset.rewards + change * weights[name] * rows[name]
        changed = replace(log, dataset=replace(log.dataset, rewards=rewards))
        return compare(policy, changed, estimator=estimator, level=level, draws=draws)[0]

    now, _ = compare(policy, log, estimator=estimator, level=level, draws=draws)
    if now.answer != "deploy":
        return ()
    found = []
    for name, weight in weights.items():
        changes = [_end(lambda change, name=name: judged(name, change), now.low, far) for far in (-MOST, MOST)]
        ends = sorted(weight * (1 + change) for change in changes if change is not None)
        lower = next((end for end in ends if end < weight), None)
        upper = next((end for end in ends if end > weight), None)
        found.append(RewardPart(name, weight, lower, upper))
    return tuple(found)


def _end(judged: Callable[[float], Decision], margin: float, far: float) -> float | None:
    """The change, on the way to `far`, at which *deploy* is overturned; None if it never does.

    By the Illinois rule: where the line between the two ends meets 0, an end that stays being counted for half. Where
    it is not for want of a gain that it is overturned, half-way.
    """
    near, beyond = (0.0, margin), judged(far)
    if beyond.answer == "deploy":
        return None
    end, halved = (far, _short(beyond)), [1.0, 1.0]
    while abs(end[0] - near[0]) > EXACT * max(1.0, abs(near[0])):
        share = 0.5 if end[1] is None else _meets(halved[0] * near[1], halved[1] * end[1])
        middle = near[0] + float(np.clip(share, 0.01, 0.99)) * (end[0] - near[0])
        one = judged(middle)
        if one.answer == "deploy":
            near, halved = (middle, one.low), [1.0, halved[1] / 2]
        else:
            end, halved = (middle, _short(one)), [halved[0] / 2, 1.0]
    return near[0] if end[1] is None else near[0] + _meets(near[1], end[1]) * (end[0] - near[0])


def _short(decision: Decision) -> float | None:
    """By how much the gain falls short of 0; None where the answer has another reason."""
    return decision.low if decision.low < 0 else None


def _meets(above: float, below: float) -> float:
    """Where the line from one to the other crosses 0, as a share of the way."""
    return above / (above - below)


def _check(dataset: Dataset, weights: Mapping[str, float], rows: Mapping[str, Float[np.ndarray, " steps"]]) -> None:
    """Refuses what is no reward in parts."""
    if not weights:
        raise ValueError("parts: expected at least one part of the reward, got none")
    for name, weight in weights.items():
        if not np.isfinite(weight) or weight == 0:
            raise ValueError(f"parts: expected a weight of '{name}' other than 0, got {weight:g}")
        if rows[name].shape != dataset.rewards.shape:
            raise ValueError(f"parts: '{name}' has {rows[name].size:,} rows, the log {len(dataset):,}")
    missed = np.abs(sum(weight * rows[name] for name, weight in weights.items()) - dataset.rewards)
    if not missed.max() <= ROUNDING * max(float(np.abs(dataset.rewards).max()), 1e-300):
        row = int(np.argmax(missed))
        raise ValueError(
            f"parts: their weighted sum differs from the reward by up to {missed[row]:.4g} (decision {row + 1:,}); "
            "name all parts, with the weights that the reward was made with"
        )
