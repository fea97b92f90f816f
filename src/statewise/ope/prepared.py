"""What every estimator asks of a log (`Prepared`, made once) and of a policy on it (`Case`), computed when asked.

The target of all estimators is the same, so that their numbers can be compared: the discounted return to the horizon,

    V(π) = E_π[Σ_{t<min(T,H)} γᵗ rₜ],

with T the step at which the world ends an episode, and H the log's limit, or how far records reach (`data.horizon`).
What a policy would earn beyond H enters no estimate: `onward` is 0 before it and on the last row of every episode.
Where records stop earlier, `growth` lets the rows that go on stand for those that do not. `objective="average"` is the
same return per (discounted) step, E_π[Σγᵗrₜ] / E_π[Σγᵗ].

Importance sampling is exact about where episodes are cut off. So are state ratios and critics, since they know the time
wherever a limit makes a difference (`ope.features`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
from jaxtyping import Float, Int

from statewise.base.column import like, parts_of
from statewise.data.augment import Scaler
from statewise.data.dataset import Dataset
from statewise.data.device import propensities_of
from statewise.ope.equations import Equations, make_equations
from statewise.ope.features import make_features, time_knots
from statewise.ope.mixture import Mixture, beginning_of, between, nodes_of
from statewise.ope.order import in_folds
from statewise.ope.solution import Solved, solve
from statewise.parts.chain import Chain, Kind, chain_of, kind_of
from statewise.parts.ratio_closed_form import ClosedForm
from statewise.propensities.similar import Groups, similar_states
from statewise.propensities.tried import Untried, untried

RATIO = ClosedForm()
PART = 65_536  # rows at a time, which bounds memory
EPISODES_OF = 500_000  # rows at a time where whole episodes are needed
T = TypeVar("T")
Objective = Literal["return", "average"]


class Remembers:
    """Keeps what is expensive to compute, for whoever asks for it next."""

    @cached_property
    def _known(self) -> dict[Any, Any]:
        return {}

    def remembered(self, name: Any, compute: Callable[[], T]) -> T:
        if name not in self._known:
            self._known[name] = compute()
        return self._known[name]


@dataclass(frozen=True, eq=False)
class Prepared(Remembers):
    """A log ready to evaluate many policies on; nothing here depends on one."""

    dataset: Dataset
    discount: float
    objective: Objective = "return"
    seed: int = 0

    def __reduce__(self) -> Any:
        """Without what is remembered, where it is sent to another process."""
        return Prepared, (self.dataset, self.discount, self.objective, self.seed)

    @cached_property
    def within_horizon(self) -> Chain:
        """Where rows lead, and how much they count, if nothing beyond the horizon does."""
        return chain_of(self.dataset, self.discount, stationary=False)

    @property
    def growth(self) -> Float[np.ndarray, " steps"]:
        """γᵗ, times what a row stands for where other episodes are no longer recorded."""
        return self.within_horizon.weight

    @property
    def onward(self) -> Float[np.ndarray, " steps"]:
        """γ, and 0 on the last row of an episode or before the horizon."""
        return self.within_horizon.onward

    @cached_property
    def discounts(self) -> Float[np.ndarray, " horizon"]:
        """γᵗ up to the horizon."""
        return self.discount ** np.arange(self.dataset.horizon.steps or 0)

    @property
    def equally_long(self) -> bool:
        """Whether every episode is recorded up to the horizon, so that its length is known whatever the policy."""
        return bool((self.dataset.lengths >= len(self.discounts)).all())

    @property
    def longest(self) -> float:
        """Σγᵗ of the longest episode there can be: up to a limit, or for ever where episodes end by themselves."""
        if self.dataset.horizon.cut_off is None and not self.equally_long:
            return 1 / (1 - self.discount) if self.discount < 1 else np.inf
        return float(self.discounts.sum())

    @cached_property
    def steps_each(self) -> Float[np.ndarray, " episodes"]:
        """Σₜ γᵗ of each episode."""
        return self.by_episode(self.growth)

    @property
    def chain(self) -> Kind:
        """The equations of the state ratio; only an average without end looks past the log's horizon."""
        return kind_of(self.dataset, self.discount, stationary=self.objective == "average")

    @cached_property
    def scaler(self) -> Scaler:
        return Scaler.of(self.dataset)

    @cached_property
    def similar(self) -> Groups:
        """Groups of similar states."""
        return similar_states(self.dataset.observations)

    @cached_property
    def equations(self) -> Equations:
        """The state ratio's equations, for the objective asked."""
        if self.chain != "continuing":
            return self.horizon_equations
        return self._equations(chain_of(self.dataset, self.discount), None)

    @cached_property
    def horizon_equations(self) -> Equations:
        """Those of visits within the log's horizon, by state and time where a limit cuts episodes off."""
        return self._equations(self.within_horizon, time_knots(self.dataset, self.discount))

    def _equations(self, chain: Chain, clock: Int[np.ndarray, " knots"] | None) -> Equations:
        order = in_folds(self.dataset, self.seed, clock)
        to_come = lambda: self.to_come(self.dataset.rewards)  # noqa: E731
        rows = make_features(self.dataset, self.scaler, chain, order, clock, to_come, self.seed, RATIO)
        return make_equations(chain, rows, RATIO)

    @cached_property
    def refits(self) -> tuple[Prepared, ...]:
        """The same with propensities fitted anew, where they were estimated."""
        return tuple(replace(self, dataset=refit) for refit in self.dataset.refits)

    def to_come(self, rewards: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
        """Σ_{k ≥ t} γᵏ⁻ᵗ r_k: what the log itself earned from each row on."""
        out = like(rewards, len(rewards))
        for rows in _whole_episodes(self.dataset):
            self._add_to_come(rows, rewards, out[rows])
        return out

    def _add_to_come(self, part: slice, rewards: Float[np.ndarray, " steps"], out: Float[np.ndarray, " n"]) -> None:
        """For whole episodes: `out` is their part of the result."""
        out[:], time, onward = rewards[part], self.dataset.time[part], self.onward[part]
        order = np.argsort(time, kind="stable")
        edges = np.searchsorted(time[order], np.arange(int(time.max()) + 2))
        for t in range(len(edges) - 2, -1, -1):  # backwards in time, all episodes at once
            rows = order[edges[t] : edges[t + 1]]
            rows = rows[onward[rows] > 0]
            out[rows] += self.discount * out[rows + 1]

    def targets(
        self, rewards: Float[np.ndarray, " steps"], values: Float[np.ndarray, " steps"]
    ) -> Float[np.ndarray, " steps"]:
        """r + γcV(s')."""
        out = self.to_follow(values)
        out += rewards
        return out

    def to_follow(self, values: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
        """γcV(s'), from V of each row's own state: the next state is that of the next row."""
        out = np.append(values[1:], 0.0)
        out *= self.onward  # in place here and elsewhere: of ten million rows each copy is 80 MB
        return out

    def by_episode(self, values: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " episodes"]:
        return np.add.reduceat(values, self.dataset.starts[:-1])


def _whole_episodes(dataset: Dataset) -> Iterator[slice]:
    """Rows of some episodes at a time."""
    begin = 0
    while begin < dataset.episodes:
        end = int(np.searchsorted(dataset.starts, dataset.starts[begin] + EPISODES_OF, side="right")) - 1
        end = max(end, begin + 1)
        yield slice(int(dataset.starts[begin]), int(dataset.starts[end]))
        begin = end


@dataclass(frozen=True, eq=False)
class Case(Remembers):
    """A policy on a log."""

    prepared: Prepared
    probabilities: Float[np.ndarray, "steps actions"]  # π(·|s) on every row
    mixture: Mixture | None = None  # where it is a step between two policies of which others are judged as well

    @property
    def taken(self) -> Float[np.ndarray, " steps"]:
        """π(a|s) of the logged actions."""
        dataset = self.prepared.dataset
        out = like(dataset.rewards, len(dataset))
        for part in parts_of(len(dataset)):  # all at once takes three times as much memory
            actions = dataset.actions[part, None].astype(np.int64)
            out[part] = np.take_along_axis(self.probabilities[part], actions, axis=1)[:, 0]
        return out

    @cached_property
    def ratio(self) -> Float[np.ndarray, " steps"]:
        """ρ(s,a) = π(a|s)/μ(a|s) of the logged actions."""
        return self.taken / propensities_of(self.prepared.dataset)

    @cached_property
    def greatest_ratio(self) -> float:
        """The greatest π/μ that can occur in a logged state, as far as the log tells: 1/μ is known to be no more."""
        dataset = self.prepared.dataset
        if dataset.distributions is None:
            return float(self.probabilities.max() / propensities_of(dataset).min())
        return float(max((chances / possible).max() for chances, possible in self._beside_behaviour()))

    def _beside_behaviour(self) -> Iterator[tuple[Float[np.ndarray, "n actions"], Float[np.ndarray, "n actions"]]]:
        """π and μ of some rows at a time, μ being ∞ where it is 0."""
        distributions = self.prepared.dataset.distributions
        assert distributions is not None
        for first in range(0, len(distributions), PART):
            behaviour = distributions[first : first + PART]
            yield self.probabilities[first : first + PART], np.where(behaviour > 0, behaviour, np.inf)

    @cached_property
    def squared_ratio(self) -> Float[np.ndarray, " steps"]:
        """Σ_a π²/μ of each row: the mean of ρ² in its state, where distributions are logged."""
        return np.concatenate([(pi**2 / mu).sum(axis=1) for pi, mu in self._beside_behaviour()])

    @cached_property
    def ratio_skewness(self) -> float:
        """Of ρ over the logged states: from Σ_a π²/μ and Σ_a π³/μ² where distributions are logged, else of the rows."""
        dataset = self.prepared.dataset
        if dataset.distributions is None:
            second, third = np.mean(self.ratio**2), np.mean(self.ratio**3)
        else:
            second = float(self.squared_ratio.mean())
            third = float(np.concatenate([(pi**3 / mu**2).sum(axis=1) for pi, mu in self._beside_behaviour()]).mean())
        return float((third - 3 * second + 2) / max(second - 1, 1e-12) ** 1.5)

    def heaviest_product(self, steps: int) -> float:
        """What the product of so many ratios cannot exceed."""
        return float(np.exp(min(steps * np.log(max(self.greatest_ratio, 1.0)), 300.0)))

    @cached_property
    def untried(self) -> Untried:
        """The share of the policy's decisions that the behaviour never takes."""
        log = self.prepared
        return untried(log.dataset, self.probabilities, log.growth, lambda: log.similar)

    @cached_property
    def cumulative(self) -> Float[np.ndarray, " steps"]:
        """ρ₀ρ₁…ρₜ within each episode, as running sums of logarithms and of zeros."""
        dataset = self.prepared.dataset
        first = dataset.starts[:-1]
        possible = self.ratio > 0
        logs = np.log(np.where(possible, self.ratio, 1.0))
        running = np.cumsum(logs)
        running -= np.repeat(running[first] - logs[first], dataset.lengths)
        np.exp(running, out=running)
        if possible.all():
            return running
        impossible = (~possible).astype(np.int64)
        zeros = np.cumsum(impossible)
        zeros -= np.repeat(zeros[first] - impossible[first], dataset.lengths)
        return np.where(zeros > 0, 0.0, running)

    @cached_property
    def solved(self) -> Solved:
        """The state ratio in closed form, for the objective asked."""
        if self.prepared.chain != "continuing":
            return self.horizon_solved
        return solve(self.prepared.equations, self.ratio, self.probabilities)

    @cached_property
    def horizon_solved(self) -> Solved:
        """The ratio of visits within the log's horizon."""
        flows = None if self.mixture is None else self._flows(self.mixture)
        return solve(self.prepared.horizon_equations, self.ratio, self.probabilities, flows)

    def _flows(self, mixture: Mixture) -> Float[np.ndarray, "folds sets rank rank"] | None:
        """From those of a few steps, which are kept with the log; None where they would be too large."""
        log, of = self.prepared, (self.prepared.horizon_equations, self.prepared.dataset)
        # the ends are kept with them, so that no others can take their place in memory
        beginning = lambda: (mixture.today, beginning_of(mixture, *of))  # noqa: E731
        today = log.remembered(("today", id(mixture.today)), beginning)[1]
        if today is None:
            return None
        compute = lambda: (mixture, nodes_of(mixture, today, *of))  # noqa: E731
        nodes = log.remembered(("mixture", id(mixture.today), id(mixture.goal)), compute)[1]
        return between(nodes, mixture.step)
