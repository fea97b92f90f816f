"""Policies from elsewhere give the probabilities that they would give at home, and are refused in plain words."""

from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from logs import make
from statewise.data.table import to_frame
from statewise.policies.external import D3rlpyPolicy, OnnxPolicy, TargetColumns, as_target
from statewise.policies.network import Policy, softmax
from statewise.policies.probabilities import probabilities_of

ACTIONS, FEATURES = 3, 2
RNG = np.random.default_rng(0)
WEIGHT, BIAS = RNG.normal(size=(FEATURES, ACTIONS)), RNG.normal(size=ACTIONS)


@pytest.fixture
def data():
    return make([3, 1, 4])


@pytest.fixture
def masked(data):
    legal = np.ones((len(data), ACTIONS), dtype=bool)
    legal[np.arange(len(data)), (data.actions + 1) % ACTIONS] = False
    return replace(data, legal=legal)


def linear(data):
    return data.observations @ WEIGHT + BIAS


def onnx_file(path, outputs, kind="float"):
    """A linear layer, with a softmax behind it where the output asked is `probabilities`."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    number, dtype = (TensorProto.FLOAT, np.float32) if kind == "float" else (TensorProto.DOUBLE, np.float64)
    nodes = [
        helper.make_node("Gemm", ["observations", "weight", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["logits"], ["chosen"], axis=1, keepdims=0),
    ]
    types = {"logits": number, "probabilities": number, "chosen": TensorProto.INT64}
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("observations", number, ["n", FEATURES])],
        [helper.make_tensor_value_info(name, types[name], None) for name in outputs],
        [
            numpy_helper.from_array(WEIGHT.astype(dtype), "weight"),
            numpy_helper.from_array(BIAS.astype(dtype), "bias"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


# Functions and objects


def test_a_function_may_give_probabilities_or_actions(data):
    given = softmax(linear(data))
    np.testing.assert_allclose(probabilities_of(lambda seen: given, data), given)
    chosen = probabilities_of(lambda seen: given.argmax(axis=1), data)
    np.testing.assert_array_equal(chosen, np.eye(ACTIONS)[given.argmax(axis=1)])


def test_what_illegal_actions_get_is_shared_out(masked):
    given = softmax(linear(masked))
    found = probabilities_of(lambda seen: given, masked)
    assert (found[~masked.legal] == 0).all()
    np.testing.assert_allclose(found, softmax(np.where(masked.legal, linear(masked), -np.inf)))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (lambda seen: np.ones((len(seen), 2)) / 2, "knows 2 actions, but the log has 3$"),
        (
            lambda seen: np.ones((len(seen), 4)) / 4,
            "knows 4 actions, but the log has 3; if some were never taken, load the log with `actions=4`",
        ),
        (lambda seen: np.ones((len(seen), 3)) / 2, "do not sum to 1 in 8 of 8 decisions, for example 0.5, 0.5, 0.5"),
        (lambda seen: np.tile([1.5, -0.5, 0.0], (len(seen), 1)), "negative or not finite"),
        (lambda seen: np.full((len(seen), 3), np.nan), "negative or not finite"),
        (lambda seen: np.full(len(seen), 3), "chose action 3, but the log has actions 0 to 2"),
        (lambda seen: np.zeros(len(seen)), r"shape \(8, 3\) .*, got \(8,\)"),
        ("policy", "got str"),
    ],
)
def test_what_is_no_policy_is_refused(data, policy, words):
    with pytest.raises(ValueError, match=words):
        probabilities_of(policy, data)


def test_a_policy_without_any_legal_action_is_refused(masked):
    never = (masked.actions + 1) % ACTIONS
    with pytest.raises(ValueError, match="all go to actions that are illegal there in 8 of 8"):
        probabilities_of(lambda seen: never, masked)


# Policy files


def policy(names):
    return Policy((WEIGHT,), (BIAS,), np.zeros(FEATURES), np.ones(FEATURES), names, ("a", "b", "c"))


def test_a_policy_file_gives_what_the_policy_gives(data, masked, tmp_path):
    policy(data.observation_names).save(tmp_path / "p.safetensors")
    loaded = as_target(tmp_path / "p.safetensors")
    np.testing.assert_allclose(probabilities_of(loaded, data), softmax(linear(data)))
    np.testing.assert_allclose(
        probabilities_of(loaded, masked), softmax(np.where(masked.legal, linear(masked), -np.inf))
    )


def test_a_policy_must_find_its_observations_in_their_order(data):
    swapped = policy(data.observation_names[::-1])
    with pytest.raises(ValueError, match="the policy looks at x1, x0, but the log holds x0, x1"):
        probabilities_of(swapped, data)


@pytest.mark.parametrize("name", ["absent.safetensors", "absent.onnx"])
def test_an_absent_file_is_told(name, tmp_path):
    with pytest.raises(ValueError, match="there is no such file"):
        as_target(tmp_path / name)


def test_files_that_run_code_are_not_opened(tmp_path):
    with pytest.raises(ValueError, match="opening such a file can run code"):
        as_target(tmp_path / "model.d3")


# ONNX


@pytest.mark.parametrize("outputs", [["logits"], ["probabilities"], ["chosen", "probabilities"]])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_an_onnx_file_gives_its_networks_probabilities(data, masked, tmp_path, outputs, kind):
    target = as_target(onnx_file(tmp_path / "p.onnx", outputs, kind))
    tolerance = {"rtol": 1e-4} if kind == "float" else {"rtol": 1e-9}
    np.testing.assert_allclose(probabilities_of(target, data), softmax(linear(data)), **tolerance)
    expected = softmax(np.where(masked.legal, linear(masked), -np.inf))
    np.testing.assert_allclose(probabilities_of(target, masked), expected, **tolerance)


def test_an_onnx_file_for_another_problem_is_refused(data, tmp_path):
    target = as_target(onnx_file(tmp_path / "p.onnx", ["logits"]))
    with pytest.raises(ValueError, match="it expects 2 observations, but the log has 4"):
        probabilities_of(target, make([3, 2, 2], features=4))
    with pytest.raises(ValueError, match="knows 3 actions, but the log has 5"):
        probabilities_of(target, make([3, 2, 2], actions=5))
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(ValueError, match="it is not an ONNX file, or it cannot be run"):
        as_target(tmp_path / "text.onnx")
    only = OnnxPolicy.load(onnx_file(tmp_path / "c.onnx", ["chosen"]))
    with pytest.raises(ValueError, match=r"expected an output \[n, actions\] of numbers"):
        probabilities_of(only, data)


# Columns of the log


def test_target_columns_travel_with_the_log(data, tmp_path):
    given = softmax(linear(data))
    log = replace(data, targets=given)
    log.save(tmp_path / "log.parquet")
    assert sw.load(tmp_path / "log.parquet").targets is None
    loaded = sw.load(tmp_path / "log.parquet", columns=sw.Columns(target_prefix="target_"))
    np.testing.assert_array_equal(probabilities_of(as_target("target-columns"), loaded), given / given.sum(1)[:, None])
    part = loaded.take(np.array([2, 0]))
    np.testing.assert_allclose(probabilities_of(TargetColumns(), part), given[[4, 5, 6, 7, 0, 1, 2]])
    assert loaded.fingerprint != data.fingerprint


def test_target_columns_that_are_none_are_faults(data):
    columns = sw.Columns(target_prefix="target_")
    with pytest.raises(sw.LogError, match="target_0: there is no such column"):
        sw.load(to_frame(data), columns=columns)
    with pytest.raises(sw.LogError, match="target_0…2: 8 rows have probabilities that do not sum to 1"):
        sw.load(to_frame(replace(data, targets=0.5 * softmax(linear(data)))), columns=columns)
    with pytest.raises(sw.LogError, match="there are 2 columns for 3 actions"):
        sw.load(to_frame(replace(data, targets=softmax(linear(data)))).drop("target_2"), columns=columns)
    with pytest.raises(ValueError, match=r"load it with `Columns\(target_prefix='target_'\)`"):
        probabilities_of(TargetColumns(), data)


def test_target_columns_with_illegal_actions_are_a_fault(masked):
    # the log's own distributions are not masked either, so only the target's fault is looked for
    frame = to_frame(replace(masked, distributions=None, targets=softmax(linear(masked))))
    with pytest.raises(sw.LogError, match=r"illegal action with a probability above 0.*Correct the mask or target_\*"):
        sw.load(frame, columns=sw.Columns(target_prefix="target_"))


# d3rlpy


class _QTable:
    """What d3rlpy's algorithms for discrete actions answer to."""

    def predict(self, seen):
        return (seen @ WEIGHT + BIAS).argmax(axis=1)

    def predict_value(self, seen, actions):
        assert actions.shape == (len(seen), 1)
        return np.take_along_axis(seen @ WEIGHT + BIAS, actions, axis=1)[:, 0]


def test_a_d3rlpy_policy_is_greedy_or_a_softmax_over_its_values(data, masked):
    values = data.observations.astype(np.float32) @ WEIGHT + BIAS
    best = np.eye(ACTIONS)[values.argmax(axis=1)]
    np.testing.assert_array_equal(probabilities_of(as_target(_QTable()), data), best)
    soft = probabilities_of(as_target(_QTable(), temperature=2.0), data)
    np.testing.assert_allclose(soft, softmax(values / 2.0))
    legal_best = np.where(masked.legal, values, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(probabilities_of(as_target(_QTable()), masked), np.eye(ACTIONS)[legal_best])


@pytest.mark.filterwarnings("ignore")  # those of d3rlpy and of the gym that it imports
def test_real_d3rlpy(data):
    d3rlpy = pytest.importorskip("d3rlpy", reason="d3rlpy pins an older gymnasium, so that it is no extra of statewise")
    algorithm = d3rlpy.algos.DQNConfig().create(device="cpu:0")
    seen = data.observations.astype(np.float32)
    algorithm.build_with_dataset(
        d3rlpy.dataset.MDPDataset(
            observations=seen,
            actions=data.actions.astype(np.int64)[:, None],
            rewards=data.rewards[:, None],
            terminals=np.isin(np.arange(len(data)), data.starts[1:] - 1).astype(np.float32),
        )
    )
    values = np.stack([algorithm.predict_value(seen, np.full((len(seen), 1), a)) for a in range(ACTIONS)], axis=1)
    greedy = probabilities_of(as_target(algorithm), data)
    assert isinstance(as_target(algorithm), D3rlpyPolicy)
    np.testing.assert_array_equal(greedy.argmax(axis=1), values.argmax(axis=1))
    soft = probabilities_of(as_target(algorithm, temperature=0.1), data)
    np.testing.assert_allclose(soft, softmax(values / 0.1), rtol=1e-4)
