"""A step of the way between two policies: its probabilities, its file, and how it plays."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from statewise.domains.behaviours import as_act, with_noise
from statewise.policies.exports import EXPORTS, export_policy
from statewise.policies.files import PolicyFileError, load_policy
from statewise.policies.network import Policy
from statewise.policies.path import PathPolicy, blended

NAMES = {"observation_names": ("x", "y"), "action_names": ("stay", "left", "right")}


def network(seed: int) -> Policy:
    rng = np.random.default_rng(seed)
    return Policy(
        weights=(rng.normal(size=(2, 4)), rng.normal(size=(4, 3))),
        biases=(rng.normal(size=4), rng.normal(size=3)),
        mean=rng.normal(size=2),
        std=np.array([1.0, 2.0]),
        **NAMES,
    )


TODAY, GOAL = network(0), network(1)
STATES = np.random.default_rng(2).normal(size=(50, 2))
LEGAL = np.random.default_rng(3).random((50, 3)) < 0.5
LEGAL[:, 1] = True


@pytest.mark.parametrize("legal", [None, LEGAL])
def test_a_mixture_follows_the_goal_in_a_share_of_the_decisions(legal):
    path = PathPolicy(TODAY, GOAL, 0.3)
    expected = 0.7 * TODAY.probabilities(STATES, legal) + 0.3 * GOAL.probabilities(STATES, legal)
    np.testing.assert_allclose(path.probabilities(STATES, legal), expected, atol=1e-15)
    if legal is not None:
        assert (path.probabilities(STATES, legal)[~legal] == 0).all()


def test_a_geometric_step_multiplies_powers():
    today, goal = TODAY.probabilities(STATES), GOAL.probabilities(STATES)
    found = PathPolicy(TODAY, GOAL, 0.3, "geometric").probabilities(STATES)
    for i in range(len(STATES)):
        product = [today[i, a] ** 0.7 * goal[i, a] ** 0.3 for a in range(3)]
        np.testing.assert_allclose(found[i], np.array(product) / sum(product), atol=1e-14)


def test_a_geometric_step_between_policies_that_share_no_action_is_as_today():
    today, goal = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert blended(today, goal, 0.5, "geometric").tolist() == [[1.0, 0.0]]
    assert blended(today, goal, 1.0, "geometric").tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("way", ["mixture", "geometric"])
def test_the_ends_of_a_path_are_today_and_the_goal(way):
    for step, end in ((0.0, TODAY), (1.0, GOAL)):
        found = PathPolicy(TODAY, GOAL, step, way).probabilities(STATES)
        np.testing.assert_allclose(found, end.probabilities(STATES), atol=1e-15)


def test_a_file_holds_both_ends_also_of_a_path_within_a_path(tmp_path):
    first = PathPolicy(TODAY, GOAL, 0.3, card={"certified": {"low": 1.5}})
    second = PathPolicy(first, network(4), 0.6, "geometric")
    second.save(tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    assert isinstance(loaded, PathPolicy)
    np.testing.assert_array_equal(loaded.probabilities(STATES), second.probabilities(STATES))
    assert loaded.today.card == {"certified": {"low": 1.5}}
    assert loaded.full_card()["today"]["step"] == 0.3
    json.dumps(loaded.full_card())


def test_a_file_whose_parts_do_not_fit_is_refused(tmp_path):
    path = tmp_path / "policy.safetensors"
    for broken, said in (
        ({"step": 1.5}, "a step from 0 to 1"),
        ({"way": "scenic"}, "expected a way that is one of mixture, geometric"),
        ({"goal": replace(GOAL, mean=np.zeros(3))}, "do not fit together"),
    ):
        policy = PathPolicy(TODAY, GOAL, 0.5)
        for name, value in broken.items():
            object.__setattr__(policy, name, value)
        policy.save(path)
        with pytest.raises(PolicyFileError, match=said):
            load_policy(path)


def test_paths_nested_without_end_are_refused(tmp_path):
    policy = TODAY
    for _ in range(25):
        policy = PathPolicy(policy, GOAL, 0.5)
    policy.save(tmp_path / "policy.safetensors")
    with pytest.raises(PolicyFileError, match="more than 20 nested paths"):
        load_policy(tmp_path / "policy.safetensors")


def test_a_step_towards_a_function_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="goal: expected a policy that has a file of its own, got a function"):
        PathPolicy(TODAY, lambda states: states, 0.5).save(tmp_path / "policy.safetensors")


@pytest.mark.parametrize("way", ["mixture", "geometric"])
def test_a_simulator_plays_it_as_it_is(way):
    path = PathPolicy(TODAY, GOAL, 0.4, way)
    act = as_act(path)
    found = np.stack([np.asarray(act(jnp.asarray(state, jnp.float32))) for state in STATES[:5]])
    np.testing.assert_allclose(found, path.probabilities(STATES[:5]), atol=1e-5)


def test_noise_can_be_mixed_into_a_step_as_into_any_policy():
    path = PathPolicy(TODAY, GOAL, 0.3)
    act = with_noise(path, share=0.8)
    expected = 0.8 * path.probabilities(STATES) + 0.2 / 3
    played = np.stack([act(jnp.asarray(state, jnp.float32)) for state in STATES])
    np.testing.assert_allclose(played, expected, atol=1e-6)


@pytest.mark.parametrize("format", ["onnx", "numpy"])
@pytest.mark.parametrize("way", ["mixture", "geometric"])
def test_exports_act_as_the_policy_does_also_a_path_within_a_path(format, way):
    policy = PathPolicy(PathPolicy(TODAY, GOAL, 0.3), network(4), 0.6, way)
    contents = export_policy(policy, format)
    found = EXPORTS[format].probabilities(contents, STATES)
    np.testing.assert_allclose(found, policy.probabilities(STATES), atol=1e-9)
