"""A small domain whose every value is known exactly: two steps, and the second action is the better one."""

import numpy as np

from statewise.domains.source import Exact
from statewise.domains.tabular import TabularMDP
from statewise.policies.network import Policy

NAMES = ("start", "good", "bad")
BEHAVIOUR = np.array([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4]])


def chain(better: float = 1.0, behaviour: np.ndarray = BEHAVIOUR) -> Exact:
    """The second action leads from the start to the good state, and pays more by `better` in both that follow."""
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 2] = transitions[0, 1, 1] = 1
    rewards = np.array([[0, 0], [0.5, 0.5 + better], [0.5, 0.5 + better]])
    return Exact(TabularMDP(transitions, rewards, np.array([1.0, 0, 0])), behaviour, np.eye(3), NAMES, horizon=2)


def linear(chances: np.ndarray) -> Policy:
    """A policy of these probabilities, as a network without hidden layers."""
    return Policy((np.log(chances),), (np.zeros(2),), np.zeros(3), np.ones(3), NAMES, ("0", "1"))
