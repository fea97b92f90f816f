"""Small logs for tests."""

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
