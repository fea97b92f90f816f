"""The logs of a study's cells, and what policies earn where they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset
from statewise.domains.behaviours import Noisy, domain_and_behaviour, with_noise
from statewise.domains.collect import collect, collect_tabular
from statewise.domains.hard_example import BEHAVIOUR, HARD_EXAMPLE
from statewise.domains.simulate import Act, Domain, episode_keys, returns, rewards_of_each, rollout
from statewise.experiments.study import DISCOUNTS, Cell
from statewise.ops.networks import Network
from statewise.policies.network import Policy
from statewise.policies.trees import TreePolicy

SCORE_SEED = 4242  # every policy is played with the same random numbers
# The hard example as it is seen: which states are alike comes first, what tells s₁ from s₂ last.
HARD_COLUMNS = ("is_s0", "is_s1_or_s2", "is_s3", "is_s4", "is_s1", "is_s2")
HARD_SEEN = np.array(
    [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 1], [0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0]], np.float32
)
# The rule that pushes the cart to where the pole falls: right if θ + ½θ̇ > 0, nearly always
BALANCING = np.array([[0.0, 0.0], [0.0, 0.0], [-50.0, 50.0], [-25.0, 25.0]], np.float32)


class Earned(NamedTuple):
    """What policies earned, a row each: their episodes' returns, as a learner sees rewards."""

    discounted: Float[np.ndarray, "policies episodes"]
    undiscounted: Float[np.ndarray, "policies episodes"]


def log_of(cell: Cell, seed: int) -> Dataset:
    """The cell's log of that seed."""
    if cell.domain == "hard-example":
        data = collect_tabular(HARD_EXAMPLE, BEHAVIOUR, cell.episodes, horizon=5, seed=seed)
        return replace(
            data,
            observations=data.observations @ HARD_SEEN,
            final_observations=data.final_observations @ HARD_SEEN,
            observation_names=HARD_COLUMNS,
        )
    domain, behaviour = source(cell)
    return collect(domain, behaviour, cell.episodes, seed)


def source(cell: Cell) -> tuple[Domain, Act]:
    """The simulator and the behaviour policy behind a cell's logs."""
    domain, behaviour = domain_and_behaviour(cell.domain)
    if cell.lean != 0:
        weight = jnp.asarray(np.sign(cell.lean) * BALANCING)
        zeros, ones = jnp.zeros(4), jnp.ones(4)
        behaviour = Noisy(Network((weight,), (jnp.zeros(2),)), zeros, ones, jnp.asarray(abs(cell.lean), jnp.float32))
    return domain, behaviour


def played(cell: Cell, policies: Sequence[Policy | TreePolicy], episodes: int) -> Earned:
    """What each policy earns in `episodes` episodes; networks, which must be of one shape, are played side by side."""
    if cell.domain == "hard-example":  # exactly
        values = np.array([[_exact_value(policy)] for policy in policies])
        return Earned(values, values)
    domain, _ = source(cell)
    keys = episode_keys(SCORE_SEED, episodes)
    if isinstance(policies[0], TreePolicy):
        # trees differ in size
        each = [rollout(domain, with_noise(policy, 1.0), keys) for policy in policies]
        return Earned(*(np.stack([returns(one, gamma) for one in each]) for gamma in (DISCOUNTS[cell.domain], 1.0)))
    acts = jax.tree.map(lambda *leaves: np.stack(leaves), *(with_noise(policy, 1.0) for policy in policies))
    which = np.repeat(np.arange(len(policies)), episodes)
    rewards = rewards_of_each(domain, acts, which, keys[np.tile(np.arange(episodes), len(policies))])
    rewards = rewards.astype(np.float64).reshape(len(policies), episodes, -1)
    weights = DISCOUNTS[cell.domain] ** np.arange(rewards.shape[2])
    return Earned(rewards @ weights, rewards.sum(axis=2))


def _exact_value(policy: Policy | TreePolicy) -> float:
    return HARD_EXAMPLE.value(policy.probabilities(HARD_SEEN), 1.0)
