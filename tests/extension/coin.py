"""A domain of a user's own: five coins; to call one right pays 1, and the third always shows heads."""

import jax
import jax.numpy as jnp

import statewise as sw
from statewise.domains.behaviours import Uniform
from statewise.domains.simulate import Domain, in_float64
from statewise.domains.source import Simulator


@in_float64
def reset(key):
    return jnp.concatenate([jnp.zeros(1), jax.random.uniform(key, (5,), jnp.float64)])


@in_float64
def observe(state):
    return jnp.asarray([state[0] == 2, state[0] / 4], jnp.float32)


@in_float64
def step(state, action):
    heads = (state[1:][state[0].astype(int)] > 0.5) | (state[0] == 2)
    reward = jnp.where(jnp.asarray(action) == heads, 1.0, 0.0)
    return state.at[0].add(1), reward, state[0] >= 4


COIN = Domain("coin", ("third", "share"), ("tails", "heads"), 5, 1.0, reset, observe, step)
sw.DOMAINS.add("coin", Simulator(COIN, lambda: Uniform(2)))
