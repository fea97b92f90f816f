"""How an exported policy is compared with the policy itself."""

from __future__ import annotations

import numpy as np

from statewise.policies.network import Policy

TOLERANCE = 1e-6
TRIED = 1000


def around_mean(policy: Policy) -> np.ndarray:
    """Random observations [n, features], twice as far from the log's mean as the log's own."""
    noise = np.random.default_rng(0).normal(size=(TRIED, len(policy.mean)))
    return policy.mean + 2 * noise * policy.std
