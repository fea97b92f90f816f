"""Networks act by NumPy alone, and say on their card what they are."""

import json
from dataclasses import replace

import numpy as np


def test_probabilities_against_a_loop(policy):
    observation = np.array([0.3, -1.0, 2.0])
    hidden = [(o - m) / s for o, m, s in zip(observation, policy.mean, policy.std, strict=True)]
    for layer, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True)):
        out = [sum(h * weight[i, j] for i, h in enumerate(hidden)) + bias[j] for j in range(len(bias))]
        hidden = out if layer == 2 else [max(x, 0.0) for x in out]
    expected = np.exp(hidden) / np.exp(hidden).sum()
    np.testing.assert_allclose(policy.probabilities(observation[None])[0], expected, rtol=1e-12)


def test_illegal_actions_have_probability_zero(policy):
    legal = np.array([[True, False, True, False]])
    free = policy.probabilities(np.zeros((1, 3)))[0]
    masked = policy.probabilities(np.zeros((1, 3)), legal)[0]
    assert masked[1] == masked[3] == 0
    np.testing.assert_allclose(masked[[0, 2]], free[[0, 2]] / free[[0, 2]].sum())


def test_the_card_says_what_is_known_and_what_is_not(policy):
    card = replace(policy, card={"estimate": {"value": 1.5}, "made by": "a test"}).full_card()
    assert card["format"] == "statewise-policy-1"
    assert card["observations"][1] == {"name": "b", "mean": policy.mean[1], "std": policy.std[1]}
    assert card["actions"] == ["none", "one", "two", "both"]
    assert card["network"] == [3, 8, 8, 4]
    assert card["estimate"] == {"value": 1.5}
    assert card["made by"] == "a test"
    assert card["data"] is None
    assert "verdict" not in card  # it is part of the estimate
    assert json.loads(json.dumps(card)) == card


def test_many_rows_get_what_each_gets_alone(policy, monkeypatch):
    rng = np.random.default_rng(1)
    observations, legal = rng.normal(size=(50, 3)), rng.random((50, 4)) < 0.7
    legal[:, 0] = True
    whole = policy.probabilities(observations), policy.probabilities(observations, legal)
    monkeypatch.setattr("statewise.policies.network.BLOCK", 7)
    np.testing.assert_allclose(policy.probabilities(observations), whole[0], rtol=1e-12)
    np.testing.assert_allclose(policy.probabilities(observations, legal), whole[1], rtol=1e-12)
