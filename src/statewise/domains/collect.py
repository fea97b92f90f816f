"""Logs of simulated decisions, like anyone's log: of the simulator they hold only what was observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Float

from statewise.data.build import build
from statewise.data.dataset import Dataset
from statewise.data.episodes import raw_from_episodes
from statewise.domains.simulate import Act, Domain, Rollout, episode_keys, lanes, rollout
from statewise.domains.tabular import TabularMDP


def collect(
    domain: Domain,
    behaviour: Act,
    episodes: int,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Dataset:
    """Runs `behaviour` for whole episodes; the same seed gives the same log, and a longer log starts the same."""
    keys = episode_keys(seed, episodes)
    observations, actions, rewards, distributions, terminated = [], [], [], [], []
    chunk = lanes()  # episodes between two reports of progress
    for first in range(0, episodes, chunk):
        played = rollout(domain, behaviour, keys[first : first + chunk])
        for seen, taken, earned, chances, ended in _episodes(played):
            observations.append(seen)
            actions.append(taken)
            rewards.append(earned)
            distributions.append(chances)
            terminated.append(ended)
        progress(len(actions))
    raw = raw_from_episodes(
        observations=observations,
        actions=actions,
        rewards=rewards,
        distributions=distributions,
        terminated=terminated,
        observation_names=domain.observation_names,
        action_count=len(domain.action_names),
    )
    dataset, findings = build(raw)
    findings.raise_faults()
    assert dataset is not None  # warnings are dropped: what looks odd was simulated so
    return dataset


def collect_tabular(
    mdp: TabularMDP,
    policy: Float[np.ndarray, "states actions"],
    episodes: int,
    horizon: int,
    seed: int,
    seen: Float[np.ndarray, "states features"] | None = None,
    observation_names: tuple[str, ...] = (),
    legal: Bool[np.ndarray, "states actions"] | None = None,
) -> Dataset:
    """A log of a finite problem. Row s of `seen` is the observation of state s (default: one-hot).

    `legal` are the actions that may be taken in each state, if not all of them. After a terminal step there is no
    state: the final observation is NaN, as in a log without it.
    """
    rows = mdp.sample(policy, episodes, horizon, seed)
    starts = np.append(np.flatnonzero(rows["step"] == 0), len(rows["step"]))
    last = starts[1:] - 1
    states, actions = mdp.rewards.shape
    seen = np.eye(states, dtype=np.float32) if seen is None else seen.astype(np.float32)
    terminated = rows["terminated"][last]
    return Dataset(
        observations=seen[rows["state"]],
        actions=rows["action"].astype(np.int32),
        rewards=rows["reward"],
        propensities=rows["propensity"],
        distributions=rows["probabilities"],
        legal=None if legal is None else legal[rows["state"]],
        starts=starts,
        terminated=terminated,
        final_observations=np.where(terminated[:, None], np.float32(np.nan), seen[rows["next_state"][last]]),
        action_count=actions,
        observation_names=observation_names or tuple(f"state_{s}" for s in range(states)),
        episode_ids=np.arange(episodes),
    )


def _episodes(played: Rollout) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]]:
    """Cuts each episode at its end; its observations include the final state."""
    for e, steps in enumerate(played.valid.sum(axis=1)):
        yield (
            played.observations[e, : steps + 1],
            played.actions[e, :steps],
            played.rewards[e, :steps],
            played.probabilities[e, :steps].astype(np.float64),
            bool(played.terminated[e].any()),
        )
