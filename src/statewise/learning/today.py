"""What is done today, as a policy: a network that agrees with the logged probabilities.

It is fitted by the Kullback–Leibler divergence from them, not to the actions that happened to be drawn: of whole
logged (or estimated) distributions, E[Σ_a μ(a|s) log(μ(a|s)/π(a|s))]; of the taken action's propensity alone,

    E[log(μ(a|s)/π(a|s)) − 1 + π(a|s)/μ(a|s)],

which has the same mean, since Σ_a π(a|s) = 1. Both are 0 in every row where π = μ, so that a small log suffices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from statewise.data.concat import concat
from statewise.data.dataset import Dataset
from statewise.data.device import propensities_of
from statewise.data.schema import Schema
from statewise.learning.runs import versions
from statewise.ops.networks import Network, initial_network
from statewise.parts.learned import adam, descend, start
from statewise.parts.policy import log_policy
from statewise.parts.view import view_of
from statewise.policies.network import Policy

HIDDEN = (32, 32)
CONSISTENT = "as today, more consistently"
STEPS, BATCH, RATE = 1500, 512, 3e-3
SHARPER = 8.0  # the power of μ that is more consistent than today
LEAST_CHANGE = 0.05  # of decisions: less is not worth a test
MANY = 100_000  # rows that show what is done today wherever it matters


def model_of_today(dataset: Dataset, seed: int = 0) -> Policy:
    """The behaviour that wrote the log, for every state, also those that the log does not hold.

    >>> today = model_of_today(train)  # doctest: +SKIP
    """
    scaled, view = view_of(dataset)
    rows = {
        "state": _filled_up(scaled.observations, np.float32),
        "legal": _filled_up(dataset.legal, np.bool_),
        "action": _filled_up(dataset.actions, np.int32),
        "propensity": _filled_up(propensities_of(dataset), np.float32),
        "chances": _filled_up(dataset.distributions, np.float32),
    }
    key = jax.random.key(seed)
    network = initial_network(key, (scaled.observations.shape[1], *HIDDEN, dataset.action_count), last_scale=0.01)
    learned = _fitted(network, rows, jnp.asarray(len(dataset)), jax.random.fold_in(key, 1))
    return _with_card(view.policy(learned), dataset)


def more_consistent(dataset: Dataset, seed: int = 0) -> Policy | None:
    """As today, but what is done most often in a situation is done more often: π ∝ μ⁸, which takes no learning.

    Those who decide often know what is best, and do not always do it. None where whole distributions are not logged,
    or today is so even, or so certain, that little would change.
    """
    logged = dataset.distributions
    if logged is None or dataset.estimated is not None:
        return None
    sharper = np.asarray(logged, np.float64) ** SHARPER
    sharper /= sharper.sum(axis=1, keepdims=True)
    if np.abs(sharper - logged).sum(axis=1).mean() / 2 < LEAST_CHANGE:
        return None
    policy = model_of_today(replace(dataset, distributions=sharper), seed)
    return replace(policy, card={**policy.card, "algorithm": CONSISTENT})


def shown_by(learning: Dataset, held_out: Dataset) -> Dataset:
    """The rows from which today is modelled: those of both parts, where whole distributions are logged.

    A distribution tells what is done in a state, whatever action was drawn and whatever came of it, so that episodes
    that judge may tell it too. In a small log the other part lacks states, and the model would do there as it likes: a
    small step would differ from today by more than the step.
    """
    told = all(one.distributions is not None and one.estimated is None for one in (learning, held_out))
    return concat([learning, held_out]) if told and len(learning) < MANY else learning


def _filled_up(column: np.ndarray | None, dtype: Any) -> Array | None:
    """With rows that are never drawn, up to a power of two: logs of nearly one size share a compiled program."""
    if column is None:
        return None
    length = 1 << (len(column) - 1).bit_length() if len(column) < MANY else len(column)
    return jnp.asarray(np.pad(np.asarray(column, dtype), [(0, length - len(column))] + [(0, 0)] * (column.ndim - 1)))


@jax.jit
def _fitted(network: Network, rows: dict[str, Array | None], count: Int[Array, ""], key: Key[Array, ""]) -> Network:
    optimiser = adam(RATE, STEPS)

    def loss(network: Network, key: Key[Array, ""]) -> Float[Array, ""]:
        some = jax.random.randint(key, (BATCH,), 0, count)
        drawn: dict[str, Any] = {name: None if column is None else column[some] for name, column in rows.items()}
        return divergence(network, **drawn)

    return descend(start(network, optimiser), optimiser, loss, jax.random.split(key, STEPS))[0].network


def divergence(
    network: Network,
    state: Float[Array, "n features"],
    legal: Bool[Array, "n actions"] | None,
    action: Int[Array, " n"],
    propensity: Float[Array, " n"],
    chances: Float[Array, "n actions"] | None,
) -> Float[Array, ""]:
    """The mean divergence of the network's policy from the logged probabilities."""
    log_pi = log_policy(network, state, legal)
    if chances is not None:
        possible = chances > 0
        apart = jnp.log(jnp.where(possible, chances, 1.0)) - jnp.where(possible, log_pi, 0.0)
        return jnp.mean(jnp.sum(chances * apart, axis=1))
    taken = jnp.take_along_axis(log_pi, action[:, None], axis=1)[:, 0] - jnp.log(propensity)
    return jnp.mean(-taken - 1 + jnp.exp(taken))


def _with_card(policy: Policy, dataset: Dataset) -> Policy:
    card = {"algorithm": "model of today", "data": dataset.fingerprint, "versions": versions()}
    return replace(policy, card={**card, **Schema.stated(dataset.schema)})
