"""Policies act by NumPy alone, come back from their file equal, and refuse files that were touched."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from statewise.policy_file import Policy, PolicyFileError


@pytest.fixture
def policy():
    rng = np.random.default_rng(0)
    sizes = [3, 8, 8, 4]
    return Policy(
        weights=tuple(rng.normal(size=pair) for pair in itertools.pairwise(sizes)),
        biases=tuple(rng.normal(size=n) for n in sizes[1:]),
        mean=rng.normal(size=3),
        std=rng.uniform(1, 2, size=3),
        observation_names=("a", "b", "c"),
        action_names=("none", "one", "two", "both"),
        card={"made by": "a test"},
    )


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


def test_round_trip(policy, tmp_path):
    policy.save(tmp_path / "p.safetensors")
    back = Policy.load(tmp_path / "p.safetensors")
    observations = np.random.default_rng(1).normal(size=(10, 3))
    np.testing.assert_array_equal(back.probabilities(observations), policy.probabilities(observations))
    assert back.observation_names == policy.observation_names
    assert back.action_names == policy.action_names
    assert back.card == {"made by": "a test"}


def test_touched_files_are_refused(policy, tmp_path):
    path = tmp_path / "p.safetensors"
    policy.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(PolicyFileError, match="cut short"):
        Policy.load(path)
    changed = bytearray(whole)
    changed[-3] ^= 1
    path.write_bytes(bytes(changed))
    with pytest.raises(PolicyFileError, match="changed after it was written"):
        Policy.load(path)
    path.write_bytes(whole.replace(b"a test", b"a teSt"))
    with pytest.raises(PolicyFileError, match="changed after it was written"):
        Policy.load(path)
    path.write_bytes(whole.replace(b"statewise-policy-1", b"statewise-policy-9"))
    with pytest.raises(PolicyFileError, match="not a statewise policy"):
        Policy.load(path)
    with pytest.raises(PolicyFileError, match="no such file"):
        Policy.load(tmp_path / "absent.safetensors")


def test_acting_imports_no_learning_library(policy, tmp_path):
    policy.save(tmp_path / "p.safetensors")
    code = (
        "import sys, numpy as np, statewise as sw; "
        f"p = sw.Policy.load({str(tmp_path / 'p.safetensors')!r}); p.probabilities(np.zeros((1, 3))); "
        "print(sorted({'jax', 'jaxtyping', 'polars', 'sklearn', 'torch'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_many_rows_get_what_each_gets_alone(policy, monkeypatch):
    rng = np.random.default_rng(1)
    observations, legal = rng.normal(size=(50, 3)), rng.random((50, 4)) < 0.7
    legal[:, 0] = True
    whole = policy.probabilities(observations), policy.probabilities(observations, legal)
    monkeypatch.setattr("statewise.policy_file.BLOCK", 7)
    np.testing.assert_allclose(policy.probabilities(observations), whole[0], rtol=1e-12)
    np.testing.assert_allclose(policy.probabilities(observations, legal), whole[1], rtol=1e-12)
