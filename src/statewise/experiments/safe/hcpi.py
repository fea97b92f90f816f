"""HCPI: high-confidence policy improvement; a new policy is returned only if a test on held-out episodes passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from statewise.domains.tabular import Policy
from statewise.experiments.safe.basic_rl import BasicRL
from statewise.experiments.safe.finite_log import FiniteLog
from statewise.experiments.safe.planning import action_values
from statewise.ope.intervals import student

SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)  # of the planned policy in a candidate
Estimator = Literal["per-decision", "doubly-robust"]


@dataclass(frozen=True)
class HCPI:
    """Returns the candidate if mean − t_level s/√n > 0 for what it gains in the held-out episodes.

    Candidates are mixtures of the behaviour with the optimal policy of a model that is counted on the first episodes;
    the one with the best bound on those is tested. Thomas, Theocharous, Ghavamzadeh (2015), with importance sampling
    per decision. Doubly robust estimates with the counted model are stronger; their authors did not use them so.
    """

    discount: float = 0.95
    level: float = 0.95
    training: float = 0.2  # share of the episodes to plan with
    estimator: Estimator = "per-decision"

    def __call__(self, log: FiniteLog) -> Policy | None:
        episodes = log.dataset.episodes
        first = max(2, round(self.training * episodes))
        train, test = log.part(np.arange(first)), log.part(np.arange(first, episodes))
        planned = BasicRL(self.discount)(train)
        candidates = [share * planned + (1 - share) * log.behaviour for share in SHARES]
        today = self.estimates(log.behaviour, train, train)
        bounds = [self.bound(self.estimates(one, train, train) - today, episodes - first) for one in candidates]
        chosen = candidates[int(np.argmax(bounds))]
        gains = self.estimates(chosen, train, test) - self.estimates(log.behaviour, train, test)
        return chosen if self.bound(gains, episodes - first) > 0 else None

    def bound(self, gains: Float[np.ndarray, " episodes"], episodes: int) -> float:
        """Student's lower bound for the mean of so many such gains."""
        one_sided = student(2 * self.level - 1, float(episodes - 1))
        return float(gains.mean() - one_sided * gains.std(ddof=1) / np.sqrt(episodes))

    def estimates(self, policy: Policy, train: FiniteLog, test: FiniteLog) -> Float[np.ndarray, " episodes"]:
        """What each episode says of the policy's value."""
        critic = np.zeros(policy.shape)
        if self.estimator == "doubly-robust":
            critic = action_values(train.model, train.rewards, policy, self.discount)
        return estimates(policy, critic, test, self.discount)


def estimates(
    policy: Policy, critic: Float[np.ndarray, "states actions"], log: FiniteLog, discount: float
) -> Float[np.ndarray, " episodes"]:
    """Σ_t γᵗ (w_{t−1} V̂(s_t) + w_t (r_t − Q̂(s_t, a_t))), w_t = ρ_0 … ρ_t: importance sampling per decision if Q̂ = 0.

    Jiang & Li (2016).
    """
    data, states = log.dataset, log.states
    values = (policy * critic).sum(axis=1)
    ratio = np.ones((data.episodes, data.lengths.max()))
    place = (np.repeat(np.arange(data.episodes), data.lengths), data.time)
    ratio[place] = policy[states, data.actions] / log.behaviour[states, data.actions]
    weight = np.cumprod(ratio, axis=1)
    before = np.concatenate([np.ones((data.episodes, 1)), weight[:, :-1]], axis=1)
    missed = data.rewards - critic[states, data.actions]
    terms = discount**data.time * (before[place] * values[states] + weight[place] * missed)
    return np.add.reduceat(terms, data.starts[:-1])
