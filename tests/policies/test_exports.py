"""Exported policies give the same probabilities as the policy itself, in other hands."""

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

from statewise.learning.runs import RunFolder
from statewise.policies.exports import EXPORTS, Export, export_policy
from statewise.policies.external import as_target
from statewise.policies.onnx import to_onnx
from statewise.policies.python import to_python


def large(policy):
    """The same network on observations in the millions, as cell counts are, and far outside the log."""
    return replace(policy, mean=policy.mean * 1e6, std=policy.std * 1e5)


@pytest.mark.parametrize("scale", [lambda policy: policy, large])
def test_onnx_against_the_policy(policy, scale):
    policy = scale(policy)
    session = onnxruntime.InferenceSession(to_onnx(policy))
    observations = policy.mean + np.random.default_rng(1).normal(size=(500, 3)) * policy.std * 10
    probabilities, likeliest = session.run(None, {"observations": observations})
    np.testing.assert_allclose(probabilities, policy.probabilities(observations), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(likeliest, policy.probabilities(observations).argmax(axis=1))


def test_onnx_carries_the_card(policy):
    (entry,) = onnx.load_from_string(to_onnx(policy)).metadata_props
    assert json.loads(entry.value) == policy.full_card()


def test_an_exported_policy_can_be_evaluated(policy, tmp_path):
    """What `export` writes is among what `evaluate` reads."""
    (tmp_path / "p.onnx").write_bytes(to_onnx(policy))
    observations = np.random.default_rng(1).normal(size=(20, 3))
    found = as_target(tmp_path / "p.onnx").probabilities(observations)
    np.testing.assert_allclose(found, policy.probabilities(observations), rtol=0, atol=1e-6)


@pytest.mark.parametrize("format", ["onnx", "numpy"])
def test_a_format_by_name(policy, format):
    contents = export_policy(policy, format)
    observations = np.random.default_rng(1).normal(size=(20, 3))
    np.testing.assert_allclose(
        EXPORTS[format].probabilities(contents, observations), policy.probabilities(observations), rtol=0, atol=1e-6
    )


def test_an_export_that_differs_is_not_written(policy, monkeypatch):
    broken = replace(policy, weights=tuple(weight * 1.001 for weight in policy.weights))
    model = importlib.import_module("statewise.policies.onnx")._model(broken)
    monkeypatch.setattr("statewise.policies.onnx._model", lambda _: model)
    with pytest.raises(ValueError, match=r"the onnx file differs from the policy by 0\.0"):
        export_policy(policy, "onnx")
    monkeypatch.setattr("statewise.policies.python.TEMPLATE", "def probabilities(o): return 0 * o[:, :1]\n")
    with pytest.raises(ValueError, match="the numpy file differs from the policy"):
        export_policy(policy, "numpy")


@pytest.mark.parametrize("format", ["onnx", "numpy"])
def test_trees_are_not_exported(trees, format):
    with pytest.raises(
        ValueError, match="expected a network, or a step between networks, got a TreePolicy: only those can be exported"
    ):
        export_policy(trees, format)


def test_a_format_of_one_s_own(policy, monkeypatch):
    """One entry: what is written, and what the file then answers, which is compared like any other."""
    monkeypatch.setattr(EXPORTS, "_entries", dict(EXPORTS._entries))
    EXPORTS.add("same", Export(".same", lambda policy, name: name.encode(), lambda _, seen: policy.probabilities(seen)))
    assert export_policy(policy, "same", "mine") == b"mine"
    EXPORTS.add("worse", Export(".w", lambda policy, name: b"", lambda _, seen: policy.probabilities(seen) + 1e-5))
    with pytest.raises(ValueError, match="the worse file differs from the policy by 1e-05"):
        export_policy(policy, "worse")
    with pytest.raises(ValueError, match="there is no export format 'onx'; did you mean 'onnx'"):
        export_policy(policy, "onx")


def test_the_python_file_needs_numpy_alone(policy, tmp_path):
    (tmp_path / "policy.py").write_bytes(to_python(policy))
    spec = importlib.util.spec_from_file_location("exported_policy", tmp_path / "policy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    observations = np.random.default_rng(1).normal(size=(50, 3))
    legal = np.random.default_rng(2).random((50, 4)) < 0.6
    legal[:, 0] = True
    np.testing.assert_array_equal(module.probabilities(observations), policy.probabilities(observations))
    np.testing.assert_array_equal(module.probabilities(observations, legal), policy.probabilities(observations, legal))
    assert policy.full_card() == module.CARD
    with pytest.raises(ValueError, match=r"expected observations \[n, 3\] \(a, b, c\), got \[50, 2\]"):
        module.probabilities(observations[:, :2])
    # as a script, isolated, with every import but NumPy's and the standard library's refused
    code = (
        "import sys, runpy, numpy; before = set(sys.modules); sys.argv = ['policy.py', '0', '1', '2']; "
        f"runpy.run_path({str(tmp_path / 'policy.py')!r}, run_name='__main__'); "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "assert not new - set(sys.stdlib_module_names) - {'numpy'}, new"
    )
    out = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    told = json.loads(out.stdout)
    np.testing.assert_array_equal(list(told.values()), policy.probabilities(np.array([[0.0, 1.0, 2.0]]))[0])


def test_a_run_gives_its_chosen_policy_or_the_last(policy, tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    folder.write_manifest({})
    for seed, update in ((0, 2), (0, 10), (1, 12)):
        folder.write_policy(seed, update, replace(policy, card={"seed": seed, "update": update}))
    found, words = folder.policy()
    assert (found.card["seed"], found.card["update"]) == (0, 10)
    assert "last policy of seed 0 (update 10)" in words
    replace(policy, card={"log": "of the run"}).save(folder.chosen)
    found, words = folder.policy()
    assert found.card["log"] == "of the run"
    assert "certified" in words
