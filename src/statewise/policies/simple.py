"""Rules that need no learning: always the same action. What does no better than one of these is not worth learning."""

from __future__ import annotations

import numpy as np

from statewise.data.augment import seen_by_policy
from statewise.data.dataset import Dataset
from statewise.data.schema import Schema
from statewise.policies.network import Policy

CERTAIN = 60.0  # a logit beside which those of other actions, 0, have probability e⁻⁶⁰


def constant(dataset: Dataset, action: int) -> Policy:
    """Always that action, where it is legal."""
    features = seen_by_policy(dataset).shape[1]
    logits = np.zeros(dataset.action_count)
    logits[action] = CERTAIN
    return Policy(
        weights=(np.zeros((features, dataset.action_count)),),
        biases=(logits,),
        mean=np.zeros(features),
        std=np.ones(features),
        observation_names=dataset.observation_names[:features],
        action_names=dataset.action_names,
        card={"algorithm": f"always {dataset.action_names[action]}", **Schema.stated(dataset.schema)},
    )


def constants(dataset: Dataset, most: int = 10) -> dict[str, Policy]:
    """Each action that the log took, as a rule by name, the most frequent first; at most so many."""
    counts = np.bincount(dataset.actions, minlength=dataset.action_count)
    ordered = [int(action) for action in np.argsort(-counts, kind="stable") if counts[action] > 0]
    names = {action: f"always {dataset.action_names[action]}" for action in ordered[:most]}
    return {name: constant(dataset, action) for action, name in names.items()}
