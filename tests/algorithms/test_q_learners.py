"""SAC, CQL and fitted Q iteration against exact fixed points, on a log that covers a whole deterministic problem."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from statewise.algorithms import cql, sac
from statewise.algorithms.cql import CQL
from statewise.algorithms.fitted_q import FittedQ
from statewise.algorithms.sac import SAC
from statewise.data.augment import Scaler
from statewise.data.dataset import Dataset
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP, softmax
from statewise.learning.fit import fit, prepare
from statewise.learning.program import Compiled
from statewise.parts import temperature
from statewise.parts.q_network import QNetwork
from statewise.parts.temperature import Temperature

DISCOUNT, STATES, ACTIONS = 0.8, 4, 2
NEXT = np.array([[1, 2], [0, 3], [3, 1], [2, -1]])  # −1: the episode ends
REWARDS = np.array([[0.1, 0.4], [0.9, 0.0], [0.3, 0.5], [0.2, 1.0]])
MDP = TabularMDP(np.where(NEXT[..., None] == np.arange(STATES), 1.0, 0.0), REWARDS, np.full(STATES, 0.25))
Q = QNetwork(hidden=(), learning_rate=0.05, batch=200, steps=10, target_rate=0.1)


@pytest.fixture(scope="module")
def data():
    log = collect_tabular(MDP, np.full((STATES, ACTIONS), 0.5), episodes=100, horizon=5, seed=0)
    assert 10 < log.terminated.sum() < 90
    return log


def backed_up(values):
    """r + γ V(s'), with V after the end 0."""
    return REWARDS + DISCOUNT * np.where(NEXT >= 0, values[NEXT], 0.0)


def last_state(monkeypatch, data, config):
    """The run's result, and what its learner's state was at the end, of the one seed."""
    states = []
    real = Compiled.advance
    monkeypatch.setattr(Compiled, "advance", lambda *arguments: states.append(real(*arguments)) or states[-1])
    result = fit(data, config, seeds=[0])
    return result, jax.tree.map(lambda leaf: leaf[0], states[-1][0])


def value_estimates(network, data):
    scaled = Scaler.of(data)(np.eye(STATES))
    scale = np.std(data.returns(DISCOUNT))
    return scale * np.asarray(network(jnp.asarray(scaled, jnp.float32)), np.float64)


# SAC


def test_soft_value_against_a_sum():
    rng = np.random.default_rng(0)
    values, policy = rng.normal(size=(3, 4)), rng.dirichlet(np.ones(4), size=3)
    policy[0] = [0.5, 0.0, 0.5, 0.0]
    with np.errstate(divide="ignore"):
        chances = np.log(policy)
    expected = [
        sum(p * (q - 0.3 * np.log(p)) for p, q in zip(ps, qs, strict=True) if p > 0)
        for ps, qs in zip(policy, values, strict=True)
    ]
    got = sac.soft_value(*(jnp.asarray(x, jnp.float32) for x in (values, chances, 0.3)))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_sac_settles_where_soft_value_iteration_does(data, monkeypatch):
    """Q* = r + γ τ log Σ_b exp Q*(s',b)/τ and π* = softmax(Q*/τ); τ is in units of the log's returns."""
    heat = 2.0
    config = SAC(discount=DISCOUNT, critic=Q, temperature=Temperature(heat), hidden=(), learning_rate=0.2, updates=100)
    result, state = last_state(monkeypatch, data, config)
    absolute = heat * np.std(data.returns(DISCOUNT))
    exact = np.zeros((STATES, ACTIONS))
    for _ in range(200):
        exact = backed_up(absolute * np.log(np.exp(exact / absolute).sum(axis=1)))
    policy = result.policies[0].probabilities(np.eye(STATES))
    np.testing.assert_allclose(policy, softmax(exact / absolute), atol=0.01)
    assert 0.01 < policy.min() < 0.3  # soft, and not uniform
    for i in range(2):
        network = jax.tree.map(lambda leaf, i=i: leaf[i], state.critic.network)
        np.testing.assert_allclose(value_estimates(network, data), exact, rtol=0.01)


def test_temperature_falls_while_the_entropy_is_too_high_and_rises_while_too_low():
    settings = Temperature(start=0.2, entropy=0.5, learning_rate=0.01)
    start = temperature.initial(settings)
    highest = jnp.asarray(np.log(2), jnp.float32)
    assert float(start.value) == pytest.approx(0.2)
    for entropy, direction in ((0.6, -1), (0.1, 1)):
        tuned = temperature.tune(settings, start, jnp.asarray(entropy), highest)
        step = float(tuned.log_value - start.log_value)
        assert step == pytest.approx(direction * 0.01, rel=1e-3)  # Adam's first one is the learning rate
    assert temperature.tune(Temperature(0.2), start, jnp.asarray(0.6), highest) is start
    with pytest.raises(ValueError, match="above 0"):
        temperature.initial(Temperature(0.0))


def test_tuned_temperature_keeps_the_wanted_entropy(data):
    settings = Temperature(start=1.0, entropy=0.6, learning_rate=0.1)
    config = SAC(discount=DISCOUNT, critic=Q, temperature=settings, hidden=(), learning_rate=0.1, updates=150)
    result = fit(data, config, seeds=[0])
    np.testing.assert_allclose(result.metrics["entropy"][0, -10:], 0.6 * np.log(2), atol=0.02)


# CQL


def test_overestimates_against_a_loop():
    rng = np.random.default_rng(1)
    values, actions = rng.normal(size=(5, 3)), rng.integers(3, size=5)
    values[2, (actions[2] + 1) % 3] = -np.inf  # not legal
    expected = [np.log(sum(np.exp(q) for q in row)) - row[a] for row, a in zip(values, actions, strict=True)]
    logged = jnp.asarray(values[np.arange(5), actions], jnp.float32)
    np.testing.assert_allclose(cql.overestimates(jnp.asarray(values, jnp.float32), logged), expected, rtol=1e-5)


def test_cql_without_conservatism_is_value_iteration(data, monkeypatch):
    config = CQL(discount=DISCOUNT, critic=Q, conservatism=0.0, updates=100)
    result, state = last_state(monkeypatch, data, config)
    exact = np.zeros((STATES, ACTIONS))
    for _ in range(100):
        exact = backed_up(exact.max(axis=1))
    network = jax.tree.map(lambda leaf: leaf[0], state.critic.network)
    np.testing.assert_allclose(value_estimates(network, data), exact, rtol=0.01)
    expected = softmax(exact / np.std(data.returns(DISCOUNT)) / config.temperature)
    np.testing.assert_allclose(result.policies[0].probabilities(np.eye(STATES)), expected, atol=0.05)


def test_cql_on_a_bandit_minimises_its_loss(monkeypatch):
    """One decision an episode: the whole loss in three numbers, minimised by SciPy."""
    rng = np.random.default_rng(2)
    actions = rng.choice(3, size=400, p=[0.6, 0.3, 0.1])
    rewards = np.array([0.2, 0.5, 0.9])[actions] + 0.1 * rng.normal(size=400)
    log = Dataset.from_episodes(
        observations=[[[1.0]]] * 400,
        actions=actions[:, None].tolist(),
        rewards=rewards[:, None].tolist(),
        propensities=[[0.5]] * 400,
        terminated=[True] * 400,
    )
    config = CQL(discount=DISCOUNT, critic=replace(Q, batch=2000), conservatism=0.5, updates=60)
    _, state = last_state(monkeypatch, log, config)
    scale = np.std(rewards)

    def loss(q):
        return np.mean((rewards / scale - q[actions]) ** 2 + 0.5 * (np.log(np.exp(q).sum()) - q[actions]))

    optimum = minimize(loss, np.zeros(3), tol=1e-10)
    network = jax.tree.map(lambda leaf: leaf[0], state.critic.network)
    learned = np.asarray(network(jnp.zeros(1)))  # scaling takes the constant observation to 0
    np.testing.assert_allclose(learned, optimum.x, atol=0.05)
    assert np.abs(optimum.x - np.array([0.2, 0.5, 0.9]) / scale).max() > 0.5  # no small matter


# Fitted Q iteration


def test_fitted_q_is_value_iteration_where_trees_tell_all_states_apart(data):
    exact = np.zeros((STATES, ACTIONS))
    config = FittedQ(discount=DISCOUNT, trees=4, leaf=1, updates=6)
    result = fit(data, config, seeds=[1], checkpoint_every=1)
    for update in range(1, 7):
        exact = backed_up(exact.max(axis=1))
        learned = result.checkpoints[1, update].action_values(np.eye(STATES))
        np.testing.assert_allclose(learned, exact, rtol=1e-12)
    assert result.metrics["critic_loss"].max() < 1e-12
    greedy = np.where(exact == exact.max(axis=1, keepdims=True), 1 - 0.01 / 2, 0.01 / 2)
    np.testing.assert_allclose(result.policies[0].probabilities(np.eye(STATES)), greedy)


def test_discount_is_capped_for_values_alone(data):
    config = FittedQ(discount=1.0, value_discount=DISCOUNT, trees=1, leaf=1, updates=5)
    capped = fit(data, config, seeds=[0]).policies[0].action_values(np.eye(STATES))
    plain = fit(data, FittedQ(discount=DISCOUNT, trees=1, leaf=1, updates=5), seeds=[0]).policies[0]
    np.testing.assert_array_equal(capped, plain.action_values(np.eye(STATES)))


def test_actions_never_taken_are_never_chosen(data):
    always = collect_tabular(MDP, np.tile([1.0, 0.0], (STATES, 1)), episodes=50, horizon=4, seed=0)
    policy = fit(always, FittedQ(discount=DISCOUNT, trees=2, updates=3), seeds=[0]).policies[0]
    assert np.isneginf(policy.action_values(np.eye(STATES))[:, 1]).all()
    assert (policy.probabilities(np.eye(STATES))[:, 0] > 0.99).all()


# How the Q network is asked for its policy


def test_policy_of_cql_is_the_softmax_of_its_values(data):
    config = CQL(discount=DISCOUNT, critic=replace(Q, hidden=(5,)), temperature=0.3, updates=1)
    prepared, _ = prepare(config, data)
    state = cql.init(config, prepared, jax.random.key(1))
    states = jnp.asarray(np.random.default_rng(0).normal(size=(6, STATES)), jnp.float32)
    values = np.asarray(jax.tree.map(lambda leaf: leaf[0], state.critic.network)(states), np.float64)
    np.testing.assert_allclose(jax.nn.softmax(cql.acting(config, state)(states)), softmax(values / 0.3), rtol=1e-4)
