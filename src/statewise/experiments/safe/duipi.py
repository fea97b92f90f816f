"""DUIPI: propagates the variance of the estimated model through Bellman's equation, and avoids what is uncertain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from statewise.domains.tabular import Policy
from statewise.experiments.safe.finite_log import FiniteLog

TOLERANCE = 1e-7
MOST_ITERATIONS = 2000  # where two actions are nearly as good, it goes back and forth in ever smaller steps


@dataclass(frozen=True)
class DUIPI:
    """π moves towards argmax Q̂ − ξ √Var Q̂, by 1/k in iteration k. Schneegass, Hans, Udluft (2010).

    Q = Σ_s' P (r + γ V)    Var Q = Σ_s' γ² P² Var V + (r + γ V)² Var P    Var V = Σ_a π² Var Q

    P and Var P are those of a Dirichlet posterior with `prior` for every successor, and r depends on s' alone; actions
    that were never tried are never taken.
    """

    discount: float = 0.95
    caution: float = 0.05  # ξ
    prior: float = 0.1

    def __call__(self, log: FiniteLog) -> Policy:
        posterior = log.transition_counts + self.prior
        total = posterior.sum(axis=2, keepdims=True)
        model, variance = posterior / total, posterior * (total - posterior) / (total**2 * (total + 1))
        tried = log.counts > 0
        squared = model**2
        policy = np.full(log.behaviour.shape, 1 / log.behaviour.shape[1])
        values, variances = np.zeros(policy.shape), np.zeros(policy.shape)
        for number in range(1, MOST_ITERATIONS + 1):
            before = values
            values, variances = propagated(
                model, squared, variance, log.arriving, policy, values, variances, self.discount
            )
            cautious = np.where(tried, values - self.caution * np.sqrt(variances), -np.inf)
            policy = towards(policy, cautious.argmax(axis=1), 1 / number)
            if np.linalg.norm(values - before) <= TOLERANCE:
                break
        return policy


def propagated(
    model: Float[np.ndarray, "states actions places"],
    squared: Float[np.ndarray, "states actions places"],
    variance: Float[np.ndarray, "states actions places"],
    arriving: Float[np.ndarray, "places"],
    policy: Policy,
    values: Float[np.ndarray, "states actions"],
    variances: Float[np.ndarray, "states actions"],
    discount: float,
) -> tuple[Float[np.ndarray, "states actions"], Float[np.ndarray, "states actions"]]:
    """One step of Bellman's equation for Q and for its variance, given P, P² and Var P; at the end both are 0."""
    later = np.append((policy * values).sum(axis=1), 0.0)
    later_variance = np.append((policy**2 * variances).sum(axis=1), 0.0)
    earned = arriving + discount * later
    return model @ earned, squared @ (discount**2 * later_variance) + variance @ earned**2


def towards(policy: Policy, best: np.ndarray, step: float) -> Policy:
    """Adds up to `step` to the probability of the best action, and scales the others down in proportion."""
    every = np.arange(len(policy))
    now = policy[every, best]
    more = np.minimum(step, 1 - now)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(now < 1, (1 - now - more) / (1 - now), 0.0)
    moved = policy * scale[:, None]
    moved[every, best] = now + more
    return moved
