"""Odds of two rewards by regression, against a general minimiser and against the truth."""

import numpy as np
import pytest
from scipy.optimize import minimize

import statewise as sw
from statewise.parts import reward_model, reward_odds
from statewise.parts.reward_odds import SHARED_RIDGE, binary, fitted, logistic, validated

SLOPES = np.array([[1.5, 0.0], [-1.5, 0.5], [0.0, -1.5]])
BIAS = np.array([-2.0, -1.5, -2.5])


def offers(count=6000, seed=0, low=0.0, high=1.0):
    """Single decisions; action a is accepted with probability logistic(bₐ + θₐ·s)."""
    generator = np.random.default_rng(seed)
    states = generator.normal(size=(count, 2)).astype(np.float32)
    taken = generator.integers(3, size=count).astype(np.int32)
    chances = logistic(BIAS + states @ SLOPES.T)
    won = generator.random(count) < chances[np.arange(count), taken]
    return log_of(states, taken, np.where(won, high, low)), low + (high - low) * chances


def log_of(states, taken, rewards):
    return sw.Dataset.from_episodes(
        observations=list(states[:, None]),
        actions=list(taken[:, None]),
        rewards=list(np.asarray(rewards, float)[:, None]),
        distributions=list(np.full((len(states), 1, 3), 1 / 3)),
        terminated=[True] * len(states),
    )


def least(x, won, penalty, before=0.0):
    """argmin −log-likelihood(before + β) + βᵀPβ/2."""

    def loss(beta):
        odds = x @ (before + beta)
        return np.sum(np.logaddexp(0, odds) - won * odds) + beta @ penalty @ beta / 2

    return minimize(loss, np.zeros(x.shape[1]), method="BFGS", options={"gtol": 1e-6}).x


@pytest.mark.parametrize("block", [reward_odds.BLOCK, 700])
def test_coefficients_are_those_of_the_greatest_penalised_likelihood(block, monkeypatch):
    monkeypatch.setattr(reward_odds, "BLOCK", block)
    data, _ = offers(2000)
    x, won = reward_odds.inputs(np.asarray(data.observations, float)), np.asarray(data.rewards) > 0
    shared = least(x, won, SHARED_RIDGE * np.eye(3))
    got = fitted(binary(data), np.arange(2000), 10.0)
    for action in range(3):
        rows = data.actions == action
        own = least(x[rows], won[rows], np.diag([SHARED_RIDGE, 10.0, 10.0]), shared)
        np.testing.assert_allclose(got.coefficients[action], shared + own, atol=1e-4)
        chance = logistic(x[rows] @ (shared + own))
        information = (x[rows].T * chance * (1 - chance)) @ x[rows] + np.diag([SHARED_RIDGE, 10.0, 10.0])
        np.testing.assert_allclose(got.inverse[action], np.linalg.inv(information), rtol=1e-3, atol=1e-8)


def test_rare_rewards_are_found_in_a_few_steps():
    generator = np.random.default_rng(1)
    states, taken = generator.normal(size=(20_000, 2)).astype(np.float32), generator.integers(3, size=20_000)
    data = log_of(states, taken.astype(np.int32), generator.random(20_000) < 0.002)
    x, won = reward_odds.inputs(np.asarray(states, float)), np.asarray(data.rewards) > 0
    shared = least(x, won, SHARED_RIDGE * np.eye(3))
    np.testing.assert_allclose(reward_odds._shared(binary(data), np.arange(20_000)), shared, atol=1e-3)


def test_only_two_rewards_have_odds():
    states, taken = np.zeros((4, 2), np.float32), np.zeros(4, np.int32)
    assert binary(log_of(states, taken, [0, 1, 2, 1])) is None
    assert binary(log_of(states, taken, [1, 1, 1, 1])) is None
    assert binary(log_of(states, taken, [-3, 5, 5, -3]))[1:] == (-3, 5)


def test_where_they_are_linear_odds_are_used_and_come_nearer_to_the_truth(monkeypatch):
    data, truth = offers(low=-3.0, high=5.0)
    by_odds = reward_model.expected_rewards(data)
    monkeypatch.setattr(reward_odds, "binary", lambda dataset: None)
    by_ridge = reward_model.expected_rewards(data)
    off, its_off = (np.sqrt(np.mean((found - truth) ** 2)) for found in (by_odds, by_ridge))
    assert off < 0.6 * its_off
    assert by_odds.min() > -3
    assert by_odds.max() < 5


def test_where_chances_are_linear_ridge_is_used(monkeypatch):
    generator = np.random.default_rng(3)
    states, taken = generator.uniform(-1, 1, size=(30_000, 2)).astype(np.float32), generator.integers(3, size=30_000)
    chance = 0.5 + 0.49 * states[:, 0] * np.array([1, -1, 0])[taken]
    data = log_of(states, taken.astype(np.int32), generator.random(30_000) < chance)
    found = reward_model.expected_rewards(data)
    monkeypatch.setattr(reward_odds, "binary", lambda dataset: None)
    np.testing.assert_array_equal(found, reward_model.expected_rewards(data))


def test_a_sample_chooses_nearly_as_all_rows_do(monkeypatch):
    data, _ = offers()
    fold = np.arange(len(data)) % 5
    error, _ = validated(binary(data), fold, 5)
    monkeypatch.setattr(reward_odds, "MOST_ROWS", 3000)
    its_error, _ = validated(binary(data), fold, 5)
    assert its_error != error
    assert abs(its_error / error - 1) < 0.1
