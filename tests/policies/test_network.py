"""Policies act by NumPy alone, come back from their file equal, and refuse files that were touched."""

import itertools
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy

from statewise.base.tensors import read_tensors
from statewise.policies.network import Policy, PolicyFileError


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
    with pytest.raises(PolicyFileError, match="one that this version cannot read"):
        Policy.load(path)
    with pytest.raises(PolicyFileError, match="no such file"):
        Policy.load(tmp_path / "absent.safetensors")


def test_cuts_anywhere_are_refused(policy, tmp_path):
    path = tmp_path / "p.safetensors"
    policy.save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(PolicyFileError, match=r"cut short|changed|not a statewise policy"):
            Policy.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(PolicyFileError, match="belong to nothing"):
        Policy.load(path)


def test_flipped_bits_anywhere_are_refused(policy, tmp_path):
    path = tmp_path / "p.safetensors"
    policy.save(path)
    whole = path.read_bytes()
    for i, bit in zip(range(0, len(whole), 5), itertools.cycle(range(8))):
        changed = bytearray(whole)
        changed[i] ^= 1 << bit
        path.write_bytes(bytes(changed))
        with pytest.raises(PolicyFileError):
            Policy.load(path)


@pytest.mark.parametrize("contents", [b"", b"\x80\x04pickle", b"{}" * 50, b"\xff" * 64, b"PK\x03\x04" * 9])
def test_other_files_are_refused(contents, tmp_path):
    (tmp_path / "p").write_bytes(contents)
    with pytest.raises(PolicyFileError, match="not a policy file"):
        Policy.load(tmp_path / "p")


def test_parts_that_do_not_fit_are_refused(policy, tmp_path):
    """A file whose digest is right may still be nonsense."""
    for wrong in (replace(policy, mean=policy.mean[:2]), replace(policy, weights=policy.weights[:-1])):
        wrong.save(tmp_path / "p")
        with pytest.raises(PolicyFileError, match="do not fit together"):
            Policy.load(tmp_path / "p")


def test_the_reader_agrees_with_the_format_s_own(policy, tmp_path):
    """Ours reads what safetensors writes, array for array, over all kinds and shapes, and refuses what it refuses."""
    rng = np.random.default_rng(0)
    arrays = {
        f"{kind}{n}": rng.integers(2, size=shape).astype(kind)
        for n, shape in enumerate([(), (0,), (3,), (2, 3)])
        for kind in ("f8", "f4", "f2", "i8", "i4", "u1", "?")
    }
    for tensors, metadata in ((arrays, {"a": "é", "b": ""}), ({}, {"a": "b"}), (policy._tensors(), {"x": "y"})):
        contents = safetensors.numpy.save(tensors, metadata)
        (tmp_path / "t").write_bytes(contents)
        ours, told = read_tensors(contents)
        with safetensors.safe_open(tmp_path / "t", framework="numpy") as file:
            assert told == file.metadata()
            assert set(ours) == set(file.keys())
            for name in ours:
                np.testing.assert_array_equal(ours[name], file.get_tensor(name), strict=True)


def test_the_card_says_what_is_known_and_what_is_not(policy):
    card = policy.with_card(verdict="supported", estimate={"value": 1.5}).full_card()
    assert card["observations"][1] == {"name": "b", "mean": policy.mean[1], "std": policy.std[1]}
    assert card["network"] == [3, 8, 8, 4]
    assert card["estimate"] == {"value": 1.5}
    assert card["data"] is None
    assert policy.full_card()["verdict"] is None
    assert json.loads(json.dumps(card)) == card


def test_loading_and_acting_need_numpy_alone(policy, tmp_path):
    policy.save(tmp_path / "p.safetensors")
    code = (
        "import sys, numpy as np; before = set(sys.modules); import statewise as sw; "
        f"p = sw.Policy.load({str(tmp_path / 'p.safetensors')!r}); p.probabilities(np.zeros((1, 3))); "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names) - {'statewise'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_many_rows_get_what_each_gets_alone(policy, monkeypatch):
    rng = np.random.default_rng(1)
    observations, legal = rng.normal(size=(50, 3)), rng.random((50, 4)) < 0.7
    legal[:, 0] = True
    whole = policy.probabilities(observations), policy.probabilities(observations, legal)
    monkeypatch.setattr("statewise.policies.network.BLOCK", 7)
    np.testing.assert_allclose(policy.probabilities(observations), whole[0], rtol=1e-12)
    np.testing.assert_allclose(policy.probabilities(observations, legal), whole[1], rtol=1e-12)
