"""`evaluate`: what a policy would earn, by any of the estimators, with an interval and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from statewise.data.dataset import Dataset
from statewise.data.discount import discount_of
from statewise.ope.attainable import attainable
from statewise.ope.estimate import Estimate
from statewise.ope.estimators import ESTIMATORS, USUAL
from statewise.ope.intervals import Interval, bernstein, bootstrap, cautious
from statewise.ope.measures import Evidence, Measurement, measured
from statewise.ope.prepared import Case, Objective, Prepared
from statewise.ope.quotient import Quotient, per, standard_error
from statewise.ope.support import support_of
from statewise.ope.verdict import Verdict, verdict_of
from statewise.policies.external import as_target
from statewise.policies.probabilities import probabilities_of
from statewise.propensities.widening import widening


def prepare(
    dataset: Dataset | Prepared,
    *,
    discount: float | None = None,
    objective: Objective | None = None,
    seed: int | None = None,
) -> Prepared:
    """A log ready for many policies: `evaluate(policy, prepared)` then computes only what the policy changes.

    A log that is prepared already is returned as it is; what it was prepared with must not be asked for otherwise.
    """
    if isinstance(dataset, Prepared):
        for name, given in (("discount", discount), ("objective", objective), ("seed", seed)):
            known = getattr(dataset, name)
            if given is not None and given != known:
                raise ValueError(f"{name}: the log was prepared with {known!r}, got {given!r}; prepare it anew")
        return dataset
    objective = "return" if objective is None else objective
    if objective not in get_args(Objective):
        raise ValueError(f"objective: expected one of {', '.join(get_args(Objective))}, got {objective!r}")
    if discount is None and objective == "average":
        discount = 1.0
    return Prepared(dataset, discount_of(dataset, discount), objective, 0 if seed is None else seed)


def evaluate(
    policy: Any,
    dataset: Dataset | Prepared,
    estimator: str = USUAL,
    *,
    discount: float | None = None,
    objective: Objective | None = None,
    interval: Interval = "bootstrap",
    level: float = 0.95,
    draws: int = 1000,
    seed: int | None = None,
) -> Estimate:
    """The value of `policy` on the log of another's decisions.

    It is the expected discounted return over the logged horizon (`ope.prepared` has it in full), or with
    `objective="average"` that return per step. `discount` is the log's own unless given. `policy` has
    `.probabilities(observations)` or is a function of observations that gives them.

    >>> print(evaluate(policy, held_out))  # doctest: +SKIP
    doubly-robust-state-ratio: 23.4 (95 % interval 22.1 to 24.8), supported: 412 of 500 episodes carry it
    """
    log = prepare(dataset, discount=discount, objective=objective, seed=seed)
    return evaluate_all(policy, log, (estimator,), interval=interval, level=level, draws=draws)[estimator]


def evaluate_all(
    policy: Any,
    dataset: Dataset | Prepared,
    estimators: Sequence[str] | None = None,
    *,
    discount: float | None = None,
    objective: Objective | None = None,
    interval: Interval = "bootstrap",
    level: float = 0.95,
    draws: int = 1000,
    seed: int | None = None,
) -> dict[str, Estimate]:
    """The same by several estimators, all of them if not told, on the same redrawn episodes."""
    names = tuple(ESTIMATORS) if estimators is None else estimators
    log = prepare(dataset, discount=discount, objective=objective, seed=seed)
    judged = Judged(policy, log, names)
    bounds = judged.intervals(interval, level, draws)
    return {name: judged.estimate(name, bound, level) for name, bound in zip(names, bounds, strict=True)}


class Judged:
    """A policy on a log by several estimators, and on the log's refits where its propensities were estimated."""

    def __init__(self, policy: Any, log: Prepared, estimators: Sequence[str]):
        self.log = log
        self.case = Case(log, probabilities_of(as_target(policy), log.dataset), getattr(policy, "mixture", None))
        again = [Case(refit, self.case.probabilities) for refit in log.refits]
        self._quotients = {
            name: [_quotient(ESTIMATORS[name], case) for case in (self.case, *again)] for name in estimators
        }

    def quotient(self, estimator: str) -> Quotient:
        return self._quotients[estimator][0]

    def refits(self, estimator: str) -> list[Quotient]:
        return self._quotients[estimator][1:]

    def intervals(
        self, interval: Interval, level: float, draws: int, beside: Sequence[Quotient] = ()
    ) -> list[tuple[float, float]]:
        """One for each estimator, and for those `beside`, from the same draws.

        A bootstrap interval of an estimator is a cautious one where support is weak.
        """
        own = [each[0] for each in self._quotients.values()]
        bounds = intervals_of([*own, *beside], self.log, interval, level, draws)
        if interval != "bootstrap":
            return bounds
        groups = self.log.dataset.groups
        for place, (name, quotient) in enumerate(zip(self._quotients, own, strict=True)):
            if self.verdict(name)[0] == "weak":
                bounds[place] = cautious(bounds[place], quotient, groups, level)
        return bounds

    def evidence(self, estimator: str) -> Evidence:
        """What the measures look at."""
        quotient = self.quotient(estimator)
        return self.case.remembered(
            ("evidence", estimator), lambda: Evidence(self.case, quotient, support_of(self.case, quotient))
        )

    def measures(self, estimator: str) -> tuple[Measurement, ...]:
        return self.case.remembered(("measures", estimator), lambda: measured(self.evidence(estimator)))

    def verdict(self, estimator: str) -> tuple[Verdict, str]:
        return verdict_of(self.measures(estimator))

    def estimate(self, estimator: str, bounds: tuple[float, float], level: float) -> Estimate:
        """One estimator's, within the bounds that an interval gave it."""
        quotient, groups = self.quotient(estimator), self.log.dataset.groups
        influence, support = quotient.influence(), self.evidence(estimator).support
        verdict, reason = self.verdict(estimator)
        error = standard_error(influence, groups)
        estimate = Estimate(
            estimator=estimator,
            value=quotient.value,
            low=bounds[0],
            high=bounds[1],
            standard_error=error,
            level=level,
            effective_sample_size=support.effective,
            verdict=verdict,
            reason=reason,
            measures=self.measures(estimator),
            diagnostics=support,
            influence=influence,
            shares=quotient.weight / (quotient.weight.sum() or 1.0),
            objective=self.log.objective,
            discount=self.log.discount,
        )
        deviations = [refit.value - quotient.value for refit in self.refits(estimator)]
        factors = (widening(error, deviations, side) for side in quotient.allowance)
        return estimate.widened(*factors).within(*attainable(self.log))


def intervals_of(
    quotients: Sequence[Quotient], log: Prepared, interval: Interval, level: float, draws: int
) -> list[tuple[float, float]]:
    """The interval of each, from the same draws."""
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    if interval not in get_args(Interval):
        raise ValueError(f"interval: expected one of {', '.join(get_args(Interval))}, got {interval!r}")
    groups = log.dataset.groups
    if interval == "bernstein":
        return [bernstein(one, groups, level) for one in quotients]
    bounds = bootstrap(list(quotients), groups, level, draws, log.seed)
    if interval == "bootstrap":
        return bounds
    return [cautious(bound, one, groups, level) for bound, one in zip(bounds, quotients, strict=True)]


def _quotient(estimator: Any, case: Case) -> Quotient:
    rewards = case.prepared.dataset.rewards
    total = estimator(case, rewards)
    return total if case.prepared.objective == "return" else per(total, estimator(case, np.ones(len(rewards))))
