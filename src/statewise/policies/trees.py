"""A policy that acts by trees: greedy on the action values of regression-tree ensembles, kept exactly and safely.

The trees are arrays in a safetensors file, never a pickle, and are walked by NumPy alone. Distilling them into a
network would have made another policy than the one that was learned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from statewise.base.files import written_whole
from statewise.policies.network import Policy, PolicyFileError, _digest

FORMAT = "statewise-trees-1"
ARRAYS = ("feature", "threshold", "children", "value", "roots")
CHUNK = 4096  # rows walked at a time


@dataclass(frozen=True, eq=False)
class TreePolicy:
    """π(a|s) = (1 − ε)·[a is best] + ε/|A|, best by Q(s,a), the mean of action a's trees; among legal actions alone.

    The trees' nodes stand in one table. At a node, a state goes to the first child if its `feature` is not above
    `threshold`, else to the second; a leaf is its own child. An action that the log never took is worth −∞.
    """

    feature: Int[np.ndarray, " nodes"]
    threshold: Float[np.ndarray, " nodes"]
    children: Int[np.ndarray, "nodes 2"]
    value: Float[np.ndarray, " nodes"]
    roots: Int[np.ndarray, "actions trees"]
    depth: int
    epsilon: float
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    card: Mapping[str, Any] = field(default_factory=dict)

    def action_values(self, observations: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n actions"]:
        """Q(s,·)."""
        observations = np.asarray(observations, np.float32)  # as the trees were grown on
        parts = [self._chunk(observations[i : i + CHUNK]) for i in range(0, len(observations), CHUNK)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.action_names)))

    def probabilities(self, observations: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
        """π(·|s), [n, actions], for observations [n, features]; actions that are not `legal` have probability 0."""
        values = np.maximum(self.action_values(np.asarray(observations)), np.finfo(np.float64).min)
        allowed = np.ones(values.shape, bool) if legal is None else np.asarray(legal, bool)
        best = np.argmax(np.where(allowed, values, -np.inf), axis=1)
        chances = self.epsilon * allowed / allowed.sum(axis=1, keepdims=True)
        chances[np.arange(len(values)), best] += 1 - self.epsilon
        return chances

    def save(self, path: str | Path) -> None:
        """Writes the file whole or not at all."""
        from safetensors.numpy import save

        tensors = {name: np.ascontiguousarray(getattr(self, name)) for name in ARRAYS}
        header = {
            "observations": list(self.observation_names),
            "actions": list(self.action_names),
            "card": dict(self.card),
            "depth": self.depth,
            "epsilon": self.epsilon,
        }
        metadata = {"format": FORMAT, "policy": json.dumps(header), "sha256": _digest(tensors, header)}
        with written_whole(path) as part:
            part.write_bytes(save(tensors, metadata))

    def _chunk(self, observations: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n actions"]:
        node = np.tile(self.roots.ravel().astype(np.int64), len(observations))
        first = np.repeat(np.arange(len(observations)) * observations.shape[1], self.roots.size)
        seen, children, walking = observations.ravel(), self.children.ravel(), np.arange(len(node))
        for _ in range(self.depth):
            here = node[walking]
            right = seen[first[walking] + self.feature[here]] > self.threshold[here]
            there = children[2 * here + right]
            node[walking] = there
            walking = walking[there != here]  # a leaf is its own child
        return self.value[node].reshape(-1, *self.roots.shape).mean(axis=2)


def load_policy(path: str | Path) -> Policy | TreePolicy:
    """Reads any policy file, a network's or trees'; one that is cut short, changed, or something else is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                return Policy.load(path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError):
        return Policy.load(path)  # which says what is wrong with it
    header = json.loads(metadata.get("policy", "{}"))
    if metadata.get("sha256") != _digest(tensors, header):
        raise PolicyFileError(f"{path}: its contents were changed after it was written")
    return TreePolicy(
        **tensors,
        depth=header["depth"],
        epsilon=header["epsilon"],
        observation_names=tuple(header["observations"]),
        action_names=tuple(header["actions"]),
        card=header["card"],
    )
