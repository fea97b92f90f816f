"""Values of policies in a log of few states, from counts: with n(s,a) decisions, r̂ and P̂ their means,

    Q̂ₖ = r̂ + γ P̂ V̂ₖ₊₁,   V̂ₖ(s) = Σ_a π(a|s) Q̂ₖ(s,a)   for k = H−1, …, 0,     V = mean V̂₀(s₀).

It is what `doubly-robust-state-ratio` becomes where its critic and its ratio can be anything at all: with
d̂ₖ the model's own states after k steps, Σₖ γᵏ d̂ₖ(s) π(a|s)/n(s,a) is w ρ, and what the critic leaves unexplained is 0
in every (s,a). Nothing is regularised, no propensity is needed, and no estimate that holds for all such problems has
less variance in the limit. What a row adds, to first order, is

    Σₖ γᵏ d̂ₖ(s) π(a|s)/n(s,a) · (r + γV̂ₖ₊₁(s') − Q̂ₖ(s,a)).

Where (s,a) was decided n times, this is too small by √(1 − 1/n), which is put right, and nothing where n is 1 or all n
came out alike: there the spread of all others counts a little (`allowance`). What was never tried in a state is taken
for the mean of the policy's other actions there, and the interval is widened for what it may be instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from statewise.data.states import few_states
from statewise.ope.attainable import reach
from statewise.ope.linear_critic import LONGER
from statewise.ope.prepared import Case, Prepared
from statewise.ope.quotient import Allowance, Quotient

MOST_STATES = 2000  # for pairs of which something is kept
MOST_STEPS = 5000
FORGOTTEN = 1e-12  # γᵏ from which on nothing counts
CHANCE = 3.0  # standard errors
SAME = 1e-6  # probabilities of one state that differ by no more are the same


@dataclass(frozen=True, eq=False)
class Counts:
    """Rows by state and action. What is not known to lead anywhere, or to end, is left out."""

    states: int
    state: Int[np.ndarray, " rows"]  # of every row of the log
    following: Int[np.ndarray, " rows"]  # the state after it; −1: the episode ends
    weight: Float[np.ndarray, " rows"]  # what it stands for; 0: it is left out
    pair: Int[np.ndarray, " rows"]  # of state and action
    trials: Float[np.ndarray, "states actions"]  # Σ weight
    once: Bool[np.ndarray, " states"]  # states that only one episode, or unit, shows: see `ope.unseen`

    @property
    def tried(self) -> Bool[np.ndarray, "states actions"]:
        return self.trials > 0

    @cached_property
    def rows(self) -> Int[np.ndarray, "states actions"]:
        return np.bincount(self.pair[self.weight > 0], minlength=self.trials.size).reshape(self.trials.shape)

    @cached_property
    def leads_beyond(self) -> float:
        """The chance that what was never tried leads to a state that was never seen, by Laplace's rule.

        Of the states and actions with one row, those that led to a state that no other episode shows.
        """
        single = (self.of_rows(self.rows) == 1) & (self.weight > 0)
        beyond = single & (self.following >= 0) & self.once[self.following]
        return float((1 + beyond.sum()) / (2 + single.sum()))

    def mean(self, values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "states actions"]:
        """Over the rows of each state and action; 0 where there are none."""
        total = np.bincount(self.pair, self.weight * values, self.trials.size).reshape(self.trials.shape)
        return np.divide(total, self.trials, out=np.zeros_like(total), where=self.tried)

    def of_rows(self, table: Shaped[np.ndarray, "states actions"]) -> Shaped[np.ndarray, " rows"]:
        """What a table has for each row's state and action."""
        return table.reshape(-1)[self.pair]

    def less_mean(self, values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        """By how much each row differs from the mean of its state and action."""
        return values - self.of_rows(self.mean(values))


def counts_of(log: Prepared) -> Counts | None:
    """None where the log has too many states, each is seen too seldom, or what follows them depends on the step too."""

    def counted_once() -> Counts | None:
        counts = _counted(log)
        return None if counts is None or _trend(log, counts) > CHANCE else counts

    return log.remembered("counts", counted_once)


def _counted(log: Prepared) -> Counts | None:
    data, steps = log.dataset, len(log.discounts)
    if steps < 2 or steps > MOST_STEPS or log.objective != "return":
        return None
    known = few_states(data.observations)
    if known is None or len(known.states) > MOST_STATES:
        return None
    state = known.place.astype(np.int64)
    following = np.where(log.onward > 0, np.append(state[1:], -1), -1)
    weight = np.array(log.within_horizon.recorded, np.float64)
    if data.horizon.cut_off is not None:  # of rows before the horizon only ends are known, not where others lead
        weight[data.time >= steps - 1] = 0.0
    pair = state * data.action_count + data.actions
    size = len(known.states) * data.action_count
    trials = np.bincount(pair, weight, size).reshape(len(known.states), -1)
    return Counts(len(known.states), state, following, weight, pair, trials, _seen_once(log, state))


def _trend(log: Prepared, counts: Counts) -> float:
    """How far rewards, or values of what follows, go with the step at which a pair occurs, in standard errors.

    They must not: the counts of all steps are taken together. Where they do, features of state and time are better.
    """
    data = log.dataset
    behaviour = counts.trials / np.maximum(counts.trials.sum(axis=1, keepdims=True), 1e-300)
    first = _follow(log, counts, behaviour, data.rewards).first
    later = counts.weight * counts.less_mean(data.time.astype(np.float64))
    scores = []
    for outcome in (data.rewards, np.where(counts.following >= 0, first[counts.following], 0.0)):
        each = np.bincount(data.groups, log.by_episode(later * counts.less_mean(outcome)))
        size = float(np.sqrt(each @ each))
        scores.append(abs(float(each.sum())) / size if size > 0 else 0.0)
    return max(scores)


def _seen_once(log: Prepared, state: Int[np.ndarray, " rows"]) -> Bool[np.ndarray, " states"]:
    group = log.dataset.groups[log.dataset.episode_of_step]
    least, greatest = np.full(int(state.max()) + 1, len(group)), np.full(int(state.max()) + 1, -1)
    np.minimum.at(least, state, group)
    np.maximum.at(greatest, state, group)
    return least == greatest


def in_states(case: Case) -> Float[np.ndarray, "states actions"] | None:
    """π of each state; None where the log has too many, or rows of one state have different probabilities."""
    counts = counts_of(case.prepared)
    if counts is None:
        return None
    seen = np.bincount(counts.state, minlength=counts.states)[:, None]
    sums = [np.bincount(counts.state, column, counts.states) for column in case.probabilities.T]
    mean = np.stack(sums, axis=1) / np.maximum(seen, 1)
    return mean if bool((np.abs(case.probabilities - mean[counts.state]) <= SAME).all()) else None


@dataclass(frozen=True, eq=False)
class Course:
    """How a policy goes on in the counted model."""

    chances: Float[np.ndarray, "states actions"]  # of the actions that were tried
    visits: Float[np.ndarray, " states"]  # Σₖ γᵏ d̂ₖ
    first: Float[np.ndarray, " states"]  # V̂₀
    ahead: Float[np.ndarray, "states states"]  # Σₖ γᵏ d̂ₖ(s) V̂ₖ₊₁(s')
    to_come: Float[np.ndarray, " states"]  # Σₖ γᵏ d̂ₖ(s) times the (discounted) steps from there on


def counted(case: Case, rewards: Float[np.ndarray, " steps"], policy: Float[np.ndarray, "states actions"]) -> Quotient:
    """The value of the policy whose probabilities in the log's states are given, as a mean over episodes."""
    log, data = case.prepared, case.prepared.dataset
    counts = counts_of(log)
    assert counts is not None
    course = _follow(log, counts, policy, rewards)
    visits = course.visits[:, None] * course.chances
    each = counts.of_rows(visits) * counts.weight / np.maximum(counts.of_rows(counts.trials), 1e-300)
    worth = rewards + log.discount * np.where(
        counts.following >= 0, _per_visit(course)[counts.state, counts.following], 0.0
    )
    left, often = each * counts.less_mean(worth), counts.of_rows(counts.rows)
    left *= np.sqrt(often / np.maximum(often - 1, 1))
    values = course.first[counts.state[data.starts[:-1]]]
    carried = data.episodes * log.by_episode(each)
    unseen, widening = _unknown(log, counts, course, np.where(counts.tried, 0.0, policy).sum(axis=1), rewards)
    beside = float(np.hypot(_of_few_rows(counts, left, each), widening))
    return Quotient(
        values + data.episodes * log.by_episode(left),
        np.ones(data.episodes),
        weight=carried,
        base=log.steps_each,
        by_states=True,
        unseen=unseen / float(course.visits.sum()),
        allowance=Allowance(beside, beside),
    )


def _follow(
    log: Prepared,
    counts: Counts,
    policy: Float[np.ndarray, "states actions"],
    rewards: Float[np.ndarray, " steps"],
) -> Course:
    chances = np.where(counts.tried, policy, 0.0)
    total = chances.sum(axis=1, keepdims=True)
    chances = np.divide(chances, total, out=np.zeros_like(chances), where=total > 0)
    share = chances / np.where(counts.tried, counts.trials, 1.0)
    moving, size = counts.following >= 0, counts.states
    flows = (counts.of_rows(share) * counts.weight)[moving]
    move = np.bincount(counts.state[moving] * size + counts.following[moving], flows, size * size).reshape(size, size)
    paid = np.stack([(chances * counts.mean(rewards)).sum(axis=1), np.ones(size)], axis=1)
    steps = _steps(log)
    values = np.zeros((steps + 1, size, 2))  # of the rewards, and of a reward of 1 a step
    for k in range(steps - 1, -1, -1):
        values[k] = paid + log.discount * move @ values[k + 1]
    visits, discounts = np.empty((steps, size)), log.discount ** np.arange(steps)
    at = np.bincount(counts.state[log.dataset.starts[:-1]], minlength=size) / log.dataset.episodes
    for k in range(steps):
        visits[k] = discounts[k] * at
        at = at @ move
    to_come = np.sum(visits * values[:-1, :, 1], axis=0)
    return Course(chances, visits.sum(axis=0), values[0, :, 0], visits.T @ values[1:, :, 0], to_come)


def _steps(log: Prepared) -> int:
    """How many count: to the horizon, or where episodes end by themselves to `LONGER` than any did."""
    steps = len(log.discounts)
    if log.dataset.horizon.cut_off is None:
        steps = min(LONGER * steps, MOST_STEPS)
    return steps if log.discount == 1 else min(steps, int(np.ceil(np.log(FORGOTTEN) / np.log(log.discount))))


def _per_visit(course: Course) -> Float[np.ndarray, "states states"]:
    """The mean of V̂ₖ₊₁(s') over the visits of s."""
    visits = course.visits[:, None]
    return np.divide(course.ahead, visits, out=np.zeros_like(course.ahead), where=visits > 0)


def _unknown(
    log: Prepared,
    counts: Counts,
    course: Course,
    untried: Float[np.ndarray, " states"],
    rewards: Float[np.ndarray, " steps"],
) -> tuple[float, float]:
    """The steps of which the log tells nothing, and by how much the value may be off for them.

    What was never tried leads to states that are known, and is worth what one of them is; or beyond them, and then
    nothing is known from there on. How often beyond, the actions tell that were tried once.
    """
    beyond = counts.leads_beyond
    once, elsewhere = float(course.visits @ counts.once), float(course.visits @ untried)
    after = float(course.to_come @ untried)
    known = np.append(course.first[counts.trials.sum(axis=1) > 0], 0.0)
    steps = once + beyond * after
    widening = np.hypot(steps * reach(log, rewards), (1 - beyond) * elsewhere * np.ptp(known) / np.sqrt(12))
    return steps + (1 - beyond) * elsewhere, float(widening)


def _of_few_rows(counts: Counts, left: Float[np.ndarray, " rows"], each: Float[np.ndarray, " rows"]) -> float:
    """The standard error that rows do not show where a state and action have few, all alike by chance.

    Of one row nothing shows; of n, the spread of all others counts as one row's would beside n − 1.
    """
    shown, carried = (np.bincount(counts.pair, one**2, counts.trials.size) for one in (left, each))
    rows = counts.rows.reshape(-1)
    several = rows > 1
    if not (carried[several] > 0).any():
        return float("inf") if carried.any() else 0.0
    usual = carried * float(shown[several].sum() / carried[several].sum())
    return float(np.sqrt(np.sum(np.maximum(usual - shown, 0.0) / np.maximum(rows, 1))))
