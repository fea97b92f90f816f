"""A Dataset as device arrays: padded episodes for recursions over time, flat transitions for mini-batches."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from statewise.data.dataset import Dataset


class Padded(eqx.Module):
    """Episodes of one length with a mask; entries that are not `valid` are zeros (actions: 0, propensities: 1)."""

    observations: Float[Array, "episodes horizon_and_one features"]  # the state after the last step: final, or repeated
    actions: Int[Array, "episodes horizon"]
    rewards: Float[Array, "episodes horizon"]
    propensities: Float[Array, "episodes horizon"]
    terminated: Bool[Array, "episodes horizon"]
    valid: Bool[Array, "episodes horizon"]
    legal: Bool[Array, "episodes horizon actions"]


class Transitions(eqx.Module):
    """Every decision as one row; `states` holds all decisions' states first, then the final ones.

    Row i goes from `states[i]` to `states[next_state[i]]`.
    """

    states: Float[Array, "states features"]
    next_state: Int[Array, " steps"]
    actions: Int[Array, " steps"]
    rewards: Float[Array, " steps"]
    propensities: Float[Array, " steps"]
    time: Int[Array, " steps"]
    ends: Bool[Array, " steps"]  # the last decision of its episode
    terminated: Bool[Array, " steps"]  # … and the world ended it: nothing follows
    next_known: Bool[Array, " steps"]  # False where an episode was cut off and its final state is not logged
    live: Bool[Array, " states"]  # False on padding and on the absorbing state: they are worth 0
    legal: Bool[Array, "states actions"]
    initial: Int[Array, " episodes"]  # the first row of each episode
    action_count: int = eqx.field(static=True)


def pad_to_device(dataset: Dataset, horizon: int | None = None) -> Padded:
    """Scatters the ragged rows into [episodes, horizon] arrays of float32."""
    longest = int(dataset.lengths.max())
    horizon = longest if horizon is None else horizon
    if horizon < longest:
        raise ValueError(f"horizon {horizon} is shorter than the longest episode, {longest} steps")
    where = (dataset.episode_of_step, dataset.time)
    shape = (dataset.episodes, horizon)

    def scatter(values: np.ndarray, empty, dtype) -> np.ndarray:
        out = np.full(shape + values.shape[1:], empty, dtype=dtype)
        out[where] = values
        return out

    observations = np.zeros((dataset.episodes, horizon + 1, dataset.observations.shape[1]), dtype=np.float32)
    observations[where] = dataset.observations
    last = dataset.starts[1:] - 1
    known = dataset.has_final_observation
    after = np.where(known[:, None], dataset.final_observations, dataset.observations[last])
    observations[np.arange(dataset.episodes), dataset.lengths] = after
    ends = np.zeros(len(dataset), dtype=bool)
    ends[last] = dataset.terminated
    legal = _legal(dataset)
    return Padded(
        observations=jnp.asarray(observations),
        actions=jnp.asarray(scatter(dataset.actions, 0, np.int32)),
        rewards=jnp.asarray(scatter(dataset.rewards, 0, np.float32)),
        propensities=jnp.asarray(scatter(_propensities(dataset), 1, np.float32)),
        terminated=jnp.asarray(scatter(ends, False, bool)),
        valid=jnp.asarray(scatter(np.ones(len(dataset), dtype=bool), False, bool)),
        legal=jnp.asarray(scatter(legal, True, bool)),
    )


def transitions(dataset: Dataset) -> Transitions:
    """Every decision of a Dataset as a row on the device, observations as they are (scale them first)."""
    steps, last = len(dataset), dataset.starts[1:] - 1
    known = dataset.has_final_observation
    next_state = np.arange(1, steps + 1)
    next_state[last] = steps + np.arange(dataset.episodes)
    after = np.where(known[:, None], dataset.final_observations, dataset.observations[last])
    ends, terminated, next_known = (np.zeros(steps, dtype=bool) for _ in range(3))
    ends[last] = True
    terminated[last] = dataset.terminated
    next_known[:] = True
    next_known[last] = known | dataset.terminated
    live = np.ones(steps, dtype=bool) if dataset.live is None else dataset.live
    # a padded episode ends in padding; any other final state is live unless the world ended there
    final_live = live[last] & ~dataset.terminated
    legal = _legal(dataset)
    return Transitions(
        states=jnp.asarray(np.concatenate([dataset.observations, after]), dtype=jnp.float32),
        next_state=jnp.asarray(next_state, dtype=jnp.int32),
        actions=jnp.asarray(dataset.actions),
        rewards=jnp.asarray(dataset.rewards, dtype=jnp.float32),
        propensities=jnp.asarray(_propensities(dataset), dtype=jnp.float32),
        time=jnp.asarray(dataset.time, dtype=jnp.int32),
        ends=jnp.asarray(ends),
        terminated=jnp.asarray(terminated),
        next_known=jnp.asarray(next_known),
        live=jnp.asarray(np.concatenate([live, final_live])),
        legal=jnp.asarray(np.concatenate([legal, np.ones((dataset.episodes, dataset.action_count), dtype=bool)])),
        initial=jnp.asarray(dataset.starts[:-1], dtype=jnp.int32),
        action_count=dataset.action_count,
    )


def _legal(dataset: Dataset) -> np.ndarray:
    if dataset.legal is not None:
        return dataset.legal
    return np.ones((len(dataset), dataset.action_count), dtype=bool)


def _propensities(dataset: Dataset) -> np.ndarray:
    if dataset.propensities is None:
        raise ValueError("the log holds no propensities: estimate them first (--propensity estimate), or log them")
    return dataset.propensities
