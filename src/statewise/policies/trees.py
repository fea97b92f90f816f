"""A policy that acts by trees: greedy on the action values of regression-tree ensembles, kept exactly and safely.

The trees are arrays in a safetensors file, never a pickle, and are walked by NumPy alone. Distilling them into a
network would have made another policy than the one that was learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from statewise.policies.files import full_card, save_policy
from statewise.policies.predict import classes, predict, predict_proba

ARRAYS = ("feature", "threshold", "children", "value", "roots")
CHUNK = 4096  # rows walked at a time
MOST_WALKS = 1 << 24  # rows times trees that are walked at a time


@dataclass(frozen=True, eq=False)
class TreePolicy:
    """π(a|s) = (1 − ε)·[a is best] + ε/|A|, best by Q(s,a), the mean of action a's trees; among legal actions alone.

    The trees' nodes stand in one table. At a node, a state goes to the first child if its `feature` is not above
    `threshold`, else to the second; a leaf is its own child. An action that the log never took is worth −∞.
    """

    format: ClassVar[str] = "statewise-trees-1"

    feature: np.ndarray  # [nodes], whole numbers
    threshold: np.ndarray  # [nodes]
    children: np.ndarray  # [nodes, 2], whole numbers
    value: np.ndarray  # [nodes]
    roots: np.ndarray  # [actions, trees], whole numbers
    depth: int  # steps from a root to the furthest leaf
    epsilon: float
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    card: Mapping[str, Any] = field(default_factory=dict)

    def action_values(self, observations: np.ndarray) -> np.ndarray:
        """Q(s,·), [n, actions], for observations [n, features]."""
        observations = np.asarray(observations, np.float32)  # as the trees were grown on
        size = max(1, min(CHUNK, MOST_WALKS // self.roots.size))
        parts = [self._chunk(observations[i : i + size]) for i in range(0, len(observations), size)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.action_names)))

    def probabilities(self, observations: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
        """π(·|s), [n, actions], for observations [n, features]; actions that are not `legal` have probability 0."""
        values = np.maximum(self.action_values(np.asarray(observations)), np.finfo(np.float64).min)
        allowed = np.ones(values.shape, bool) if legal is None else np.asarray(legal, bool)
        best = np.argmax(np.where(allowed, values, -np.inf), axis=1)
        chances = self.epsilon * allowed / allowed.sum(axis=1, keepdims=True)
        chances[np.arange(len(values)), best] += 1 - self.epsilon
        return chances

    predict, predict_proba, classes_ = predict, predict_proba, property(classes)

    def full_card(self) -> dict[str, Any]:
        """All that the file says about itself but the trees, as JSON can hold it."""
        observations = [{"name": name} for name in self.observation_names]
        size = {"each_action": self.roots.shape[1], "nodes": len(self.feature), "depth": self.depth}
        return full_card(self, observations, trees=size, epsilon=self.epsilon)

    def save(self, path: str | Path) -> None:
        """Writes the file whole or not at all."""
        save_policy(self, path)

    def tensors(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in ARRAYS}

    def header(self) -> dict[str, Any]:
        return {"depth": self.depth, "epsilon": self.epsilon}

    @classmethod
    def from_parts(cls, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any], **common: Any) -> TreePolicy:
        arrays = {name: tensors[name] for name in ARRAYS}
        if set(tensors) != set(arrays):
            raise ValueError(f"expected the arrays {', '.join(arrays)} and nothing else")
        _check_shapes(arrays, len(common["action_names"]))
        _check_places(arrays, len(common["observation_names"]))
        depth, epsilon = header["depth"], header["epsilon"]
        if type(epsilon) not in (int, float) or not 0 <= epsilon <= 1:
            raise ValueError(f"expected an epsilon from 0 to 1, got {epsilon!r}")
        if type(depth) is not int or not 0 <= depth < len(arrays["feature"]):
            raise ValueError(f"expected a depth below the {len(arrays['feature'])} nodes, got {depth!r}")
        _check_trees(arrays["children"], arrays["roots"], depth)
        return cls(**arrays, depth=depth, epsilon=float(epsilon), **common)

    def _chunk(self, observations: np.ndarray) -> np.ndarray:
        node = np.tile(self.roots.ravel().astype(np.int64), len(observations))
        first = np.repeat(np.arange(len(observations)) * observations.shape[1], self.roots.size)
        seen, children, walking = observations.ravel(), self.children.ravel(), np.arange(len(node))
        for _ in range(self.depth):
            here = node[walking]
            right = seen[first[walking] + self.feature[here]] > self.threshold[here]
            there = children[2 * here + right]
            node[walking] = there
            walking = walking[there != here]  # a leaf is its own child
            if not len(walking):
                break
        return self.value[node].reshape(-1, *self.roots.shape).mean(axis=2)


def _check_shapes(arrays: Mapping[str, np.ndarray], actions: int) -> None:
    nodes, trees = len(np.atleast_1d(arrays["feature"])), np.atleast_2d(arrays["roots"]).shape[1]
    wanted = {
        "feature": ("iu", (nodes,)),
        "threshold": ("f", (nodes,)),
        "children": ("iu", (nodes, 2)),
        "value": ("f", (nodes,)),
        "roots": ("iu", (actions, trees)),
    }
    if not nodes or not actions or not trees:
        raise ValueError("expected one tree or more for each action")
    for name, (kinds, shape) in wanted.items():
        if arrays[name].dtype.kind not in kinds or arrays[name].shape != shape:
            sort = "whole" if kinds == "iu" else "real"
            given = f"{arrays[name].dtype} of {list(arrays[name].shape)}"
            raise ValueError(f"expected '{name}' to hold {sort} numbers of shape {list(shape)}, got {given}")


def _check_places(arrays: Mapping[str, np.ndarray], features: int) -> None:
    """Whatever is looked up stands in the tables."""
    nodes = len(arrays["feature"])
    for name, count in (("feature", features), ("children", nodes), ("roots", nodes)):
        least, most = int(arrays[name].min()), int(arrays[name].max())
        if not 0 <= least <= most < count:
            raise ValueError(f"expected '{name}' from 0 to {count - 1}, got {least if least < 0 else most}")
    if np.isnan(arrays["value"]).any() or np.isposinf(arrays["value"]).any():
        raise ValueError("expected every 'value' to be a number or −∞")


def _check_trees(children: np.ndarray, roots: np.ndarray, depth: int) -> None:
    """From the roots, every way ends in a leaf after `depth` steps at most."""
    onward = children != np.arange(len(children))[:, None]
    parents = np.bincount(children[onward], minlength=len(children))
    # a node of one parent, below a root of none, cannot be above itself
    if (onward[:, 0] != onward[:, 1]).any() or parents.max() > 1 or parents[roots].any():
        raise ValueError("the nodes do not form trees")
    steps, inner = 0, np.unique(roots)
    while len(inner := inner[onward[inner, 0]]):
        steps, inner = steps + 1, children[inner].ravel()
    if steps > depth:
        raise ValueError(f"expected a depth of {steps}, that of the deepest tree, got {depth}")
