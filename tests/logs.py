"""Small logs for tests."""

from dataclasses import replace

import numpy as np

import statewise as sw


def make(lengths, *, units=None, final=None, seed=0, actions=3, features=2) -> sw.Dataset:
    """Episodes of the given lengths; the first observation column counts rows, so that every row is known."""
    rng = np.random.default_rng(seed)
    final = [True] * len(lengths) if final is None else final
    observations, first = [], 0
    for n, more in zip(lengths, final, strict=True):
        seen = rng.normal(size=(n + more, features))
        seen[:, 0] = first + np.arange(n + more)
        observations.append(seen)
        first += n + more
    distributions = [rng.dirichlet(np.ones(actions), size=n) for n in lengths]
    return sw.Dataset.from_episodes(
        observations=observations,
        actions=[rng.integers(actions, size=n) for n in lengths],
        rewards=[rng.normal(size=n) for n in lengths],
        distributions=distributions,
        terminated=[e % 2 == 0 for e in range(len(lengths))],
        units=units,
    )


def simulated(episodes=200, length=15, seed=0, masked=False, units=None):
    """A log whose behaviour is a known softmax of its observations."""
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(episodes, length, 3))
    logits = np.stack([seen[..., 0], -seen[..., 1], 0.5 * seen[..., 2]], axis=-1)
    legal = np.ones(logits.shape, dtype=bool)
    if masked:
        legal[..., 2] = rng.random((episodes, length)) < 0.5
    chances = np.exp(logits) * legal
    chances /= chances.sum(axis=-1, keepdims=True)
    actions = (chances.cumsum(axis=-1) < rng.random((episodes, length, 1))).sum(axis=-1)
    return sw.Dataset.from_episodes(
        observations=list(seen),
        actions=list(actions),
        rewards=list(rng.normal(size=(episodes, length))),
        distributions=list(chances),
        legal=list(legal) if masked else None,
        terminated=[True] * episodes,
        units=units,
    )


def without(data):
    """The log as if nobody had written down the propensities."""
    return replace(data, propensities=None, distributions=None, estimated=None)


def stands_for(data):
    """What each row counts for where records stop before episodes end, and the horizon: one row at a time.

    G(t + 1) = G(t) · (1 − those cut off after t / those recorded at t that do not end there). Kaplan and Meier (1958).
    """
    longest, chance = int(data.lengths.max()), [1.0]
    for t in range(longest):
        running = [e for e in range(data.episodes) if data.lengths[e] > t]
        here = [e for e in running if data.lengths[e] == t + 1]
        cut = sum(not data.terminated[e] for e in here)
        on = len(running) - (len(here) - cut)
        chance.append(chance[-1] * (1 - cut / on) if on else chance[-1])
    horizon = max(t for t in range(longest) if chance[t] >= 0.1) + 1
    weights = []
    for e in range(data.episodes):
        for t in range(data.lengths[e]):
            last = t + 1 == data.lengths[e]
            if t >= horizon or (last and not data.terminated[e] and t < horizon - 1):
                weights.append(0.0)  # what it led to is not known
            elif t == horizon - 1 or (last and data.terminated[e]):
                weights.append(1 / chance[t])
            else:
                weights.append(1 / chance[t + 1])
    return np.array(weights), horizon


def written_out(equations) -> np.ndarray:
    """The judge's features of every row, in the order of its equations."""
    return equations.rows.times(np.eye(equations.rows.rank))
