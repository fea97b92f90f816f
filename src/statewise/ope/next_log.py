"""What to log next: which policy, for how many episodes, and with what chance the next step is certified then.

From a log of π₀, the gain of π over π₀ has an error of σ/√n. Its variance σ² can be read off today's log, whose rows
stand for those of π₀ by the state ratio. With δ = r + γV(s') − Q(s,a) of each policy's own critic, and cᵢ what the
state ratio multiplies row i by,

    σ² = Σᵢ c⁰ᵢ γᵗ (cᵢ/c⁰ᵢ · δᵢ − δ⁰ᵢ)² + Var(V(s₀) − V⁰(s₀)),

since the terms of an episode are uncorrelated where the critics are right. A gain D that is itself known to ± e passes
a one-sided test at z with chance Φ((D√n/σ − z) / √(1 + ne²/σ²)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset
from statewise.data.readable import columns_of
from statewise.ope.estimators.state_ratio import carried_by_ratio
from statewise.ope.gate import Decision, compare, rounded
from statewise.ope.linear_critic import cross_fitted
from statewise.ope.prepared import Case, Prepared
from statewise.ope.quotient import standard_error
from statewise.ope.walk import Ends
from statewise.propensities.similar import Groups

WANTED = 0.8  # chance that the next step passes
JUDGING = 0.5  # of the next log, what judges
MOST = 50  # times as many episodes as the log has: nobody plans further
LARGEST = 0.05  # differences of probability that are worth a word
SHOWN = 3  # situations
SITUATION = 3  # conditions of one


@dataclass(frozen=True)
class Situation:
    """States in which the policy differs from what is done today."""

    where: str
    share: float  # of the log's decisions
    action: str  # which it takes more often than today …
    today: float  # … which takes it with this probability
    then: float


@dataclass(frozen=True)
class NextLog:
    """What to log next, and what it would show."""

    deploy: bool  # whether the next log is of the policy to deploy, or of what is done today
    step: float  # that will be tested then, on the way from today to the goal
    episodes: int | None  # in the next log; None: no number would do, or none can be told
    chance: float  # that the step is certified then
    situations: tuple[Situation, ...] = ()

    @property
    def sentence(self) -> str:
        whose = "the policy to deploy" if self.deploy else "what is done today"
        if self.episodes is None and self.chance > 0:
            return (
                f"How many episodes of {whose} would settle it cannot be said: as far as this log can tell, the first "
                "step hardly gains anything."
            )
        if self.episodes is None:
            return f"More episodes of {whose} would not help: the log lacks decisions like the goal's."
        if self.deploy and self.chance == 0:
            return (
                f"Log about {self.episodes:,} episodes of {whose}, with the probability of every decision, and improve "
                "again: only that log can tell how much further it goes."
            )
        further = f"the step at {100 * self.step:.3g} % of the way to the goal"
        return (
            f"Log about {self.episodes:,} {'' if self.deploy else 'more '}episodes of {whose}, with the probability of "
            f"every decision; {further} is then certified with a chance of about {100 * self.chance:.0f} %."
        )


def beyond(
    ends: Ends,
    log: Prepared,
    here: Decision,
    case: Case,
    following: Sequence[float],
    level: float,
    part: float,
    tried: Mapping[float, Decision] | None = None,
) -> NextLog:
    """After a step was certified, which of the `following` ones a log of it would certify; `here` is that step.

    What the walk has `tried` is not judged again.
    """
    whole = round(log.dataset.episodes / part)
    best = NextLog(True, following[0] if following else 1.0, whole, 0.0)
    for step in following:
        policy, there = ends.at(step), (tried or {}).get(step)
        further = Case(log, policy.probabilities_there, policy.mixture)
        if there is None:
            there, judged = compare(policy, log, level=level, draws=10, near=True)
            further = judged.case
        if there.verdict == "not identified":
            break
        spread = _spread(further, case)
        gain = there.difference - here.difference
        error = standard_error(there.influence - here.influence, log.dataset.groups)
        episodes, chance = enough(gain, error, spread, whole, level)
        found = NextLog(True, step, episodes, chance)
        if chance >= WANTED and (best.chance < WANTED or episodes <= whole):
            best = found  # as far as a log of the same size reaches
        elif chance > best.chance and best.chance < WANTED:
            best = found
    return best


def more_of_today(first: Decision, step: float, log: Prepared, level: float, part: float) -> NextLog:
    """Nothing was certified: how many episodes as today would certify the first step."""
    whole = round(log.dataset.episodes / part)
    if first.verdict == "not identified" or not first.difference > 0:
        return NextLog(False, step, None, 0.0)
    # beyond its standard error, a bound is wider where the support is weak
    width = (first.difference - first.low) / NormalDist().inv_cdf(level)
    spread = max(width, first.standard_error) * np.sqrt(first.episodes)
    number, chance = enough(first.difference, first.standard_error, float(spread), whole, level)
    if chance < WANTED:
        return NextLog(False, step, None, chance)
    more = max(number / part * JUDGING - whole, whole / 4)
    return NextLog(False, step, rounded(more), chance)


def enough(gain: float, error: float, spread: float, size: int, level: float) -> tuple[int, float]:
    """The least number of episodes with the wanted chance, from a quarter of `size`; or `size`, and its chance."""
    number = size / 4
    while number <= MOST * size:
        chance = chance_of(gain, error, spread, JUDGING * number, level)
        if chance >= WANTED:
            return rounded(number), chance
        number *= 1.1
    return size, chance_of(gain, error, spread, JUDGING * size, level)


def chance_of(gain: float, error: float, spread: float, judging: float, level: float) -> float:
    """Φ((D√n/σ − z) / √(1 + ne²/σ²))."""
    if not spread > 0 or not np.isfinite([gain, error]).all():
        return 0.0
    normal = NormalDist()
    scale = np.sqrt(judging) / spread
    return normal.cdf(float((gain * scale - normal.inv_cdf(level)) / np.sqrt(1 + (error * scale) ** 2)))


def situations(
    today: Float[np.ndarray, "steps actions"], then: Float[np.ndarray, "steps actions"], log: Prepared
) -> tuple[Situation, ...]:
    """Where a policy differs most from today, weighted by how often that is."""
    groups, dataset = log.similar, log.dataset
    size = np.bincount(groups.of_row, minlength=len(groups)).astype(float)

    def means(chances: np.ndarray) -> np.ndarray:
        columns = [np.bincount(groups.of_row, column, minlength=len(groups)) for column in chances.T]
        return np.stack(columns, axis=1) / np.maximum(size, 1)[:, None]

    before, after = means(today), means(then)
    apart = np.abs(after - before).sum(axis=1) / 2
    found = []
    for group in np.argsort(-apart * size)[:SHOWN]:
        action = int(np.argmax(after[group] - before[group]))
        if apart[group] < LARGEST:
            break
        where = _described(groups, int(group), dataset) or "everywhere"
        share = float(size[group] / size.sum())
        name = dataset.action_names[action]
        found.append(Situation(where, share, name, float(before[group, action]), float(after[group, action])))
    return tuple(found)


def _described(groups: Groups, group: int, dataset: Dataset) -> str:
    """The conditions of a group in the words of the log, where it has any; the last made come first."""
    columns = columns_of(dataset)
    if all(column.code.plain for column in columns):
        return groups.describe(group, dataset.observation_names)
    bounds = groups.bounds[group]
    places = list(bounds)
    said = {
        max(map(places.index, own)): column.condition(bounds)
        for column in columns
        if (own := [j for j in column.features if j in bounds])
    }
    return ", ".join(text for _, text in sorted(said.items(), reverse=True)[:SITUATION] if text)


def _spread(there: Case, here: Case) -> float:
    """σ of the gain of one policy over another, from a log of the other."""
    log = there.prepared
    rewards = log.dataset.rewards
    carried = {}
    for name, case in (("there", there), ("here", here)):
        critic = cross_fitted(case, rewards)
        carried[name] = carried_by_ratio(case), critic.errors, critic.first
    (far, far_left, far_start), (near, near_left, near_start) = carried["there"], carried["here"]
    quotient = np.divide(far, near, out=np.zeros(len(far)), where=near > 0)
    each = near * log.discount**log.dataset.time * (quotient * far_left - near_left) ** 2
    return float(np.sqrt(each.sum() + np.var(far_start - near_start)))
