"""Where logs come from: a world, and the behaviour that acts in it by default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Bool, Float

from statewise.data.dataset import Dataset
from statewise.domains.behaviours import as_act
from statewise.domains.collect import collect, collect_tabular
from statewise.domains.simulate import Act, Domain, episode_keys, rewards_of_each
from statewise.domains.tabular import Policy as Table
from statewise.domains.tabular import TabularMDP


class Earned(NamedTuple):
    """The returns of policies' episodes, one row per policy, in the rewards that a learner sees."""

    discounted: Float[np.ndarray, "policies episodes"]
    undiscounted: Float[np.ndarray, "policies episodes"]


@runtime_checkable
class Source(Protocol):
    """What a world must offer; `DOMAINS.add(name, source)` registers one."""

    @property
    def discount(self) -> float: ...

    @property
    def observation_names(self) -> tuple[str, ...]: ...

    @property
    def action_names(self) -> tuple[str, ...]: ...

    @property
    def reward_scale(self) -> float: ...  # factor from a learner's rewards to the world's own

    def collect(
        self, episodes: int, seed: int = 0, *, act: Any = None, progress: Callable[[int], None] = ...
    ) -> Dataset:
        """A log of whole episodes under `act` (default: the own behaviour); the same seed gives the same log."""
        ...

    def play(self, policies: Sequence[Any], episodes: int, seed: int = 0) -> Earned:
        """What each policy earns, all with the same random numbers; None stands for the world's own behaviour."""
        ...


@dataclass(frozen=True)
class Simulator:
    """A simulator written in JAX."""

    domain: Domain
    behaviour: Callable[[], Act]  # called on first use, since its weights may have to be read

    @property
    def discount(self) -> float:
        return self.domain.discount

    @property
    def observation_names(self) -> tuple[str, ...]:
        return self.domain.observation_names

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.domain.action_names

    @property
    def reward_scale(self) -> float:
        return self.domain.reward_scale

    def collect(
        self,
        episodes: int,
        seed: int = 0,
        *,
        act: Act | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Dataset:
        return collect(self.domain, self.behaviour() if act is None else act, episodes, seed, progress)

    def play(self, policies: Sequence[Any], episodes: int, seed: int = 0) -> Earned:
        """Policies of one kind and shape are played side by side."""
        acts = [self.behaviour() if policy is None else as_act(policy) for policy in policies]
        kinds = {(jax.tree.structure(act), tuple(np.shape(leaf) for leaf in jax.tree.leaves(act))) for act in acts}
        groups = [acts] if len(kinds) == 1 else [[act] for act in acts]
        keys = episode_keys(seed, episodes)
        played = []
        for group in groups:
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *group)
            which = np.repeat(np.arange(len(group)), episodes)
            rewards = rewards_of_each(self.domain, stacked, which, keys[np.tile(np.arange(episodes), len(group))])
            played.append(rewards.astype(np.float64).reshape(len(group), episodes, -1))
        every = np.concatenate(played)
        return Earned(every @ self.discount ** np.arange(every.shape[2]), every.sum(axis=2))


@dataclass(frozen=True, eq=False)
class Exact:
    """A finite problem, whose policies' values are known exactly; row s of `seen` is the observation of state s.

    `legal` are the actions that may be taken in each state, if not all; logs say so, and no policy takes others.
    """

    problem: TabularMDP
    behaviour: Table
    seen: Float[np.ndarray, "states features"]
    observation_names: tuple[str, ...]
    horizon: int
    discount: float = 1.0
    reward_scale: float = 1.0
    action_words: tuple[str, ...] = ()  # () becomes "0", "1", …
    legal: Bool[np.ndarray, "states actions"] | None = None

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.action_words or tuple(map(str, range(self.behaviour.shape[1])))

    def table(self, policy: Any) -> Table:
        """A policy of any kind as its probabilities in each state; None stands for the behaviour."""
        if policy is None:
            return self.behaviour
        if isinstance(policy, np.ndarray):
            return self._allowed(policy)
        if not hasattr(policy, "probabilities"):
            return self._allowed(np.asarray(jax.vmap(policy)(self.seen), np.float64))
        if self.legal is None:
            return np.asarray(policy.probabilities(self.seen), np.float64)
        return np.asarray(policy.probabilities(self.seen, self.legal), np.float64)

    def _allowed(self, policy: Table) -> Table:
        """What the policy gives to illegal actions is shared out among the legal ones; evenly, where it is all."""
        if self.legal is None:
            return policy
        kept = np.where(self.legal, policy, 0.0)
        kept = np.where(kept.any(axis=1, keepdims=True), kept, self.legal)
        return kept / kept.sum(axis=1, keepdims=True)

    @cached_property
    def best(self) -> float:
        """The greatest value that a policy can have in an episode of at most `horizon` steps, or hardly less.

        It is that of the best policy of endless episodes.
        """
        return self.problem.value_within(self.table(self.problem.optimal(self.discount)), self.discount, self.horizon)

    def collect(
        self,
        episodes: int,
        seed: int = 0,
        *,
        act: Any = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Dataset:
        data = collect_tabular(
            self.problem, self.table(act), episodes, self.horizon, seed, self.seen, self.observation_names, self.legal
        )
        progress(episodes)
        return data

    def play(self, policies: Sequence[Any], episodes: int, seed: int = 0) -> Earned:
        """Exact values of at most `horizon` steps, without any episodes."""
        tables = [self.table(policy) for policy in policies]
        return Earned(
            *(
                np.array([[self.problem.value_within(one, gamma, self.horizon)] for one in tables])
                for gamma in (self.discount, 1.0)
            )
        )


@dataclass(frozen=True, eq=False)
class Family:
    """A finite problem for each seed: a seed's log is of its problem, and what is learned from it is played there.

    Problems are made when they are asked for. A problem that must be read from somewhere first is the family of one.
    """

    problem: Callable[[int], Exact]
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    discount: float = 1.0
    reward_scale: float = 1.0

    def collect(
        self,
        episodes: int,
        seed: int = 0,
        *,
        act: Any = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Dataset:
        return self.problem(seed).collect(episodes, seed, act=act, progress=progress)

    def play(self, policies: Sequence[Any], episodes: int, seed: int = 0) -> Earned:
        return self.problem(seed).play(policies, episodes, seed)
