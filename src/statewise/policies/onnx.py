"""A policy as ONNX: observations in, probabilities and the likeliest action out, scaling and softmax included."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from statewise.data.encoding import Code, as_word, days_of, is_gap
from statewise.data.schema import Schema
from statewise.policies.exports import Export, Shape, networks_of, raw_codes
from statewise.policies.files import StoredPolicy
from statewise.policies.network import Policy

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise ImportError("ONNX files need onnx and onnxruntime: pip install 'statewise[onnx]'") from error

OPSET, IR_VERSION = 17, 8  # of 2022: every runtime of today reads them
ML, ML_OPSET = "ai.onnx.ml", 2  # the operators that know words
UNKNOWN = "\0"  # no log holds this word


def to_onnx(policy: StoredPolicy, name: str = "policy") -> bytes:
    """The file's contents. Input `observations` [n, features]; outputs `probabilities` [n, actions], `likeliest` [n].

    Where the log held words, dates or gaps, there is one input [n, 1] for each column instead, by its name: text for
    words ("" is a gap), and otherwise a double (NaN is a gap), which for true and false is 1 or 0 and for dates counts
    days since 1970-01-01. In float64 throughout: an observation of a million is then as exact as it is here.
    """
    return _model(policy).SerializeToString()


def probabilities(contents: bytes, observations: Any) -> np.ndarray:
    """π(·|s), [n, actions], as onnxruntime computes it."""
    session = onnxruntime.InferenceSession(contents, providers=["CPUExecutionProvider"])
    if isinstance(observations, np.ndarray):
        return np.asarray(session.run(["probabilities"], {"observations": observations})[0])
    card = json.loads(session.get_modelmeta().custom_metadata_map["card"])
    schema = Schema.of(card)
    assert schema is not None
    columns = zip(schema.codes, zip(*observations, strict=True), strict=True)
    return np.asarray(session.run(["probabilities"], {code.name: _input(code, column) for code, column in columns})[0])


EXPORT = Export(".onnx", to_onnx, probabilities)


def _input(code: Code, column: Sequence[Any]) -> np.ndarray:
    """Raw values as the file takes them."""
    if code.kind in ("words", "order"):
        return np.array([["" if is_gap(value) else as_word(value)] for value in column], dtype=object)
    if code.kind == "date":
        column = [None if is_gap(value) else days_of(value, code.format) for value in column]
    return np.array([[np.nan if is_gap(value) else float(value)] for value in column])


def _model(policy: StoredPolicy) -> onnx.ModelProto:
    features, actions = len(policy.observation_names), len(policy.action_names)
    codes = raw_codes(policy)
    graph = _Graph()
    if codes is None:
        entries = [helper.make_tensor_value_info("observations", TensorProto.DOUBLE, ["n", features])]
    else:
        entries = [graph.column(code) for code in codes]
        graph.add("Concat", [f"/column/{code.name}" for code in codes], "/observations", axis=1)
    observations = "observations" if codes is None else "/observations"
    networks, shape = networks_of(policy)
    for place, network in enumerate(networks):
        graph.network(network, observations, place)
    graph.add("Identity", [graph.blend(shape)], "probabilities")
    graph.add("ArgMax", ["probabilities"], "likeliest", axis=1, keepdims=0)
    made = helper.make_graph(
        graph.nodes,
        "statewise policy",
        entries,
        [
            helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, ["n", actions]),
            helper.make_tensor_value_info("likeliest", TensorProto.INT64, ["n"]),
        ],
        graph.constants,
    )
    opsets = [helper.make_opsetid("", OPSET)] + [helper.make_opsetid(ML, ML_OPSET)] * (codes is not None)
    model = helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION, producer_name="statewise")
    helper.set_model_props(model, {"card": json.dumps(policy.full_card())})
    onnx.checker.check_model(model, full_check=True)
    return model


class _Graph:
    """The nodes and constants so far. Names of their own begin with a slash: a column may be called "mean"."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def constant(self, name: str, value: Any, kind: type = np.float64) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def network(self, policy: Policy, observations: str, place: int) -> None:
        """Adds a network's probabilities, as `/PLACE/probabilities`."""
        own = f"/{place}"
        self.add("Sub", [observations, self.constant(f"{own}/mean", policy.mean)], f"{own}/centred")
        self.add("Div", [f"{own}/centred", self.constant(f"{own}/std", policy.std)], f"{own}/layer_0")
        last = len(policy.weights) - 1
        for i, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True)):
            constants = self.constant(f"{own}/weight_{i}", weight), self.constant(f"{own}/bias_{i}", bias)
            self.add("Gemm", [f"{own}/layer_{i}", *constants], f"{own}/logits" if i == last else f"{own}/affine_{i}")
            if i < last:
                self.add("Relu", [f"{own}/affine_{i}"], f"{own}/layer_{i + 1}")
        self.add("Softmax", [f"{own}/logits"], f"{own}/probabilities", axis=1)

    def blend(self, shape: Shape, own: str = "/path") -> str:
        """Adds what `policies.path.blended` does; returns the name of the probabilities."""
        if isinstance(shape, int):
            return f"/{shape}/probabilities"
        way, step, *ends = shape
        today, goal = (self.blend(end, f"{own}/{name}") for end, name in zip(ends, ("today", "goal"), strict=True))
        operator = "Mul" if way == "mixture" else "Pow"
        shares = (1 - step, step)
        parts = [
            self.add(operator, [end, self.constant(f"{own}/share_{i}", share)], f"{own}/part_{i}")
            for i, (end, share) in enumerate(zip((today, goal), shares, strict=True))
        ]
        if way == "mixture":
            return self.add("Add", parts, f"{own}/probabilities")
        product = self.add("Mul", parts, f"{own}/product")
        total = self.add("ReduceSum", [product, self.constant(f"{own}/axis", [1], np.int64)], f"{own}/total")
        return self.add("Div", [product, total], f"{own}/probabilities")

    def column(self, code: Code) -> onnx.ValueInfoProto:
        """Adds the features of a raw column, as `/column/NAME` [n, features]; returns the input."""
        if code.name in ("probabilities", "likeliest"):
            raise ValueError(f"a column called '{code.name}' cannot be exported: it is an output's name; rename it")
        if code.kind in ("words", "order"):
            self._words(code)
            return helper.make_tensor_value_info(code.name, TensorProto.STRING, ["n", 1])
        value = code.name
        if code.kind == "date":
            origin = self.constant(f"/column/{code.name}/origin", [[days_of(code.origin, None)]])
            value = self.add("Sub", [value, origin], f"/column/{code.name}/days")
        if code.gaps:
            gap = self.add("IsNaN", [value], f"/column/{code.name}/gap")
            fill = self.constant(f"/column/{code.name}/fill", [[code.fill]])
            filled = self.add("Where", [gap, fill, value], f"/column/{code.name}/filled")
            mark = self.add("Cast", [gap], f"/column/{code.name}/mark", to=TensorProto.DOUBLE)
            self.add("Concat", [filled, mark], f"/column/{code.name}", axis=1)
        else:
            self.add("Identity", [value], f"/column/{code.name}")
        return helper.make_tensor_value_info(code.name, TensorProto.DOUBLE, ["n", 1])

    def _words(self, code: Code) -> None:
        """Each word's row of features, then those of a gap and of a word that is not among them."""
        rows = code.encode([*code.words, None, UNKNOWN]).features
        own = f"/column/{code.name}"
        place = self.add(
            "LabelEncoder",
            [code.name],
            f"{own}/place",
            domain=ML,
            keys_strings=[*code.words, ""],
            values_int64s=list(range(len(rows) - 1)),
            default_int64=len(rows) - 1,
        )
        flat = self.add("Reshape", [place, self.constant(f"{own}/flat", [-1], np.int64)], f"{own}/row")
        self.add("Gather", [self.constant(f"{own}/rows", rows), flat], own, axis=0)
