"""An algorithm of a user's own: always one action, the one whose rewards were best on average, but for a tenth."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import statewise as sw
from statewise.parts.metrics import of_learner

GREEDY = 0.9


@dataclass(frozen=True)
class Constant:
    discount: float | None = None
    updates: int = 1


class View(NamedTuple):
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]


def prepare(config, dataset, key):
    counts = np.bincount(dataset.actions, minlength=dataset.action_count)
    sums = np.bincount(dataset.actions, dataset.rewards, minlength=dataset.action_count)
    return sums / np.maximum(counts, 1), View(dataset.observation_names, dataset.action_names)


def init(config, means, key):
    return np.zeros(len(means))


def update(config, means, state, key):
    return means.copy(), of_learner(value=float(means.max()))


def policy(config, view, state):
    chances = np.full(len(state), (1 - GREEDY) / len(state))
    chances[state.argmax()] += GREEDY
    features = len(view.observation_names)
    weights, biases = (np.zeros((features, len(state))),), (np.log(chances),)
    return sw.Policy(weights, biases, np.zeros(features), np.ones(features), *view)


sw.ALGORITHMS.add("constant", sw.Algorithm(Constant, prepare, init, update, policy, compiled=False))
