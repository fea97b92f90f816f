"""What a chain earns, both ways, against NumPy in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statewise.ops import chains


@pytest.mark.parametrize(("states", "discount"), [(5, 0.9), (48, 0.95), (48, 0.999), (200, 0.999)])
def test_both_ways_are_the_solution(states, discount):
    rng = np.random.default_rng(states)
    moves = discount * rng.dirichlet(np.full(states, 0.05), size=states)
    paid = rng.random(states)
    expected = np.linalg.solve(np.eye(states) - moves, paid)
    for way in (chains.by_doubling, chains.earned):
        found = jax.jit(way)(jnp.asarray(moves, jnp.float32), jnp.asarray(paid, jnp.float32))
        np.testing.assert_allclose(found, expected, rtol=1e-4)
