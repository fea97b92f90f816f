"""A policy that acts by a small network. Acting needs no more than NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from statewise.policies.files import PolicyFileError, full_card, load_policy, save_policy
from statewise.policies.predict import classes, predict, predict_proba

BLOCK = 4096  # rows at a time: all layers of so many stay in a processor's cache
MOST_UNITS = 1 << 23  # rows at a time times the widest layer


@dataclass(frozen=True, eq=False)
class Policy:
    """A softmax over a small network: π(a|s) = softmax(W_L·relu(… W_1·(s − mean)/std + b_1 …) + b_L)."""

    format: ClassVar[str] = "statewise-policy-1"

    weights: tuple[np.ndarray, ...]  # [inputs, outputs] each
    biases: tuple[np.ndarray, ...]  # [outputs] each
    mean: np.ndarray  # [features]
    std: np.ndarray
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    card: Mapping[str, Any] = field(default_factory=dict)

    def probabilities(
        self,
        observations: np.ndarray,
        legal: np.ndarray | None = None,
    ) -> np.ndarray:
        """π(·|s), [n, actions], for observations [n, features]; actions that are not `legal` have probability 0."""
        size = max(1, min(BLOCK, MOST_UNITS // max(len(bias) for bias in self.biases)))
        if len(observations) > size:
            parts = [slice(first, first + size) for first in range(0, len(observations), size)]
            masks = [None if legal is None else legal[part] for part in parts]
            pairs = zip(parts, masks, strict=True)
            return np.concatenate([self.probabilities(observations[part], mask) for part, mask in pairs])
        hidden = (np.asarray(observations, dtype=np.float64) - self.mean) / self.std
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.maximum(hidden @ weight + bias, 0)
        logits = hidden @ self.weights[-1] + self.biases[-1]
        if legal is not None:
            logits = np.where(legal, logits, -np.inf)
        return softmax(logits)

    predict, predict_proba, classes_ = predict, predict_proba, property(classes)

    def full_card(self) -> dict[str, Any]:
        """All that the file says about itself but the weights, as JSON can hold it."""
        scaling = zip(self.observation_names, self.mean.tolist(), self.std.tolist(), strict=True)
        observations = [{"name": name, "mean": mean, "std": std} for name, mean, std in scaling]
        return full_card(self, observations, network=[len(self.mean), *(len(bias) for bias in self.biases)])

    def save(self, path: str | Path) -> None:
        """Writes the file whole or not at all."""
        save_policy(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Reads a network's policy file; `load_policy` reads every kind."""
        policy = load_policy(path)
        if not isinstance(policy, cls):
            raise PolicyFileError(f"{path}: expected a network, got a {type(policy).__name__}; use load_policy")
        return policy

    def tensors(self) -> dict[str, np.ndarray]:
        weights, biases = _numbered("weight", self.weights), _numbered("bias", self.biases)
        return {"mean": self.mean, "std": self.std, **weights, **biases}

    def header(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_parts(cls, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any], **common: Any) -> Policy:
        layers = range(sum(name.startswith("weight_") for name in tensors))
        policy = cls(
            weights=tuple(tensors[f"weight_{i}"] for i in layers),
            biases=tuple(tensors[f"bias_{i}"] for i in layers),
            mean=tensors["mean"],
            std=tensors["std"],
            **common,
        )
        sizes = [len(policy.observation_names), *(bias.size for bias in policy.biases)]
        shapes = [weight.shape for weight in policy.weights]
        if not layers or shapes != list(pairwise(sizes)) or sizes[-1] != len(policy.action_names):
            raise ValueError(f"layers of {shapes} for {sizes[0]} observations and {len(policy.action_names)} actions")
        if policy.mean.shape != (sizes[0],) or policy.std.shape != (sizes[0],):
            raise ValueError("expected one mean and deviation for each observation")
        if any(bias.ndim != 1 for bias in policy.biases) or set(tensors) != set(policy.tensors()):
            raise ValueError("expected a weight matrix and a bias vector for each layer, and nothing else")
        if any(array.dtype.kind != "f" for array in tensors.values()):
            raise ValueError("expected real numbers in every array")
        return policy


def softmax(logits: np.ndarray) -> np.ndarray:
    """exp(x)/Σexp(x) in each row; −∞ becomes 0."""
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


def _numbered(name: str, values: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{name}_{i}": value for i, value in enumerate(values)}
