"""A policy as ONNX: observations in, probabilities and the likeliest action out, scaling and softmax included."""

from __future__ import annotations

import json

import numpy as np

from statewise.policies.exports import Export, only_network
from statewise.policies.files import StoredPolicy
from statewise.policies.network import Policy

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise ImportError("ONNX files need onnx and onnxruntime: pip install 'statewise[onnx]'") from error

OPSET, IR_VERSION = 17, 8  # of 2022: every runtime of today reads them


def to_onnx(policy: StoredPolicy, name: str = "policy") -> bytes:
    """The file's contents. Input `observations` [n, features]; outputs `probabilities` [n, actions], `likeliest` [n].

    In float64 throughout: an observation of a million is then as exact as it is here.
    """
    return _model(only_network(policy)).SerializeToString()


def probabilities(contents: bytes, observations: np.ndarray) -> np.ndarray:
    """π(·|s), [n, actions], as onnxruntime computes it."""
    session = onnxruntime.InferenceSession(contents, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["probabilities"], {"observations": observations})[0])


EXPORT = Export(".onnx", to_onnx, probabilities)


def _model(policy: Policy) -> onnx.ModelProto:
    constants = {"mean": policy.mean, "std": policy.std}
    nodes = [
        helper.make_node("Sub", ["observations", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "std"], ["layer_0"]),
    ]
    last = len(policy.weights) - 1
    for i, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True)):
        constants |= {f"weight_{i}": weight, f"bias_{i}": bias}
        out = "logits" if i == last else f"affine_{i}"
        nodes.append(helper.make_node("Gemm", [f"layer_{i}", f"weight_{i}", f"bias_{i}"], [out]))
        if i < last:
            nodes.append(helper.make_node("Relu", [out], [f"layer_{i + 1}"]))
    nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1))
    nodes.append(helper.make_node("ArgMax", ["logits"], ["likeliest"], axis=1, keepdims=0))
    features, actions = len(policy.observation_names), len(policy.action_names)
    graph = helper.make_graph(
        nodes,
        "statewise policy",
        [helper.make_tensor_value_info("observations", TensorProto.DOUBLE, ["n", features])],
        [
            helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, ["n", actions]),
            helper.make_tensor_value_info("likeliest", TensorProto.INT64, ["n"]),
        ],
        [numpy_helper.from_array(value.astype(np.float64), name) for name, value in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="statewise"
    )
    helper.set_model_props(model, {"card": json.dumps(policy.full_card())})
    onnx.checker.check_model(model, full_check=True)
    return model
