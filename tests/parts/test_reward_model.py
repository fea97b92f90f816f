"""Rewards of all actions by regression, against least squares written out and against the truth."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statewise as sw
from logs import make
from statewise.algorithms import ALGORITHMS
from statewise.algorithms.offpac import OffPAC
from statewise.data.horizon import Horizon
from statewise.learning.fit import fit, prepare
from statewise.ops.networks import initial_network
from statewise.parts import known_values, reward_model
from statewise.parts.actor import Actor
from statewise.parts.critic import Critic
from statewise.parts.view import view_of


def decisions(count=4000, actions=3, seed=0, noise=0.5):
    """Single decisions; action a earns θₐ·s and noise."""
    generator = np.random.default_rng(seed)
    states = generator.normal(size=(count, 2)).astype(np.float32)
    slopes = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, -1.0]])[:actions]
    taken = generator.integers(actions, size=count).astype(np.int32)
    means = states @ slopes.T
    rewards = means[np.arange(count), taken] + noise * generator.normal(size=count)
    log = sw.Dataset.from_episodes(
        observations=list(states[:, None]),
        actions=list(taken[:, None]),
        rewards=list(rewards[:, None]),
        distributions=list(np.full((count, 1, actions), 1 / actions)),
        terminated=[True] * count,
    )
    return log, means


def test_it_finds_what_actions_earn():
    data, means = decisions()
    scaled, _ = view_of(data)
    found = reward_model.expected_rewards(scaled)
    assert np.sqrt(np.mean((found - means) ** 2)) < 0.06  # the noise of one reward is .5
    assert (found < means + 0.1).all()


@pytest.mark.parametrize("block", [1000, 1300])
def test_blocks_of_a_long_log_are_summed(block, monkeypatch):
    scaled, _ = view_of(decisions()[0])
    expected = reward_model.expected_rewards(scaled)
    monkeypatch.setattr(reward_model, "BLOCK", block)
    monkeypatch.setattr(reward_model, "CHUNK", 300)
    np.testing.assert_allclose(reward_model.expected_rewards(scaled), expected, rtol=1e-9, atol=1e-11)


def test_of_many_decisions_some_are_valued(monkeypatch):
    data, _ = decisions()
    monkeypatch.setattr(known_values, "MANY", 3999)
    monkeypatch.setattr(known_values, "SOME", 1000)
    config = OffPAC(updates=2, actor=Actor(clone_steps=20, clone_batch=100, batch=500))
    log = prepare(config, data)[0].log
    assert log.known.valued.shape == (1000,)
    network = initial_network(jax.random.key(1), (2, 3), last_scale=1.0)
    found = known_values.evaluate(log.known, None, network, jnp.asarray(1.0))
    scaled, _ = view_of(data)
    rows = np.asarray(log.known.valued)
    logits = scaled.observations[rows] @ np.asarray(network.weights[0]) + np.asarray(network.biases[0])
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = (chances * reward_model.expected_rewards(scaled)[rows]).sum(axis=1)
    np.testing.assert_allclose(np.asarray(found.states), expected, rtol=1e-4, atol=1e-5)
    among = np.asarray(known_values.of_first(found, log, jnp.arange(4000)))
    np.testing.assert_array_equal(among, np.tile(np.asarray(found.states), 4))  # each stands for as many rows
    learned = fit(data, config)
    (value,) = learned.metrics["value"][:, -1]
    cloned = learned.policies[0].probabilities(data.observations)
    every = (cloned * reward_model.expected_rewards(scaled)).sum(axis=1)
    assert value == pytest.approx(every.mean(), abs=6 * every.std() / np.sqrt(256))


def test_ridge_is_least_squares_towards_all_actions():
    generator = np.random.default_rng(1)
    x, r, action = generator.normal(size=(60, 3)), generator.normal(size=60), np.repeat([0, 1], 30)
    gram = np.stack([x[action == a].T @ x[action == a] for a in (0, 1)])
    moment = np.stack([x[action == a].T @ r[action == a] for a in (0, 1)])
    got = reward_model._coefficients(gram, moment, 30.0)

    def ridge(x, r, penalty):
        extra = np.diag(np.sqrt(penalty))
        return np.linalg.lstsq(np.vstack([x, extra]), np.concatenate([r, np.zeros(3)]), rcond=None)[0]

    shared = ridge(x, r, np.full(3, reward_model.SHARED_RIDGE))
    for a in (0, 1):
        own = ridge(x[action == a], r[action == a] - x[action == a] @ shared, np.array([10.0, 30.0, 30.0]))
        np.testing.assert_allclose(got[a], shared + own, rtol=1e-8)


def test_what_was_hardly_tried_is_valued_with_caution(monkeypatch):
    data, _ = decisions(noise=1.0)
    rare = np.asarray(data.actions) == 2
    few = np.flatnonzero(rare)[:5]
    kept = np.sort(np.concatenate([np.flatnonzero(~rare), few]))
    scaled, _ = view_of(data.take(kept))
    plain = reward_model.expected_rewards(scaled)
    monkeypatch.setattr(reward_model, "CAUTION", 0.0)
    bold = reward_model.expected_rewards(scaled)
    taken_off = (bold - plain).mean(axis=0)
    assert (taken_off > 0).all()
    assert taken_off[2] > 5 * taken_off[:2].max()


def test_only_single_decisions_that_end_are_regressed():
    data, _ = decisions(count=60)
    assert reward_model.single_decisions(data)
    assert not reward_model.single_decisions(make([1, 2, 1], actions=2))
    assert not reward_model.single_decisions(replace(data, terminated=np.zeros(60, bool), ends=Horizon("continuing")))
    prepared, _ = prepare(OffPAC(discount=1.0), data)
    assert prepared.log.known is not None
    assert prepared.log.known.rewards.shape == (60, 3)
    off, _ = prepare(OffPAC(discount=1.0, critic=Critic(closed_form=False)), data)
    assert off.log.known is None


@pytest.mark.parametrize("algorithm", ["offpac", "opposd"])
def test_policies_come_to_the_better_action(algorithm):
    """With 300 updates they earn 90 % of what the best policy does beyond chance; ρ-weighted rewards alone do not."""
    data, _ = decisions()
    settings = ALGORITHMS[algorithm].settings(
        critic=Critic(hidden=(4,), batch=20, steps=1, warm_steps=1),
        actor=Actor(hidden=(16,), batch=500, clone_steps=50, clone_batch=200),
        updates=300,
    )
    policy = fit(data, settings).policies[0]
    fresh, means = decisions(count=2000, seed=5)
    earned = (policy.probabilities(fresh.observations) * means).sum(axis=1).mean()
    assert earned > 0.9 * means.max(axis=1).mean()
