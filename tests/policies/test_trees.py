"""Policies of trees: walked as scikit-learn walks them, by NumPy and in a simulator alike."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from statewise.domains.behaviours import with_noise
from statewise.parts.trees import planted
from statewise.policies.files import load_policy

ACTIONS, FEATURES = 3, 4


@pytest.fixture(scope="module")
def forests():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(300, FEATURES)).astype(np.float32)
    states[:, 3] = np.round(states[:, 3], 1)  # repeated values, whose midpoints are no float32
    return [
        ExtraTreesRegressor(n_estimators=5, min_samples_leaf=2, random_state=a).fit(states, rng.normal(size=300))
        for a in range(ACTIONS)
    ]


@pytest.fixture(scope="module")
def policy(forests):
    grown = planted([[tree.tree_ for tree in forest.estimators_] for forest in forests])
    return grown.policy(0.1, ("a", "b", "c", "d"), tuple(map(str, range(len(forests)))))


@pytest.fixture(scope="module")
def states(policy):
    """Random ones, and ones that lie exactly on the trees' thresholds or next to them."""
    states = np.random.default_rng(1).normal(size=(5000, FEATURES)).astype(np.float32)
    edges = np.random.default_rng(2).choice(len(policy.threshold), size=(3000, FEATURES))
    states[:3000] = policy.threshold[edges]
    states[1000:2000] = np.nextafter(states[1000:2000], np.float32(np.inf))
    return states


def test_values_are_those_of_scikit_learn(forests, policy, states):
    expected = np.stack([forest.predict(states) for forest in forests], axis=1)
    np.testing.assert_allclose(policy.action_values(states), expected, rtol=1e-12, atol=1e-12)
    assert policy.action_values(states[:0]).shape == (0, ACTIONS)


def test_best_legal_action_but_for_a_share_at_random(policy, states):
    legal = np.random.default_rng(3).random((len(states), ACTIONS)) < 0.6
    legal[:, 1] = True
    values = policy.action_values(states)
    for mask in (None, legal):
        chances = policy.probabilities(states, mask)
        allowed = np.ones_like(legal) if mask is None else mask
        for i in range(0, 5000, 100):
            best = max(np.flatnonzero(allowed[i]), key=lambda a: values[i, a])
            expected = [0.1 * ok / allowed[i].sum() + 0.9 * (a == best) for a, ok in enumerate(allowed[i])]
            np.testing.assert_allclose(chances[i], expected)


def test_simulator_plays_the_same_policy(policy, states):
    act = with_noise(policy, share=0.7)
    found = jax.jit(jax.vmap(act))(jnp.asarray(states))
    np.testing.assert_allclose(found, 0.7 * policy.probabilities(states) + 0.3 / ACTIONS, atol=1e-6)


def test_what_scikit_learn_grew_comes_back_from_its_file(policy, states, tmp_path):
    policy.save(tmp_path / "p.safetensors")
    again = load_policy(tmp_path / "p.safetensors")
    np.testing.assert_array_equal(again.probabilities(states), policy.probabilities(states))
    assert again.action_names == ("0", "1", "2")


def test_the_card_says_how_large_the_trees_are(policy):
    card = policy.full_card()
    assert card["format"] == "statewise-trees-1"
    assert card["observations"] == [{"name": name} for name in "abcd"]
    assert card["trees"] == {"each_action": 5, "nodes": len(policy.value), "depth": policy.depth}
    assert card["epsilon"] == 0.1
    assert card["estimate"] is None
    assert json.loads(json.dumps(card)) == card
