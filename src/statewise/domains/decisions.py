"""Single decisions: one of 5 or 50 offers to each visitor, and whether it is accepted. Every seed is another shop.

Offer a is accepted with probability logistic(bₐ + θₐ·x + ½ tanh(1.5 uₐ·x)), a tenth to a fifth of the time; x has eight
normal columns. The behaviour is a softmax that knows a little of θ, and takes any offer with probability .3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset
from statewise.domains.source import Earned, Family

FEATURES = 8
ANY_OFFER = 0.3
VISITORS = 20_000  # over whom a policy's acceptance is averaged, with their exact probabilities
OBSERVATION_NAMES = tuple(f"x{j}" for j in range(FEATURES))


@dataclass(frozen=True, eq=False)
class Shop:
    """One shop: how its visitors respond, and how it has chosen offers so far."""

    bias: Float[np.ndarray, " actions"]
    slopes: Float[np.ndarray, "features actions"]
    bends: Float[np.ndarray, "features actions"]
    habit: Float[np.ndarray, "features actions"]
    discount: float = 1.0
    reward_scale: float = 1.0
    observation_names: tuple[str, ...] = OBSERVATION_NAMES

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(map(str, range(len(self.bias))))

    def acceptance(self, visitors: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n actions"]:
        score = self.bias + visitors @ self.slopes + 0.5 * np.tanh(1.5 * visitors @ self.bends)
        return 1 / (1 + np.exp(-score))

    def behaviour(self, visitors: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n actions"]:
        logits = visitors @ self.habit
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return (1 - ANY_OFFER) * weights / weights.sum(axis=1, keepdims=True) + ANY_OFFER / len(self.bias)

    def best(self, visitors: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n actions"]:
        return np.eye(len(self.bias))[self.acceptance(visitors).argmax(axis=1)]

    def collect(
        self,
        episodes: int,
        seed: int = 0,
        *,
        act: Any = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Dataset:
        generator = np.random.default_rng([seed, 1])
        visitors = generator.normal(size=(episodes, FEATURES)).astype(np.float32)
        chances = self._chances(act, visitors)
        offers = (chances.cumsum(axis=1) < generator.random((episodes, 1))).sum(axis=1).clip(max=len(self.bias) - 1)
        accepted = generator.random(episodes) < self.acceptance(visitors)[np.arange(episodes), offers]
        progress(episodes)
        return Dataset.from_episodes(
            observations=list(visitors[:, None]),
            actions=list(offers[:, None]),
            rewards=list(accepted[:, None].astype(float)),
            distributions=list(chances[:, None]),
            terminated=[True] * episodes,
            action_count=len(self.bias),
            observation_names=self.observation_names,
        )

    def play(self, policies: Sequence[Any], episodes: int, seed: int = 0) -> Earned:
        """The mean acceptance over the same visitors, whatever the number of episodes."""
        visitors = np.random.default_rng([seed, 2]).normal(size=(VISITORS, FEATURES)).astype(np.float32)
        acceptance = self.acceptance(visitors)
        means = np.array([[(self._chances(one, visitors) * acceptance).sum(axis=1).mean()] for one in policies])
        return Earned(means, means)

    def _chances(self, policy: Any, visitors: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n actions"]:
        if policy is None:
            return self.behaviour(visitors)
        return np.asarray(policy.probabilities(visitors) if hasattr(policy, "probabilities") else policy(visitors))


@lru_cache(maxsize=64)
def shop(actions: int, seed: int) -> Shop:
    generator = np.random.default_rng([seed, actions])
    slopes, bends, habit = (generator.normal(size=(FEATURES, actions)) / np.sqrt(FEATURES) for _ in range(3))
    return Shop(0.4 * generator.normal(size=actions) - 2, 0.9 * slopes, bends, 0.5 * habit + 0.45 * slopes)


def _family(actions: int) -> Family:
    return Family(partial(shop, actions), OBSERVATION_NAMES, tuple(map(str, range(actions))))  # pyright: ignore


FIVE, FIFTY = _family(5), _family(50)
