"""What every algorithm must do, over a table of all of them: a new one is a row.

The log is a corridor that pays at its end alone: ragged episodes, some cut off, under a behaviour that is uniform over
the legal actions. The best policy is known exactly, another action being right in each state. In two states an action
is illegal that would pay at once, and in the others the same action ends the episode for less.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from statewise.algorithms import ALGORITHMS, name_of
from statewise.algorithms.acer import ACER
from statewise.algorithms.behaviour_cloning import BehaviourCloning
from statewise.algorithms.cql import CQL
from statewise.algorithms.fitted_q import FittedQ
from statewise.algorithms.geoffpac import GeoffPAC
from statewise.algorithms.offpac import OffPAC
from statewise.algorithms.opposd import OPPOSD
from statewise.algorithms.sac import SAC
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.learning.fit import fit
from statewise.parts.actor import Actor
from statewise.parts.anchor import Anchor
from statewise.parts.critic import Critic
from statewise.parts.q_network import QNetwork
from statewise.parts.ratio import COPTD, ClosedForm
from statewise.parts.temperature import Temperature

DISCOUNT = 0.9
FORWARD = np.array([1, 0, 1, 0])  # the action that leads on from each state
LEGAL = np.array([[1, 1, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]], bool)
BEHAVIOUR = LEGAL / LEGAL.sum(axis=1, keepdims=True)


def corridor() -> TabularMDP:
    """Forwards four times in five, or staying; backwards for certain, out of the first state for nothing."""
    transitions, rewards = np.zeros((4, 3, 4)), np.zeros((4, 3))
    for s, forward in enumerate(FORWARD):
        transitions[s, forward, s] = 0.2 if s < 3 else 0.0
        if s < 3:
            transitions[s, forward, s + 1] = 0.8
        if s > 0:
            transitions[s, 1 - forward, s - 1] = 1.0
    rewards[3, FORWARD[3]] = 1.0
    rewards[:, 2] = [1.0, 1.0, 0.3, 0.3]
    return TabularMDP(transitions, rewards, np.array([0.3, 0.3, 0.4, 0.0]))


MDP = corridor()

actors = Actor(hidden=(), batch=300, clone_steps=20, clone_batch=100, learning_rate=0.1, anchor=Anchor(weight=0.0))
critics = Critic(hidden=(), batch=200, steps=10, warm_steps=100, learning_rate=2e-2, target_rate=0.2)
cop_td = COPTD(hidden=(), batch=200, steps=10, warm_steps=100, learning_rate=2e-2, target_rate=0.2)
q = QNetwork(hidden=(), batch=200, steps=10, learning_rate=5e-2, target_rate=0.1)
loops: dict[str, Any] = {"discount": DISCOUNT, "updates": 60}


class Row(NamedTuple):
    config: Any
    learns: str = "the best policy"
    values: bool = True  # it says what its policy is worth
    propensities: bool = False  # it needs them


ROWS = {
    "opposd": Row(
        OPPOSD(critic=critics, actor=actors, ratio=ClosedForm(features=16, rank=4), **loops), propensities=True
    ),
    "offpac": Row(OffPAC(critic=critics, actor=actors, **loops), propensities=True),
    "geoffpac": Row(
        GeoffPAC(critic=critics, actor=actors, ratio=cop_td, counterfactual=0.5, **loops), propensities=True
    ),
    "sac": Row(SAC(critic=q, temperature=Temperature(0.01), hidden=(), learning_rate=0.2, batch=300, **loops)),
    "acer": Row(
        ACER(critic=q, hidden=(), learning_rate=0.2, batch=300, clone_steps=20, trust=None, **loops), propensities=True
    ),
    "cql": Row(CQL(critic=q, conservatism=0.01, **loops)),
    "fitted-q": Row(FittedQ(discount=DISCOUNT, trees=3, updates=20)),
    "behaviour-cloning": Row(
        BehaviourCloning(hidden=(), learning_rate=0.1, batch=5000, **loops), learns="the behaviour", values=False
    ),
}
# the same algorithms with other parts
VARIANTS = {
    "opposd by cop-td": replace(ROWS["opposd"].config, ratio=cop_td),
    "acer with the state ratio": replace(ROWS["acer"].config, state_ratio=ClosedForm(features=16, rank=4)),
}
LEARNERS = [name for name, row in ROWS.items() if row.learns == "the best policy"]
SEEDS = (3, 5)


@pytest.fixture(scope="module")
def data():
    log = collect_tabular(MDP, BEHAVIOUR, episodes=300, horizon=6, seed=0)
    unknown = np.where(log.terminated[:, None], np.nan, log.final_observations)  # what an ended one ended in
    log = replace(log, legal=LEGAL[log.observations.argmax(axis=1)], final_observations=unknown)
    last = log.starts[1:] - 1
    assert 20 < log.truncated.sum() < 150
    assert len(set(log.lengths)) > 5
    assert not log.rewards[np.setdiff1d(np.arange(len(log)), last)].any()
    return log


def learn(name, data, seeds=SEEDS, **options):
    config = ROWS[name].config
    return fit(data, config, seeds=list(seeds), checkpoint_every=config.updates // 2, **options)


@pytest.fixture(scope="module")
def runs(data):
    """Each algorithm's run of two seeds, made when first asked for."""
    known = {}

    def run(name):
        if name not in known:
            known[name] = learn(name, data)
        return known[name]

    return run


def policies_of(result):
    return [policy.probabilities(np.eye(4), LEGAL) for policy in result.policies]


def assert_same(one, other):
    for left, right in zip(policies_of(one), policies_of(other), strict=True):
        np.testing.assert_array_equal(left, right)
    for name, values in one.metrics.items():
        np.testing.assert_array_equal(values, other.metrics[name])


def test_table_holds_every_algorithm():
    assert set(ROWS) == set(ALGORITHMS)
    for name, row in ROWS.items():
        assert name_of(row.config) == name


def assert_best(result):
    choices = [np.eye(3)[[(code // 3**s) % 3 for s in range(4)]] for code in range(81)]
    legal = [choice for choice in choices if not (choice * ~LEGAL).any()]
    best = max(MDP.value(choice, DISCOUNT) for choice in legal)
    assert MDP.value(np.eye(3)[FORWARD], DISCOUNT) == best
    start = MDP.value(BEHAVIOUR, DISCOUNT)
    for policy in policies_of(result):
        assert (MDP.value(policy, DISCOUNT) - start) / (best - start) > 0.9
        assert (policy.argmax(axis=1) == FORWARD).all()


@pytest.mark.parametrize("name", LEARNERS)
def test_learns_the_best_policy(runs, name):
    assert_best(runs(name))


@pytest.mark.parametrize("name", VARIANTS)
def test_learns_the_best_policy_with_other_parts(data, name):
    config = VARIANTS[name]
    assert_best(fit(data, config, seeds=list(SEEDS), checkpoint_every=config.updates))


@pytest.mark.parametrize("name", [name for name in ROWS if name not in LEARNERS])
def test_learns_the_behaviour(runs, data, name):
    states = data.observations.argmax(axis=1)
    shares = np.array([np.bincount(data.actions[states == s], minlength=3) / (states == s).sum() for s in range(4)])
    for policy in policies_of(runs(name)):
        np.testing.assert_allclose(policy, shares, atol=0.04)


@pytest.mark.parametrize("name", ROWS)
def test_illegal_actions_get_no_probability_and_legal_ones_some(runs, name):
    for policy in policies_of(runs(name)):
        assert (policy[~LEGAL] == 0).all()
        assert (policy[LEGAL] > 0).all()
        np.testing.assert_allclose(policy.sum(axis=1), 1)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.values])
def test_value_it_reports_is_the_policys(runs, name):
    """Nothing comes after a terminal step: a learner that continued from there would report twice as much."""
    result = runs(name)
    for value, policy in zip(result.metrics["value"][:, -1], policies_of(result), strict=True):
        assert value == pytest.approx(MDP.value(policy, DISCOUNT), abs=0.1)


@pytest.mark.parametrize("name", ROWS)
def test_same_seed_gives_the_same_policy_bit_for_bit(runs, data, name):
    assert_same(runs(name), learn(name, data))


# At the cost of compiling each anew. For OPPOSD tests/learning/test_fit.py does; seeds are mapped in one place for all
# (learning.program), so that those that take longest to compile are left to the long tests.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long) if name in ("offpac", "geoffpac", "acer", "sac") else name
        for name in ROWS
        if name != "opposd"
    ],
)
def test_seeds_together_learn_what_each_learns_alone(runs, data, name):
    alone, together = learn(name, data, seeds=SEEDS[1:]), runs(name)
    np.testing.assert_allclose(policies_of(alone)[0], policies_of(together)[1], atol=1e-4)
    loss = together.metrics["critic_loss"]
    np.testing.assert_allclose(alone.metrics["critic_loss"][0], loss[1], rtol=1e-3)
    if name != "fitted-q":  # whose trees separate these four states whatever the seed
        assert (loss[0] != loss[1]).all()


@pytest.mark.parametrize("name", ROWS)
def test_interrupted_run_resumes_where_it_stopped(runs, data, name, tmp_path):
    class Stop(Exception):
        pass

    def stop(progress):
        raise Stop

    with pytest.raises(Stop):
        learn(name, data, out=tmp_path, progress=stop)
    reports = []
    assert_same(runs(name), learn(name, data, out=tmp_path, progress=reports.append))
    assert [progress.update for progress in reports] == [ROWS[name].config.updates]


@pytest.mark.parametrize("name", ROWS)
def test_propensities_are_asked_for_only_where_they_are_used(runs, data, name):
    bare = replace(data, propensities=None, distributions=None)
    if ROWS[name].propensities:
        with pytest.raises(ValueError, match=r"propensities|propensity_0"):
            learn(name, bare)
    else:
        assert_same(runs(name), learn(name, bare))
