"""What section 3 of the paper does to a log before learning: the absorbing state, padding, scaling.

The *absorbing* state stands for everything that the behaviour policy cannot reach: an action that it never takes in a
state leads there, and nothing is ever earned there. If no reward is negative, a policy's value in the augmented world
is at most its value in the real one, and equal to it for policies that the log covers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.base.column import PART, like, parts_of
from statewise.data.dataset import Dataset

ABSORBED = "absorbed"  # the observation column that is 1 in the absorbing state and 0 elsewhere
APART = 4.0  # the distance of the absorbing state from all others, in typical distances between states


@dataclass(frozen=True)
class Scaler:
    """Shifts and scales observations so that the live states of a log have mean 0 and deviation 1.

    The mark of the absorbing state is made so large that no kernel takes that state for one near the mean.
    """

    mean: Float[np.ndarray, " features"]
    std: Float[np.ndarray, " features"]

    @classmethod
    def of(cls, dataset: Dataset) -> Scaler:
        observed = dataset.observations if dataset.live is None else dataset.observations[dataset.live]
        mean, std = _mean_and_deviation(observed)
        # a constant column would be divided by zero, or by its rounding error
        constant = observed.min(axis=0) == observed.max(axis=0)
        std = np.where(constant, 1.0, std)
        if dataset.observation_names[-1] == ABSORBED:
            std[-1] = 1 / (APART * np.sqrt(2 * max(1, len(std) - 1)))  # scaled states are √(2·features) apart
        return cls(mean, std)

    def __call__(self, observations: Float[np.ndarray, "... features"]) -> Float[np.ndarray, "... features"]:
        return (observations - self.mean) / self.std

    def scale(self, dataset: Dataset) -> Dataset:
        """The log with scaled observations; those of more than one block of rows in single precision."""
        return replace(
            dataset,
            observations=self._in_blocks(dataset.observations),
            final_observations=self._in_blocks(dataset.final_observations),
        )

    def _in_blocks(self, observations: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n features"]:
        if len(observations) <= PART:
            return self(observations)
        scaled = like(observations, observations.shape, np.float32)
        for rows in parts_of(len(observations)):
            scaled[rows] = self(observations[rows])
        return scaled


def _mean_and_deviation(
    observed: Float[np.ndarray, "n features"],
) -> tuple[Float[np.ndarray, " features"], Float[np.ndarray, " features"]]:
    """Of each column, block by block: NumPy's own deviation makes a copy of all rows in double precision."""
    if len(observed) <= PART:
        return observed.mean(axis=0, dtype=np.float64), observed.std(axis=0, dtype=np.float64)
    mean, squares = np.zeros(observed.shape[1]), np.zeros(observed.shape[1])
    for rows in parts_of(len(observed)):
        mean += observed[rows].sum(axis=0, dtype=np.float64) / len(observed)
    for rows in parts_of(len(observed)):
        squares += np.square(observed[rows] - mean).sum(axis=0)
    return mean, np.sqrt(squares / len(observed))


class Smoothed(NamedTuple):
    """A log as if μ̃ = (1 − ε)μ + ε·(uniform over μ's unsupported actions) had acted, and what was added to rewards."""

    dataset: Dataset
    reward_shift: float


def smooth(dataset: Dataset, epsilon: float, seed: int = 0, horizon: int | None = None) -> Smoothed:
    """ε-smoothing along each trajectory, in order of time.

    In a state with unsupported legal actions, one of them is drawn with probability ε, earns 0 and leads to the
    absorbing state, where the episode stays until `horizon` (by default the length of the longest episode). A decision
    that is kept in such a state has its propensity multiplied by 1 − ε; in states without unsupported actions nothing
    changes. Needs whole distributions: without them, what was never possible looks like what was never drawn.

    The result's propensities count as known: `estimated` is dropped where they were estimated.
    """
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon must be between 0 and 1, got {epsilon}")
    if dataset.distributions is None or dataset.propensities is None:
        raise ValueError("smoothing needs whole logged distributions (propensity_0, propensity_1, …)")
    unsupported = dataset.distributions <= 0
    if dataset.legal is not None:
        unsupported &= dataset.legal
    choices = unsupported.sum(axis=1)
    if not choices.any():
        return Smoothed(dataset, 0.0)

    rng = np.random.default_rng(seed)
    leaves = (choices > 0) & (rng.random(len(dataset)) < epsilon)
    drawn = _draw(unsupported, rng)
    left_at = np.minimum.reduceat(np.where(leaves, dataset.time, len(dataset)), dataset.starts[:-1])
    absorbed = left_at < dataset.lengths
    longest = int(dataset.lengths.max()) if horizon is None else horizon
    kept = np.where(absorbed, left_at + 1, dataset.lengths)
    # at least one row in the absorbing state, to show that nothing is earned after the last decision
    total = np.where(absorbed, np.maximum(longest, kept + 1), dataset.lengths)

    shift = _shift(dataset)
    leaving = dataset.starts[:-1][absorbed] + left_at[absorbed]
    smoothed = np.where(choices > 0, 1 - epsilon, 1.0)
    per_choice = epsilon / np.maximum(choices, 1)
    distributions = dataset.distributions * smoothed[:, None] + unsupported * per_choice[:, None]
    actions, rewards = dataset.actions.copy(), dataset.rewards + shift
    propensities = dataset.propensities * smoothed
    actions[leaving], rewards[leaving], propensities[leaving] = drawn[leaving], 0.0, per_choice[leaving]
    changed = _with_column(
        replace(
            dataset,
            actions=actions,
            rewards=rewards,
            propensities=propensities,
            distributions=distributions,
            estimated=None,
        ),
        ABSORBED,
    )
    nowhere = np.append(dataset.observations.mean(axis=0, dtype=np.float64), 1.0)
    filler = np.broadcast_to(nowhere, (dataset.episodes, len(nowhere)))
    return Smoothed(_extend(changed, kept, total, filler, absorbed, None, rng), shift)


def pad(dataset: Dataset, horizon: int, seed: int = 0) -> Dataset:
    """Pads terminated episodes to `horizon` by repeating their last state; padding earns 0.

    Its actions are drawn from the last logged distribution, or uniformly if only the probability of the action taken
    was logged: in a state that no action leaves, any known distribution will do. As with `smooth`, the result's
    propensities count as known.
    """
    if horizon < dataset.lengths.max():
        raise ValueError(f"horizon {horizon} is shorter than the longest episode, {dataset.lengths.max()} steps")
    short = dataset.terminated & (dataset.lengths < horizon)
    total = np.where(short, horizon, dataset.lengths)
    last = dataset.starts[1:] - 1
    known = dataset.has_final_observation[:, None]
    filler = np.where(known, dataset.final_observations, dataset.observations[last])
    usual = None if dataset.distributions is None else dataset.distributions[last]
    return _extend(dataset, dataset.lengths, total, filler, short, usual, np.random.default_rng(seed))


def seen_by_policy(dataset: Dataset) -> Float[np.ndarray, "steps seen"]:
    """The observations without the mark of the absorbing state, which no policy meets in the world."""
    return dataset.observations[:, :-1] if dataset.observation_names[-1] == ABSORBED else dataset.observations


def _shift(dataset: Dataset) -> float:
    """What must be added so that no reward is below the absorbing state's 0."""
    shift = max(0.0, -float(dataset.rewards.min()))
    if shift > 0 and (dataset.terminated.any() or dataset.live is not None):
        raise ValueError(
            f"the least reward is {dataset.rewards.min():g} and episodes terminate: the absorbing state needs rewards "
            "of 0 or more, and raising them all would reward policies for longer episodes"
        )
    return shift


def _draw(allowed: Bool[np.ndarray, "rows actions"], rng: np.random.Generator) -> Int[np.ndarray, " rows"]:
    """One of the allowed actions in each row, all equally likely."""
    return np.argmax(np.where(allowed, rng.random(allowed.shape), -1.0), axis=1).astype(np.int32)


def _with_column(dataset: Dataset, name: str) -> Dataset:
    """The log with one more observation column of zeros."""

    def widen(values: np.ndarray) -> np.ndarray:
        return np.column_stack([values, np.zeros(len(values), dtype=values.dtype)])

    return replace(
        dataset,
        observations=widen(dataset.observations),
        final_observations=widen(dataset.final_observations),
        observation_names=(*dataset.observation_names, name),
    )


def _extend(
    dataset: Dataset,
    kept: Int[np.ndarray, " episodes"],
    total: Int[np.ndarray, " episodes"],
    filler: Float[np.ndarray, "episodes features"],
    extended: Bool[np.ndarray, " episodes"],
    distributions: Float[np.ndarray, "episodes actions"] | None,
    rng: np.random.Generator,
) -> Dataset:
    """Keeps the first rows of each episode and adds rows that stay in its `filler` state and earn nothing.

    Extended episodes are no longer terminated; they are cut off in the filler state.
    """
    starts = np.concatenate([[0], np.cumsum(total)])
    episode = np.repeat(np.arange(dataset.episodes), total)
    time = np.arange(starts[-1]) - starts[:-1][episode]
    added = time >= kept[episode]
    source = np.where(added, 0, dataset.starts[:-1][episode] + time)

    behaviour = np.full((len(source), dataset.action_count), 1 / dataset.action_count)
    if distributions is not None:
        behaviour = distributions[episode]
    above = behaviour.cumsum(axis=1) / behaviour.sum(axis=1, keepdims=True) > rng.random((len(source), 1))
    actions = np.argmax(above, axis=1).astype(np.int32)
    chosen = np.take_along_axis(behaviour, actions[:, None].astype(np.int64), axis=1)[:, 0]

    def fill(column: np.ndarray | None, value: Any) -> Any:
        if column is None:
            return None
        mask = added.reshape(-1, *[1] * (column.ndim - 1))
        return np.where(mask, value, column[source]).astype(column.dtype)

    live = np.ones(len(dataset), dtype=bool) if dataset.live is None else dataset.live
    return replace(
        dataset,
        observations=fill(dataset.observations, filler[episode]),
        actions=fill(dataset.actions, actions),
        rewards=fill(dataset.rewards, 0.0),
        propensities=fill(dataset.propensities, chosen),
        distributions=fill(dataset.distributions, behaviour),
        legal=fill(dataset.legal, True),
        targets=None,  # it is not known what that policy would do in the added states
        live=fill(live, False),
        estimated=None,  # there are no refits of the added rows
        starts=starts,
        terminated=dataset.terminated & ~extended,
        final_observations=np.where(extended[:, None], filler, dataset.final_observations).astype(
            dataset.final_observations.dtype
        ),
    )
