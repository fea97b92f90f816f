"""Trees grown by scikit-learn, as the one table that a policy walks."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from statewise.policies.trees import TreePolicy


class Forest(eqx.Module):
    """All actions' trees in one table of arrays; `TreePolicy` says how it is walked."""

    feature: Int[np.ndarray, " nodes"]
    threshold: Float[np.ndarray, " nodes"]
    children: Int[np.ndarray, "nodes 2"]
    value: Float[np.ndarray, " nodes"]
    roots: Int[np.ndarray, "actions trees"]
    depth: Int[np.ndarray, ""]

    def policy(self, epsilon: float, observation_names: tuple[str, ...], action_names: tuple[str, ...]) -> TreePolicy:
        return TreePolicy(
            feature=self.feature,
            threshold=self.threshold,
            children=self.children,
            value=self.value,
            roots=self.roots,
            depth=int(self.depth),
            epsilon=epsilon,
            observation_names=observation_names,
            action_names=action_names,
        )


def planted(grown: list[list[Any]], missing: float = -np.inf) -> Forest:
    """The table of each action's trees; an action without any becomes a leaf with the value `missing`."""
    tables, roots, nodes, depth = [], [], 0, 0
    for trees in grown:
        own_tables = [_table(tree) for tree in trees] or [
            (np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros((1, 2), np.int32), np.full(1, missing))
        ]
        places = []
        for feature, threshold, children, values in own_tables:
            tables.append((feature, threshold, children + nodes, values))
            places.append(nodes)
            nodes += len(feature)
        roots.append(places)
        depth = max([depth, *(tree.max_depth for tree in trees)])
    widest = max(len(places) for places in roots)
    feature, threshold, children, values = (np.concatenate(column) for column in zip(*tables, strict=True))
    return Forest(
        feature=feature,
        threshold=threshold,
        children=children.astype(np.int32),
        value=values,
        roots=np.array([np.resize(places, widest) for places in roots], np.int32),
        depth=np.asarray(depth),
    )


def _table(tree: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One scikit-learn tree; a leaf becomes its own child."""
    leaf, own = tree.children_left < 0, np.arange(tree.node_count)
    children = np.stack([tree.children_left, tree.children_right], axis=1)
    # states are float32: comparing them with the largest float32 not above the threshold gives the same answers
    threshold = tree.threshold.astype(np.float32)
    threshold = np.where(threshold > tree.threshold, np.nextafter(threshold, np.float32(-np.inf)), threshold)
    return (
        np.where(leaf, 0, tree.feature).astype(np.int32),
        threshold,
        np.where(leaf[:, None], own[:, None], children).astype(np.int32),
        tree.value[:, 0, 0],
    )
