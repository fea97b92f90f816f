"""Fitted Q iteration with extremely randomised trees (Ernst, Geurts & Wehenkel 2005; on HIV, Ernst et al. 2006).

Q₀ = 0,    Qₙ = regression of  r + γ max_b Qₙ₋₁(s',b)  on (s,a)

One ensemble an action, grown by scikit-learn. It is no gradient method: an update is one iteration, in plain NumPy, and
each seed grows its own trees. The policy is greedy, but takes a random action with probability ε, so that it can be
evaluated on logs that do not always agree with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.data.dataset import Dataset
from statewise.data.device import row_table
from statewise.parts.metrics import Metrics, of_learner
from statewise.parts.trees import planted
from statewise.policies.trees import TreePolicy


@dataclass(frozen=True)
class FittedQ:
    """Settings; trees are grown until leaves would hold fewer than `leaf` rows.

    Values are bootstrapped with min(discount, value_discount): at discount 1 they need not be finite.
    """

    discount: float = 0.98
    value_discount: float = 0.99
    trees: int = 50
    leaf: int = 2
    epsilon: float = 0.01
    updates: int = 50


@dataclass(frozen=True, eq=False)
class Prepared:
    """The log's rows that tell what followed."""

    state: Float[np.ndarray, "rows features"]
    action: Int[np.ndarray, " rows"]
    reward: Float[np.ndarray, " rows"]
    next_state: Float[np.ndarray, "rows features"]
    onward: Bool[np.ndarray, " rows"]  # the next state's value counts
    next_legal: Bool[np.ndarray, "rows actions"]
    first: Float[np.ndarray, "episodes features"]
    first_legal: Bool[np.ndarray, "episodes actions"]
    actions: int
    observation_names: tuple[str, ...]


def prepare(config: FittedQ, dataset: Dataset) -> Prepared:
    """All rows at once; it need not hold propensities, and trees need no scaling."""
    _regressor()  # a missing library is told before anything is learned
    table = row_table(dataset, propensities=False)
    rows = jax.device_get(table.take(jnp.arange(len(dataset))))
    masked = dataset.legal is not None
    legal = np.ones((len(dataset), dataset.action_count), bool) if dataset.legal is None else dataset.legal
    # where a log with legal masks was cut off, the final state's legal actions are not logged
    known = (rows.usable > 0) & ~(masked & (rows.last > 0) & (rows.onward > 0))
    return Prepared(
        state=rows.state[known],
        action=rows.action[known],
        reward=dataset.rewards[known].astype(np.float64),
        next_state=rows.next_state[known],
        onward=rows.onward[known] > 0,
        next_legal=np.roll(legal, -1, axis=0)[known] if masked else legal[known],
        first=rows.state[dataset.starts[:-1]],
        first_legal=legal[dataset.starts[:-1]],
        actions=dataset.action_count,
        observation_names=dataset.observation_names,
    )


def init(config: FittedQ, data: Prepared) -> TreePolicy:
    """Q₀ = 0: a leaf an action."""
    none = [[] for _ in range(data.actions)]
    return planted(none, config.epsilon, data.observation_names, missing=0.0)


def update(config: FittedQ, data: Prepared, policy: TreePolicy, seed: int, number: int) -> tuple[TreePolicy, Metrics]:
    """One iteration; its random numbers depend on the seed and its number alone."""
    following = np.where(data.next_legal, policy.action_values(data.next_state), -np.inf).max(axis=1)
    gamma = min(config.discount, config.value_discount)
    target = data.reward + gamma * np.where(data.onward, following, 0.0)
    told = np.isfinite(target)  # not where no action that is legal there was ever taken
    grown, errors = [], []
    for action in range(data.actions):
        mine = told & (data.action == action)
        if not mine.any():
            grown.append([])
            continue
        draw = np.random.SeedSequence((seed, number, action)).generate_state(1)[0]
        forest = _regressor()(n_estimators=config.trees, min_samples_leaf=config.leaf, random_state=int(draw) % 2**31)
        forest.fit(data.state[mine], target[mine])
        grown.append([tree.tree_ for tree in forest.estimators_])
        errors.append((forest.predict(data.state[mine]) - target[mine]) ** 2)
    policy = planted(grown, config.epsilon, data.observation_names)
    return policy, _measure(policy, data, np.concatenate(errors))


def _measure(policy: TreePolicy, data: Prepared, errors: Float[np.ndarray, " fitted"]) -> Metrics:
    chances = policy.probabilities(data.first, data.first_legal)
    values = policy.action_values(data.first)
    value = (chances * np.where(np.isfinite(values), values, 0.0)).sum(axis=1).mean()
    spread = -(chances * np.log(np.where(chances > 0, chances, 1.0))).sum(axis=1).mean()
    numbers = (jnp.asarray(number, jnp.float32) for number in (value, errors.mean(), spread))
    return of_learner(*numbers, critic=jnp.asarray(errors))


def stretch(
    config: FittedQ, data: Prepared, state: tuple[TreePolicy, ...], seeds: tuple[int, ...], done: int, count: int
) -> tuple[tuple[TreePolicy, ...], Metrics]:
    """`count` iterations of every seed in turn."""
    reached, told = [], []
    for policy, seed in zip(state, seeds, strict=True):
        metrics = []
        for number in range(done, done + count):
            policy, latest = update(config, data, policy, seed, number)
            metrics.append(latest)
        reached.append(policy)
        told.append(jax.tree.map(lambda *leaves: np.stack(leaves), *metrics))
    return tuple(reached), jax.tree.map(lambda *leaves: np.stack(leaves), *told)


def _regressor() -> Any:
    from sklearn.ensemble import ExtraTreesRegressor  # slow to import, and asked for here alone

    return ExtraTreesRegressor
