"""Decisions from observations as they come: drawn by their probabilities, refused when something is missing."""

import numpy as np
import pytest
from scipy import stats

from statewise.policies.act import ObservationError, arrange, decide


def test_actions_are_drawn_by_their_probabilities(policy):
    observations = np.tile([[0.1, 0.2, 0.3]], (20_000, 1))
    decisions = decide(policy, observations, np.random.default_rng(0))
    expected = policy.probabilities(observations[:1])[0]
    counts = np.bincount(decisions.actions, minlength=4)
    assert stats.chisquare(counts, expected * len(observations)).pvalue > 0.001
    np.testing.assert_allclose(decisions.propensities, expected[decisions.actions], rtol=1e-12)
    assert decisions.names[0] == policy.action_names[decisions.actions[0]]


def test_the_likeliest_is_chosen_for_certain(policy):
    observations = np.random.default_rng(0).normal(size=(50, 3))
    decisions = decide(policy, observations, np.random.default_rng(0), "likeliest")
    np.testing.assert_array_equal(decisions.actions, policy.probabilities(observations).argmax(axis=1))
    assert (decisions.propensities == 1).all()


def test_illegal_actions_are_never_taken(policy):
    observations = np.random.default_rng(0).normal(size=(2000, 3))
    legal = np.random.default_rng(1).random((2000, 4)) < 0.5
    legal[:, 3] |= ~legal.any(axis=1)
    decisions = decide(policy, observations, np.random.default_rng(2), "draw", legal)
    assert legal[np.arange(2000), decisions.actions].all()
    legal[7] = False
    with pytest.raises(ObservationError, match="observation 8: no action is legal"):
        decide(policy, observations, np.random.default_rng(2), "draw", legal)


def test_names_may_come_in_any_order_and_with_the_prefix_of_logs(policy):
    rows = [{"c": 3, "a": 1, "b": 2.0}, {"obs_a": 1, "obs_b": 2, "obs_c": 3}, [1, 2, 3]]
    np.testing.assert_array_equal(arrange(policy, rows), [[1, 2, 3]] * 3)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "expected a list"),
        ([{"a": 1, "b": 2}], "observation 1: 'c' is missing; the policy needs 'a', 'b', 'c'"),
        ([[1, 2, 3], {"a": 1, "b": 2, "c": 3, "d": 4}], "observation 2: unknown 'd'; the policy needs"),
        ([[1, 2]], "observation 1: expected 3 numbers, 'a', 'b', 'c'; got 2"),
        ([[1, 2, None]], "observation 1: expected a finite number for 'c', got 'None'"),
        ([[1, 2, float("nan")]], "for 'c', got 'nan'"),
        ([[1, 2, True]], "for 'c', got 'True'"),
        ([[1, 2, "3"]], "for 'c', got '3'"),
        ([5], "expected 3 numbers, 'a', 'b', 'c'; got int"),
    ],
)
def test_what_is_missing_or_too_much_is_named(policy, rows, words):
    with pytest.raises(ObservationError, match=words):
        arrange(policy, rows)


def test_trees_act_too(trees):
    observations = np.random.default_rng(0).normal(size=(100, 2))
    legal = np.random.default_rng(1).random((100, 3)) < 0.5
    legal[:, 1] = True
    decisions = decide(trees, observations, np.random.default_rng(2), "draw", legal)
    np.testing.assert_array_equal(decisions.probabilities, trees.probabilities(observations, legal))
    assert legal[np.arange(100), decisions.actions].all()
    np.testing.assert_array_equal(arrange(trees, [{"b": 2, "obs_a": 1}]), [[1, 2]])


def test_numbers_beyond_computing_are_refused(policy):
    with pytest.raises(ObservationError, match="observation 2: its numbers are too large"):
        decide(policy, np.array([[0.0, 0, 0], [1e308, -1e308, 1e308]]), np.random.default_rng(0))
