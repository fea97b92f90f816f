"""Retrace's returns of a whole log, row by row, against loops over its episodes."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from logs import make
from statewise.data.device import device_log
from statewise.ops.networks import initial_network
from statewise.parts import q_network, retrace

SCALE, TRACE = 2.0, 0.8
draw, returns = eqx.filter_jit(retrace.draw), eqx.filter_jit(retrace.returns)


def in_numpy(network, states):
    return np.asarray(states, np.float64) @ np.asarray(network.weights[0], np.float64) + np.asarray(network.biases[0])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("discount", "used"), [(0.9, 0.9), (1.0, 0.95)])
def test_against_a_loop(masked, discount, used):
    """Terminated, cut off with and without the final state, discount 1 capped; legal masks in every state."""
    data = make([3, 6, 1, 5, 4], final=[True, True, False, False, True])
    assert data.terminated.tolist() == [True, False, True, False, True]
    legal = np.random.default_rng(2).random((len(data), 3)) < 0.6
    legal[np.arange(len(data)), data.actions] = True
    legal = legal if masked else np.ones_like(legal)
    data = replace(data, legal=legal) if masked else data
    policy, critic = initial_network(jax.random.key(0), (2, 3)), initial_network(jax.random.key(1), (2, 3))
    logits = np.where(legal, in_numpy(policy, data.observations), -np.inf)
    pi = np.exp(logits - logits.max(axis=1, keepdims=True))
    pi /= pi.sum(axis=1, keepdims=True)
    q = in_numpy(critic, data.observations)
    expected, known = np.zeros(len(data)), np.ones(len(data), bool)
    for e in range(data.episodes):
        following = None
        for i in reversed(range(data.starts[e], data.starts[e + 1])):
            reward = data.rewards[i] / SCALE
            if i == data.starts[e + 1] - 1:
                expected[i] = reward
                if not data.terminated[e]:
                    final = data.final_observations[e]
                    known[i] = not np.isnan(final).any() and not masked  # a final state's legal actions are not logged
                    if known[i]:
                        chances = np.exp(in_numpy(policy, final))
                        expected[i] += used * (chances / chances.sum()) @ in_numpy(critic, final)
            else:
                value, a = pi[i + 1] @ q[i + 1], data.actions[i + 1]
                carried = TRACE * min(1, pi[i + 1, a] / data.propensities[i + 1]) * known[i + 1]
                expected[i] = reward + used * (value + carried * (following - q[i + 1, a]))
            following = expected[i]
    log = device_log(data, discount, SCALE)
    batch, valid = draw(log, jax.random.key(3), count=200)
    networks = jax.tree.map(lambda leaf: leaf[None], critic)
    got = np.asarray(returns(networks, policy, batch, log, 0.95, TRACE))
    index, counts = np.asarray(batch.rows.index)[valid], np.asarray(batch.known)[valid]
    assert set(index) == set(range(len(data)))
    np.testing.assert_array_equal(counts > 0, known[index])
    np.testing.assert_allclose(got[valid][counts > 0], expected[index][counts > 0], rtol=1e-4, atol=1e-5)


def test_legal_actions_of_the_next_state_are_the_next_rows():
    data = make([3, 2, 4])
    legal = np.random.default_rng(0).random((len(data), 3)) < 0.7
    legal[np.arange(len(data)), data.actions] = True
    log = device_log(replace(data, legal=legal), 0.9)
    transitions = q_network.transitions(log, log.rows.take(jnp.arange(len(data))))
    last = data.starts[1:] - 1
    inner = np.setdiff1d(np.arange(len(data)), last)
    np.testing.assert_array_equal(np.asarray(transitions.next_legal)[inner], legal[inner + 1])
    np.testing.assert_array_equal(np.asarray(transitions.known)[last], data.terminated)
