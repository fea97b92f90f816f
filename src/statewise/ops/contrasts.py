"""Functions of the action, for tests of state and action."""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float

CONTRASTS = 3  # of actions at most, beside the constant; as many as there are for four actions


@cache
def contrasts_of(actions: int) -> Float[np.ndarray, "actions contrasts"]:
    """Functions of the action that sum to 0, orthogonal and of mean square 1; with many actions a few at random.

    All of them together are the same tests whatever their directions.
    """
    columns = min(actions, 1 + CONTRASTS)
    drawn = np.random.default_rng(0).normal(size=(actions, columns))
    drawn[:, 0] = 1.0
    return np.sqrt(actions) * np.linalg.qr(drawn)[0][:, 1:]
