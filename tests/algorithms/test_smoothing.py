"""Learning from a smoothed log: what the behaviour never does leads to the absorbing state, and policies keep away."""

from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from statewise.algorithms.opposd import OPPOSD
from statewise.data.augment import ABSORBED, smooth
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP, with_absorbing
from statewise.learning.fit import fit
from statewise.parts.actor import Actor
from statewise.parts.anchor import Anchor
from statewise.parts.critic import Critic
from statewise.parts.ratio import ClosedForm, RatioNetwork

STATES, ACTIONS, DISCOUNT, EPSILON = 5, 3, 0.9, 0.2
LEGAL = np.ones((STATES, ACTIONS), dtype=bool)
LEGAL[1, 2] = LEGAL[4, 0] = False  # never taken either, but for another reason


def problem(legal):
    """Action 0 of state 0 and action 1 of state 2 are never taken, though they earn most."""
    rng = np.random.default_rng(5)
    rewards = rng.random((STATES, ACTIONS))
    rewards[0, 0] = rewards[2, 1] = 2.0
    mdp = TabularMDP(rng.dirichlet(np.full(STATES, 0.5), size=(STATES, ACTIONS)), rewards, np.full(STATES, 1 / STATES))
    behaviour = rng.dirichlet(np.full(ACTIONS, 3.0), size=STATES) * legal
    behaviour[0, 0] = behaviour[2, 1] = 0.0
    return mdp, behaviour / behaviour.sum(axis=1, keepdims=True)


def log_of(mdp, behaviour, legal, episodes=400):
    log = collect_tabular(mdp, behaviour, episodes=episodes, horizon=30, seed=0)
    return log if legal.all() else replace(log, legal=legal[log.observations.argmax(axis=1)])


SHARED = {
    "discount": DISCOUNT,
    "critic": Critic(hidden=(), batch=400, steps=4, warm_steps=300, learning_rate=2e-2, target_rate=1.0),
    "actor": Actor(
        hidden=(), batch=600, clone_steps=100, clone_rate=0.05, learning_rate=0.1, anchor=Anchor(weight=0.0)
    ),
    "updates": 60,
    "smoothing": EPSILON,
}
CONFIGS = {
    "closed form": OPPOSD(**SHARED, ratio=ClosedForm(features=60, rank=16)),
    "network": OPPOSD(**SHARED, ratio=RatioNetwork(hidden=(8,), batch=40, steps=4, warm_steps=40, learning_rate=1e-2)),
}


@pytest.mark.parametrize(("name", "legal"), [("closed form", LEGAL), ("network", LEGAL | True)])
def test_policies_come_near_the_best_of_those_the_log_covers(name, legal):
    mdp, behaviour = problem(legal)
    config = CONFIGS[name]
    policy = fit(log_of(mdp, behaviour, legal), config, checkpoint_every=30).policies[0]
    assert policy.observation_names == tuple(f"state_{s}" for s in range(STATES))
    chances = policy.probabilities(np.eye(STATES), None if legal.all() else legal)
    assert chances[0, 0] < 0.1
    assert chances[2, 1] < 0.1
    augmented = mdp.augmented(behaviour)
    start = augmented.value(with_absorbing(behaviour), DISCOUNT)
    best = max(augmented.value(with_absorbing(pi), DISCOUNT) for pi in every_deterministic(legal))
    reached = augmented.value(with_absorbing(chances), DISCOUNT)
    assert (reached - start) / (best - start) > 0.85


def every_deterministic(legal):
    for code in range(ACTIONS**STATES):
        actions = [code // ACTIONS**s % ACTIONS for s in range(STATES)]
        if legal[np.arange(STATES), actions].all():
            yield np.eye(ACTIONS)[actions]


@pytest.mark.parametrize(
    ("method", "steps"), [("closed-form", 0), (RatioNetwork(hidden=(16,), learning_rate=3e-3), 1500)]
)
def test_ratio_on_a_smoothed_log_is_that_of_the_augmented_problem(method, steps):
    """Illegal actions, which no one takes, count neither as unsupported nor for the policy."""
    mdp, behaviour = problem(LEGAL)
    policy = np.random.default_rng(1).dirichlet(np.ones(ACTIONS), size=STATES) * LEGAL
    policy = policy / policy.sum(axis=1, keepdims=True)
    data = smooth(log_of(mdp, behaviour, LEGAL, episodes=2000), EPSILON).dataset
    unsupported = (behaviour == 0) & LEGAL
    some = unsupported.any(axis=1, keepdims=True)
    smoothed = np.where(some, 1 - EPSILON, 1.0) * behaviour + EPSILON * unsupported  # one at most in each state
    augmented = mdp.augmented(behaviour)
    exact = augmented.ratio(with_absorbing(policy), with_absorbing(smoothed), DISCOUNT)
    assert np.ptp(exact) > 0.5

    def probabilities(observations):
        assert observations.shape[1] == STATES, "a policy is asked about real states, without the mark"
        return observations @ policy

    w = sw.fit_ratio(probabilities, data, discount=DISCOUNT, method=method, steps=steps)
    states = np.vstack([np.eye(STATES, STATES + 1), data.observations[~data.live][0]])
    assert data.observation_names[-1] == ABSORBED
    assert augmented.occupancy(with_absorbing(smoothed), DISCOUNT) @ np.abs(w(states) - exact) < 0.08


def test_log_without_whole_distributions_is_refused():
    mdp, behaviour = problem(LEGAL)
    log = replace(log_of(mdp, behaviour, LEGAL), distributions=None)
    with pytest.raises(ValueError, match="smoothing needs whole logged distributions"):
        fit(log, CONFIGS["network"])
