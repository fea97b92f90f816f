"""A policy as a file: its weights as safetensors, with a card that says what it is. Acting needs no more than NumPy.

The card holds, where known: `algorithm`, `seed`, `update`, `discount`, `data` (the training log's fingerprint), `log`
(of the whole that the training data are a part of), `versions`, `estimate` (estimator, value, low, high, level; no
value where the log does not tell) and `verdict`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from statewise.base.files import written_whole
from statewise.base.tensors import TensorError, read_tensors

FORMAT = "statewise-policy-1"
# what every card answers, with null while it is not known
UNKNOWN = ("algorithm", "seed", "update", "discount", "data", "estimate", "verdict", "versions")
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

    def with_card(self, **entries: Any) -> Policy:
        """The same policy with these entries on its card, such as what it is worth once that is known."""
        return replace(self, card={**self.card, **entries})

    def full_card(self) -> dict[str, Any]:
        """All that the file says about itself but the weights, as JSON can hold it."""
        scaling = zip(self.observation_names, self.mean.tolist(), self.std.tolist(), strict=True)
        return {
            "format": FORMAT,
            "observations": [{"name": name, "mean": mean, "std": std} for name, mean, std in scaling],
            "actions": list(self.action_names),
            "network": [self.weights[0].shape[0], *(bias.shape[0] for bias in self.biases)],
            **dict.fromkeys(UNKNOWN),
            **self.card,
        }

    def save(self, path: str | Path) -> None:
        """Writes the file whole or not at all."""
        from safetensors.numpy import save

        tensors = self._tensors()
        header = {
            "observations": list(self.observation_names),
            "actions": list(self.action_names),
            "card": dict(self.card),
        }
        metadata = {"format": FORMAT, "policy": json.dumps(header), "sha256": _digest(tensors, header)}
        with written_whole(path) as part:
            part.write_bytes(save(tensors, metadata))

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Reads a policy file, by NumPy alone; one that is cut short, changed, or something else is refused."""
        if not Path(path).is_file():
            raise PolicyFileError(f"{path}: there is no such file")
        try:
            tensors, metadata = read_tensors(Path(path).read_bytes())
        except TensorError as error:
            raise PolicyFileError(f"{path}: it is not a policy file, or it is cut short ({error})") from error
        written = metadata.get("format", "")
        if written != FORMAT:
            newer = f"but one that this version cannot read ({written})" if written.startswith(FORMAT[:-1]) else ""
            raise PolicyFileError(f"{path}: it is a safetensors file, {newer or 'but not a statewise policy'}")
        try:
            header = json.loads(metadata.get("policy", ""))
        except ValueError as error:
            raise PolicyFileError(f"{path}: its contents were changed after it was written") from error
        if metadata.get("sha256") != _digest(tensors, header):
            raise PolicyFileError(f"{path}: its contents were changed after it was written")
        try:
            return cls._from_parts(tensors, header)
        except (KeyError, TypeError, ValueError) as error:
            raise PolicyFileError(f"{path}: its parts do not fit together ({error})") from error

    @classmethod
    def _from_parts(cls, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> Policy:
        layers = sum(name.startswith("weight_") for name in tensors)
        policy = cls(
            weights=tuple(tensors[f"weight_{i}"] for i in range(layers)),
            biases=tuple(tensors[f"bias_{i}"] for i in range(layers)),
            mean=tensors["mean"],
            std=tensors["std"],
            observation_names=tuple(header["observations"]),
            action_names=tuple(header["actions"]),
            card=header["card"],
        )
        sizes = [len(policy.observation_names), *(len(bias) for bias in policy.biases)]
        shapes = [weight.shape for weight in policy.weights]
        if not layers or shapes != list(pairwise(sizes)) or sizes[-1] != len(policy.action_names):
            raise ValueError(f"layers of {shapes} for {sizes[0]} observations and {len(policy.action_names)} actions")
        if policy.mean.shape != (sizes[0],) or policy.std.shape != (sizes[0],):
            raise ValueError("one mean and deviation for each observation")
        return policy

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
