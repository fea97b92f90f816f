"""Finite problems: values by exact dynamic programming, logs by playing them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from statewise.data.horizon import Horizon
from worlds.world import Played, World

Noise = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


@dataclass(frozen=True, eq=False)
class Tabular:
    """P(s'|s,a), whose rows may sum to less than 1 (the rest ends the episode), r(s,a), and where episodes start.

    Row s of `seen` is what is observed in state s; it may be the same for several. `noise_columns` more say nothing.
    """

    transitions: np.ndarray  # [states, actions, states]
    rewards: np.ndarray  # [states, actions], expected
    initial: np.ndarray  # [states]
    horizon: int
    seen: np.ndarray  # [states, features]
    noise_columns: int = 0
    noise: Noise | None = None  # added to rewards; of mean 0
    legal: np.ndarray | None = None  # [states, actions]

    def scaled(self, scale: float = 1.0, offset: float = 0.0) -> Tabular:
        """Rewards in another unit, and from another zero."""
        noise = self.noise
        loud = None if noise is None else lambda rng, shape: scale * noise(rng, shape)
        return replace(self, rewards=scale * self.rewards + offset, noise=loud)

    def value(self, table: np.ndarray, discount: float) -> float:
        """E[Σ_{t<H} γᵗ rₜ], one step of the chain at a time."""
        states, total = self.initial, 0.0
        chain, earned = np.einsum("sa,sat->st", table, self.transitions), (table * self.rewards).sum(axis=1)
        for t in range(self.horizon):
            total += discount**t * float(states @ earned)
            states = states @ chain
        return total

    def action_values(self, table: np.ndarray, discount: float) -> np.ndarray:
        """Q(s,a) with the whole horizon to go."""
        values = np.zeros(len(self.initial))
        chosen = self.rewards
        for _ in range(self.horizon):
            chosen = self.rewards + discount * self.transitions @ values
            values = (table * chosen).sum(axis=1)
        return chosen

    def play(self, table: np.ndarray, episodes: int, rng: np.random.Generator) -> Played:
        actions = table.shape[1]
        cumulative = self.transitions.cumsum(axis=2)
        going_on = cumulative[:, :, -1]
        state = draw(np.broadcast_to(self.initial.cumsum(), (episodes, len(self.initial))), rng)
        lengths, terminated = np.full(episodes, self.horizon), np.zeros(episodes, bool)
        states, taken = [state], []
        for t in range(self.horizon):
            action = draw(table.cumsum(axis=1)[state], rng)
            ends = (rng.random(episodes) >= going_on[state, action] - 1e-12) & ~terminated
            lengths[ends], terminated = t + 1, terminated | ends
            stuck = going_on[state, action] <= 0
            state = np.where(stuck, state, draw(np.where(stuck[:, None], 1.0, cumulative[state, action]), rng))
            states.append(state)
            taken.append(action)
        visited, taken = np.stack(states, axis=1), np.stack(taken, axis=1)
        extra = rng.normal(size=(episodes, self.horizon + 1, self.noise_columns))
        rewards = self.rewards[visited[:, :-1], taken]
        if self.noise is not None:
            rewards = rewards + self.noise(rng, rewards.shape)
        return Played(
            observations=np.concatenate([self.seen[visited], extra], axis=2),
            actions=taken,
            rewards=rewards,
            distributions=np.broadcast_to(table[visited[:, :-1]], (*taken.shape, actions)),
            lengths=lengths,
            terminated=terminated,
            legal=None if self.legal is None else self.legal[visited[:, :-1]],
        )


@dataclass(frozen=True, eq=False)
class Lookup:
    """The policy of a table: π(·|s) of the state whose observation is nearest."""

    seen: np.ndarray
    table: np.ndarray

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        own = observations[:, : self.seen.shape[1]]
        distance = np.zeros((len(own), len(self.seen)))
        for column, values in zip(own.T, self.seen.T, strict=True):
            distance += np.abs(column[:, None] - values)
        return self.table[distance.argmin(axis=1)]


def tabular_world(
    name: str,
    trap: str,
    problem: Tabular,
    behaviour: np.ndarray,
    target: np.ndarray,
    *,
    episodes: int,
    discount: float = 1.0,
    edit: Callable[[Played, np.random.Generator], Played] = lambda played, rng: played,
    whole_distributions: bool = True,
    ends: Horizon | None = None,
    **more: Any,
) -> World:
    """A world of a finite problem; `edit` is what happens to episodes before they are logged."""

    def play(new: bool, count: int, rng: np.random.Generator) -> Played:
        return problem.play(target if new else behaviour, count, rng)

    def log(seed: int, count: int):
        rng = np.random.default_rng(seed)
        return edit(play(False, count, rng), rng).log(whole_distributions=whole_distributions, ends=ends)

    return World(
        **{
            "name": name,
            "trap": trap,
            "make_log": log,
            "policy": Lookup(problem.seen, target),
            "truth": problem.value(target, discount),
            "today": problem.value(behaviour, discount),
            "episodes": episodes,
            "play": play,
            "discount": discount,
            **more,
        }
    )


def draw(cumulative: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One outcome per row, by its cumulative weights; an outcome of weight 0 is never drawn."""
    points = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.minimum((cumulative <= points[:, None]).sum(axis=1), cumulative.shape[1] - 1)


def mixed(share: float, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """A policy that does as `one` in that share of decisions."""
    return share * one + (1 - share) * other


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def constant(chances: list[float] | np.ndarray, states: int) -> np.ndarray:
    """The same chances in every state."""
    return np.tile(np.asarray(chances, float), (states, 1))


def normal(spread: float) -> Noise:
    return lambda rng, shape: spread * rng.normal(size=shape)
