"""A policy as a short rule that people can read: a shallow tree that agrees with it, and how often it does.

The tree is fitted to what the policy would most likely do on the decisions it was learned from. How often the two agree
is counted on other decisions, with the very conditions that are written down, thresholds rounded as they are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.data.augment import seen_by_policy
from statewise.data.dataset import Dataset
from statewise.data.readable import ANY, Bounds, Column, columns_of, rounded
from statewise.policies.probabilities import probabilities_of

DEEPEST = 3  # questions before an answer: what fits a reader's head
WORTH = 0.01  # of the decisions: a deeper tree must agree in so many more
FEWEST = 0.02  # of the decisions in a branch
ROWS = 50_000  # that the tree is fitted to at most


@dataclass(frozen=True)
class Branch:
    """What the rule says where its conditions hold."""

    conditions: tuple[str, ...]  # (): always
    action: str
    share: float  # of the decisions
    policy: float  # with which mean probability the policy does that there
    log: float  # how often the log did


@dataclass(frozen=True)
class Rule:
    """The branches, of which exactly one holds, and how well they stand for the policy."""

    branches: tuple[Branch, ...]
    fidelity: float  # the share of decisions in which the rule says what the policy most likely does
    commonest: float  # the same of always saying what it does most often
    decisions: int  # on which this was counted


Leaf = tuple[dict[int, Bounds], int]  # the bounds of features, and the action


def rule_of(policy: Any, learning: Dataset, held_out: Dataset) -> Rule:
    """The rule nearest to a policy, from some decisions, and its fidelity on others.

    >>> rule_of(policy, train, held_out).branches[0].conditions  # doctest: +SKIP
    ('age ≤ 61', 'ward is ICU')
    """
    leaves = _leaves(seen_by_policy(learning), probabilities_of(policy, learning).argmax(axis=1))
    chances = probabilities_of(policy, held_out)
    likeliest, observations = chances.argmax(axis=1), seen_by_policy(held_out)
    columns, branches, agree = columns_of(held_out), [], 0
    for bounds, action in leaves:
        inside = holds(bounds, observations)
        agree += int((likeliest[inside] == action).sum())
        if inside.any():
            branches.append(
                Branch(
                    conditions=_conditions(bounds, columns),
                    action=held_out.action_names[action],
                    share=float(inside.mean()),
                    policy=float(chances[inside, action].mean()),
                    log=float((held_out.actions[inside] == action).mean()),
                )
            )
    commonest = float(np.bincount(likeliest).max() / len(likeliest))
    branches.sort(key=lambda branch: -branch.share)
    return Rule(tuple(branches), agree / len(held_out), commonest, len(held_out))


def holds(bounds: dict[int, Bounds], observations: Float[np.ndarray, "n features"]) -> Bool[np.ndarray, " n"]:
    """Where all features lie within their bounds."""
    inside = np.ones(len(observations), bool)
    for feature, (low, high) in bounds.items():
        inside &= (observations[:, feature] > low) & (observations[:, feature] <= high)
    return inside


def _leaves(observations: Float[np.ndarray, "n features"], actions: Int[np.ndarray, " n"]) -> list[Leaf]:
    """Those of the shallowest tree that agrees about as often as the deepest."""
    from sklearn.tree import DecisionTreeClassifier

    if len(actions) > ROWS:
        some = np.linspace(0, len(actions) - 1, ROWS).astype(np.int64)
        observations, actions = observations[some], actions[some]
    least = max(1, round(FEWEST * len(actions)))
    whole = np.asarray((observations == np.floor(observations)).all(axis=0))
    found: list[tuple[float, list[Leaf]]] = []
    for depth in range(1, DEEPEST + 1):
        tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=least, random_state=0)
        tree.fit(observations, actions)
        leaves = _merged(tree.tree_, list(map(int, tree.classes_)), whole, 0, {})
        agree = sum(int((actions[holds(bounds, observations)] == action).sum()) for bounds, action in leaves)
        found.append((agree / len(actions), leaves))
    best = max(agreement for agreement, _ in found)
    return next(leaves for agreement, leaves in found if agreement >= best - WORTH)


def _merged(
    tree: Any, actions: Sequence[int], whole: Bool[np.ndarray, " features"], node: int, bounds: dict[int, Bounds]
) -> list[Leaf]:
    """The leaves below a node; one where both of its sides say the same. `whole`: which features are whole numbers."""
    if tree.children_left[node] < 0:
        return [(bounds, int(actions[int(tree.value[node][0].argmax())]))]
    feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
    threshold = float(np.floor(threshold)) if whole[feature] else rounded(threshold)
    low, high = bounds.get(feature, ANY)
    sides = ("children_left", (low, min(high, threshold))), ("children_right", (max(low, threshold), high))
    left, right = (
        _merged(tree, actions, whole, int(getattr(tree, side)[node]), bounds | {feature: part}) for side, part in sides
    )
    alike = {action for _, action in left + right}
    return [(bounds, alike.pop())] if len(alike) == 1 else left + right


def _conditions(bounds: dict[int, Bounds], columns: Sequence[Column]) -> tuple[str, ...]:
    """In words, column by column in the order of the log."""
    return tuple(said for column in columns if (said := column.condition(bounds)))
