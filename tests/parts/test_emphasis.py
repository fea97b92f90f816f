"""Emphatic weights against a loop over a ragged log, and their mean against the exact weighting of a small problem."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from logs import make
from statewise.data.device import device_log
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP, softmax
from statewise.ops.networks import Network, initial_network
from statewise.parts import emphasis
from statewise.parts.emphasis import Emphasis
from statewise.parts.policy import log_policy

DISCOUNT = 0.9
# one program; operation by operation it would be hundreds
of_log = eqx.filter_jit(emphasis.of_log)


@pytest.mark.parametrize("settings", [Emphasis(), Emphasis(share=0.3, clip=1.1)])
def test_against_a_loop(settings):
    data = make([3, 6, 1, 5])
    policy = initial_network(jax.random.key(0), (2, 3))
    got = of_log(settings, policy, device_log(data, DISCOUNT))
    chances = np.exp(log_policy(policy, jnp.asarray(data.observations, jnp.float32)))
    expected = []
    for e in range(data.episodes):
        trace, before = 0.0, 0.0
        for i in range(data.starts[e], data.starts[e + 1]):
            trace = 1.0 + DISCOUNT * before * trace
            before = chances[i, data.actions[i]] / data.propensities[i]
            before = before if settings.clip is None else min(before, settings.clip)
            expected.append((1 - settings.share) + settings.share * trace)
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_mean_in_each_state_is_the_exact_emphasis():
    """Σ over visits of F is, per episode, m = (I − γ P_πᵀ)⁻¹ v_μ, with v_μ the behaviour's visits."""
    mdp = TabularMDP.random(states=3, actions=2, seed=6, termination=0.3)
    logits, behaviour = np.random.default_rng(0).normal(size=(3, 2)), np.full((3, 2), 0.5)
    episodes = 40_000
    data = collect_tabular(mdp, behaviour, episodes, horizon=60, seed=0)
    assert data.terminated.all()
    policy = Network((jnp.asarray(logits, jnp.float32),), (jnp.zeros(2),))
    weights = np.asarray(of_log(Emphasis(), policy, device_log(data, DISCOUNT)), np.float64)
    visits = mdp.visits(behaviour, 1.0)
    exact = np.linalg.solve(np.eye(3) - DISCOUNT * mdp.chain(softmax(logits)).T, visits)
    states = data.observations.argmax(axis=1)
    for s in range(3):
        totals = np.bincount(data.episode_of_step[states == s], weights=weights[states == s], minlength=episodes)
        error = totals.std() / np.sqrt(episodes)
        assert error < 0.05 * exact[s]
        assert abs(totals.mean() - exact[s]) < 4 * error
        assert abs(visits[s] - exact[s]) > 10 * error  # no weight at all would be distinguished from the right one
