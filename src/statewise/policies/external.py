"""Policies from elsewhere as things that give probabilities: policy and ONNX files, d3rlpy, columns of the log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from statewise.base.memory import in_words
from statewise.data.dataset import Dataset
from statewise.policies.files import load_policy
from statewise.policies.network import softmax
from statewise.policies.probabilities import one_hot

BATCH = 65_536  # rows given to a foreign model at a time
LARGEST_ONNX = 2_000_000_000  # bytes: the format's own limit
NEAR_ONE = 1e-3  # what the sum of a row may be off by and still be taken for probabilities


def as_target(source: Any, *, temperature: float | None = None) -> Any:
    """A policy that `evaluate` understands.

    `source` is a policy file (.safetensors), an ONNX file (.onnx), `"target-columns"` for the probabilities that came
    with the log, a d3rlpy policy, or anything that gives probabilities already. d3rlpy's takes its best action, or with
    a `temperature` draws from softmax(Q/temperature).

    >>> evaluate(as_target("policy.onnx"), held_out)  # doctest: +SKIP
    """
    if source == "target-columns":
        return TargetColumns()
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix == ".onnx":
            return OnnxPolicy.load(path)
        if path.suffix in (".d3", ".pt", ".pkl", ".pickle"):
            raise ValueError(
                f"{path}: opening such a file can run code; load it in Python yourself and pass the policy to "
                "statewise.evaluate, or export it as .onnx"
            )
        return load_policy(path)
    if hasattr(source, "predict") and hasattr(source, "predict_value"):
        return D3rlpyPolicy(source, temperature)
    return source


@dataclass(frozen=True)
class TargetColumns:
    """The policy whose probabilities stand in the log itself, in columns `target_0`, `target_1`, …"""

    def on(self, dataset: Dataset) -> Float[np.ndarray, "steps actions"]:
        if dataset.targets is None:
            raise ValueError("the log holds no target probabilities; load it with `Columns(target_prefix='target_')`")
        return dataset.targets


@dataclass(frozen=True, eq=False)
class D3rlpyPolicy:
    """A d3rlpy algorithm for discrete actions: the best action by its Q-values, or a softmax over them."""

    algorithm: Any
    temperature: float | None = None

    def on(self, dataset: Dataset) -> Float[np.ndarray, "steps actions"]:
        seen = np.ascontiguousarray(dataset.observations, np.float32)
        if self.temperature is None and dataset.legal is None:
            return one_hot(_in_batches(self.algorithm.predict, seen).astype(np.int64), dataset.action_count)
        values = np.stack([self._values(seen, a) for a in range(dataset.action_count)], axis=1)
        if dataset.legal is not None:
            values = np.where(dataset.legal, values, -np.inf)
        if self.temperature is None:
            return one_hot(values.argmax(axis=1), dataset.action_count)
        return softmax(values / self.temperature)

    def _values(self, seen: Float[np.ndarray, "n features"], action: int) -> Float[np.ndarray, " n"]:
        def value(part: np.ndarray) -> np.ndarray:
            return self.algorithm.predict_value(part, np.full((len(part), 1), action))

        return _in_batches(value, seen).astype(np.float64).reshape(len(seen))


@dataclass(frozen=True, eq=False)
class OnnxPolicy:
    """A network in an ONNX file: observations [n, features] in, probabilities or logits [n, actions] out.

    Where `output` is not given, rows that are not negative and sum to 1 are probabilities, and anything else is logits.
    """

    session: Any
    path: str
    output: Literal["probabilities", "logits"] | None = None

    @classmethod
    def load(cls, path: str | Path, output: Literal["probabilities", "logits"] | None = None) -> OnnxPolicy:
        if not Path(path).is_file():
            raise ValueError(f"{path}: there is no such file")
        if Path(path).stat().st_size > LARGEST_ONNX:
            size = in_words(Path(path).stat().st_size)
            raise ValueError(f"{path}: expected an ONNX file of {in_words(LARGEST_ONNX)} at most, got {size}")
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError("ONNX files need onnxruntime: pip install 'statewise[onnx]'") from error
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 4  # what is wrong is said below, once
        try:
            # by its contents: a file's path would let it name other files to read
            contents = Path(path).read_bytes()
            session = onnxruntime.InferenceSession(contents, quiet, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has an exception class for each fault, and no common one
            raise ValueError(f"{path}: it is not an ONNX file, or it cannot be run ({_first_line(error)})") from error
        if len(session.get_inputs()) != 1:
            names = ", ".join(one.name for one in session.get_inputs())
            raise ValueError(f"{path}: expected one input, observations [n, features]; got {names}")
        return cls(session, str(path), output)

    def probabilities(
        self, observations: Float[np.ndarray, "n features"], legal: Bool[np.ndarray, "n actions"] | None = None
    ) -> Float[np.ndarray, "n actions"]:
        """π(·|s); actions that are not `legal` have probability 0."""
        entry = self.session.get_inputs()[0]
        width = entry.shape[1] if len(entry.shape) == 2 else None
        if isinstance(width, int) and width != observations.shape[1]:
            raise ValueError(f"{self.path}: it expects {width} observations, but the log has {observations.shape[1]}")
        kind = np.float64 if entry.type == "tensor(double)" else np.float32

        def run(part: np.ndarray) -> np.ndarray:
            try:
                answers = self.session.run(None, {entry.name: part})
            except Exception as error:
                raise ValueError(f"{self.path}: it cannot be run ({_first_line(error)})") from error
            matrices = [a for a in answers if isinstance(a, np.ndarray) and a.ndim == 2 and a.dtype.kind == "f"]
            if not matrices:
                raise ValueError(f"{self.path}: expected an output [n, actions] of numbers, and there is none")
            return matrices[0]

        given = _in_batches(run, np.ascontiguousarray(observations, kind)).astype(np.float64)
        if legal is not None and given.shape != legal.shape:
            raise ValueError(f"{self.path}: it has {given.shape[1]} actions, but the log has {legal.shape[1]}")
        likely = (given >= 0).all() and (np.abs(given.sum(axis=1) - 1) < NEAR_ONE).all()
        if self.output == "probabilities" or (self.output is None and likely):
            return given
        return softmax(given if legal is None else np.where(legal, given, -np.inf))


def _in_batches(function: Any, rows: np.ndarray) -> np.ndarray:
    return np.concatenate([np.asarray(function(rows[i : i + BATCH])) for i in range(0, len(rows), BATCH)])


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:120]
