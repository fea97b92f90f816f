"""Lower-Approx-Soft-SPIBB: departs from the behaviour the less, the less certain what it does more often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from statewise.domains.tabular import Policy
from statewise.experiments.safe.finite_log import FiniteLog
from statewise.experiments.safe.planning import iterate


@dataclass(frozen=True)
class LowerApproxSoftSPIBB:
    """max Σ_a π(a|s) Q̂(s,a) such that Σ_a e(s,a) max(0, π(a|s) − π_b(a|s)) ≤ ε, greedily.

    e(s,a) = √(2 ln(2|S||A|/δ) / n(s,a)). Scholl, Dietrich, Otte, Udluft (2022); Nadjahi, Laroche, Tachet des Combes
    (2019) count what is done less often, too.
    """

    discount: float = 0.95
    budget: float = 1.0  # ε
    risk: float = 1.0  # δ

    def errors(self, log: FiniteLog) -> Float[np.ndarray, "states actions"]:
        """e(s,a), infinite where a pair was never tried."""
        with np.errstate(divide="ignore"):
            return np.sqrt(2 * np.log(2 * log.counts.size / self.risk) / log.counts)

    def __call__(self, log: FiniteLog) -> Policy:
        errors = self.errors(log)

        def improve(values: Float[np.ndarray, "states actions"], before: Policy) -> Policy:
            now = shifted(log.behaviour, values, errors, self.budget)
            better = (now * values).sum(axis=1) >= (before * values).sum(axis=1)
            return np.where(better[:, None], now, before)

        return iterate(log.model, log.rewards, log.behaviour, self.discount, improve)


def shifted(
    behaviour: Policy,
    values: Float[np.ndarray, "states actions"],
    errors: Float[np.ndarray, "states actions"],
    budget: float,
) -> Policy:
    """Moves probability from the worst actions to those that gain most per error, until the budget is used up."""
    policy, left = behaviour.copy(), np.full(len(behaviour), budget)
    every = np.arange(len(behaviour))
    for giver in np.argsort(values, axis=1, kind="stable").T:
        gain = (values - values[every, giver][:, None]) / errors
        going = np.ones(len(behaviour), bool)
        for taker in np.argsort(-gain, axis=1, kind="stable").T:
            going &= gain[every, taker] > 0
            error = errors[every, taker]
            mass = np.where(going, np.minimum(policy[every, giver], left / error), 0.0)
            policy[every, giver] -= mass
            policy[every, taker] += mass
            left -= np.where(mass > 0, mass * np.where(np.isfinite(error), error, 0.0), 0.0)
            left = np.maximum(left, 0.0)
    return policy
