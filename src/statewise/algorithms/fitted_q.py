"""Fitted Q iteration with extremely randomised trees (Ernst, Geurts & Wehenkel 2005; on HIV, Ernst et al. 2006).

Q₀ = 0,    Qₙ = regression of  r + γ max_b Qₙ₋₁(s',b)  on (s,a)

One ensemble per action, grown by scikit-learn; an update is one iteration, in plain NumPy. The policy is greedy, but
takes a random action with probability ε, so that logs that sometimes act otherwise can evaluate it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from statewise.algorithms import Algorithm
from statewise.data.dataset import Dataset
from statewise.data.device import row_table
from statewise.data.discount import discount_of
from statewise.parts.metrics import Metrics, of_learner
from statewise.parts.trees import Forest, planted
from statewise.policies.trees import TreePolicy


@dataclass(frozen=True)
class FittedQ:
    """Settings; every leaf of a tree has at least `leaf` rows.

    Values bootstrap with min(discount, value_discount): undiscounted ones may be infinite.
    """

    discount: float | None = None  # None: taken from the log, which gives 1 where episodes terminate
    value_discount: float = 0.99  # values bootstrap with at most this
    trees: int = 50  # trees in each forest
    leaf: int = 2  # the fewest rows in a leaf
    epsilon: float = 0.01  # share of decisions that the policy makes uniformly at random
    updates: int = 50  # rounds of regression


@dataclass(frozen=True, eq=False)
class Prepared:
    """The rows of the log for which it is known what followed."""

    state: Float[np.ndarray, "rows features"]
    action: Int[np.ndarray, " rows"]
    reward: Float[np.ndarray, " rows"]
    next_state: Float[np.ndarray, "rows features"]
    onward: Bool[np.ndarray, " rows"]  # the next state's value counts
    next_legal: Bool[np.ndarray, "rows actions"]
    first: Float[np.ndarray, "episodes features"]
    first_legal: Bool[np.ndarray, "episodes actions"]
    discount: float  # that values bootstrap with
    view: Names


class Names(NamedTuple):
    """The names of observations and actions."""

    observations: tuple[str, ...]
    actions: tuple[str, ...]


def prepare(config: FittedQ, dataset: Dataset, key: Key[Array, ""]) -> tuple[Prepared, Names]:
    """All rows at once; the log needs no propensities, and trees need no scaling."""
    _regressor()  # a missing library is reported before anything is learned
    table = row_table(dataset, propensities=False)
    rows = jax.device_get(table.take(jnp.arange(len(dataset))))
    masked = dataset.legal is not None
    legal = np.ones((len(dataset), dataset.action_count), bool) if dataset.legal is None else dataset.legal
    # where an episode with legal masks was truncated, the legal actions of its final state are not logged
    known = (rows.usable > 0) & ~(masked & (rows.last > 0) & (rows.onward > 0))
    view = Names(dataset.observation_names, dataset.action_names)
    data = Prepared(
        state=rows.state[known],
        action=rows.action[known],
        reward=dataset.rewards[known].astype(np.float64),
        next_state=rows.next_state[known],
        onward=rows.onward[known] > 0,
        next_legal=np.roll(legal, -1, axis=0)[known] if masked else legal[known],
        first=rows.state[dataset.starts[:-1]],
        first_legal=legal[dataset.starts[:-1]],
        discount=min(discount_of(dataset, config.discount), config.value_discount),
        view=view,
    )
    return data, view


def init(config: FittedQ, data: Prepared, key: Key[Array, ""]) -> Forest:
    """Q₀ = 0: one leaf per action."""
    return planted([[] for _ in data.view.actions], missing=0.0)


def update(config: FittedQ, data: Prepared, state: Forest, key: Key[Array, ""]) -> tuple[Forest, Metrics]:
    """One iteration."""
    values = policy(config, data.view, state).action_values(data.next_state)
    following = np.where(data.next_legal, values, -np.inf).max(axis=1)
    target = data.reward + data.discount * np.where(data.onward, following, 0.0)
    usable = np.isfinite(target)  # −∞ where no legal action of the next state was ever taken
    grown, errors = [], []
    for action in range(len(data.view.actions)):
        rows = usable & (data.action == action)
        if not rows.any():
            grown.append([])
            continue
        drawn = np.random.SeedSequence([*np.asarray(jax.random.key_data(key)).tolist(), action]).generate_state(1)[0]
        forest = _regressor()(n_estimators=config.trees, min_samples_leaf=config.leaf, random_state=int(drawn) % 2**31)
        forest.fit(data.state[rows], target[rows])
        grown.append([tree.tree_ for tree in forest.estimators_])
        errors.append((forest.predict(data.state[rows]) - target[rows]) ** 2)
    state = planted(grown)
    return state, _measure(policy(config, data.view, state), data, np.concatenate(errors))


def policy(config: FittedQ, view: Names, state: Forest) -> TreePolicy:
    """Greedy, except for ε."""
    return state.policy(config.epsilon, view.observations, view.actions)


def _measure(policy: TreePolicy, data: Prepared, errors: Float[np.ndarray, " fitted"]) -> Metrics:
    chances = policy.probabilities(data.first, data.first_legal)
    values = policy.action_values(data.first)
    value = (chances * np.where(np.isfinite(values), values, 0.0)).sum(axis=1).mean()
    spread = -(chances * np.log(np.where(chances > 0, chances, 1.0))).sum(axis=1).mean()
    return of_learner(float(value), float(errors.mean()), float(spread), critic=jnp.asarray(errors))


def _regressor() -> Any:
    from sklearn.ensemble import ExtraTreesRegressor  # slow to import, and needed only here

    return ExtraTreesRegressor


ALGORITHM = Algorithm(FittedQ, prepare, init, update, policy, compiled=False)
