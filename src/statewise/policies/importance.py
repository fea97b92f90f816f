"""Which columns a policy looks at: what shuffling them changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset

SAMPLE = 5000  # decisions


def importance_of(
    policy: Any, dataset: Dataset, features: Sequence[Sequence[int]], sample: int = SAMPLE
) -> Float[np.ndarray, " sets"]:
    """Of each set of features, mean ½ Σ_a |π(a|s) − π(a|s′)|, s′ being s with that set shuffled between decisions."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(dataset))[:sample]
    observations = np.asarray(dataset.observations[rows], dtype=np.float64)
    before = policy.probabilities(observations)
    changes = []
    for chosen in features:
        shuffled, order = observations.copy(), rng.permutation(len(rows))
        shuffled[:, list(chosen)] = observations[order][:, list(chosen)]
        changes.append(float(np.abs(policy.probabilities(shuffled) - before).sum(axis=1).mean() / 2))
    return np.array(changes)
