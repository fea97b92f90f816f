"""A policy as a file: its weights as safetensors, with a card that says what it is. Acting needs no more than NumPy."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = "statewise-policy-1"
BLOCK = 4096  # rows at a time: all layers of so many stay in a processor's cache


class PolicyFileError(ValueError):
    """The file is not a policy that can be trusted."""


@dataclass(frozen=True, eq=False)
class Policy:
    """A softmax over a small network: π(a|s) = softmax(W_L·relu(… W_1·(s − mean)/std + b_1 …) + b_L)."""

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
        if len(observations) > BLOCK:
            parts = [slice(first, first + BLOCK) for first in range(0, len(observations), BLOCK)]
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

    def save(self, path: str | Path) -> None:
        """Writes the file whole or not at all."""
        from safetensors.numpy import save_file

        path = Path(path)
        tensors = self._tensors()
        header = {
            "observations": list(self.observation_names),
            "actions": list(self.action_names),
            "card": dict(self.card),
        }
        metadata = {"format": FORMAT, "policy": json.dumps(header), "sha256": _digest(tensors, header)}
        part = path.with_name(f".{path.name}.part")
        try:
            save_file(tensors, part, metadata)
            os.replace(part, path)
        finally:
            with suppress(FileNotFoundError):
                part.unlink()

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Reads a policy file; one that is cut short, changed, or something else is refused."""
        from safetensors import SafetensorError, safe_open

        if not Path(path).is_file():
            raise PolicyFileError(f"{path}: there is no such file")
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise PolicyFileError(f"{path}: it is not a policy file, or it is cut short ({error})") from error
        if metadata.get("format") != FORMAT:
            raise PolicyFileError(f"{path}: it is a safetensors file, but not a statewise policy")
        header = json.loads(metadata.get("policy", "{}"))
        if metadata.get("sha256") != _digest(tensors, header):
            raise PolicyFileError(f"{path}: its contents were changed after it was written")
        layers = sum(name.startswith("weight_") for name in tensors)
        return cls(
            weights=tuple(tensors[f"weight_{i}"] for i in range(layers)),
            biases=tuple(tensors[f"bias_{i}"] for i in range(layers)),
            mean=tensors["mean"],
            std=tensors["std"],
            observation_names=tuple(header["observations"]),
            action_names=tuple(header["actions"]),
            card=header["card"],
        )

    def _tensors(self) -> dict[str, np.ndarray]:
        named = {"mean": self.mean, "std": self.std}
        named |= _numbered("weight", self.weights) | _numbered("bias", self.biases)
        return {name: np.ascontiguousarray(value) for name, value in named.items()}


def softmax(logits: np.ndarray) -> np.ndarray:
    """exp(x)/Σexp(x) in each row; −∞ becomes 0."""
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


def _numbered(name: str, values: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{name}_{i}": value for i, value in enumerate(values)}


def _digest(tensors: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype}{tensors[name].shape}".encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()
