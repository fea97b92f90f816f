"""Ways to weigh states: with a weight of one each is the algorithm without it, bit for bit; with its own it is not."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statewise.algorithms import algorithm_of
from statewise.algorithms.acer import ACER
from statewise.algorithms.offpac import OffPAC
from statewise.algorithms.opposd import OPPOSD
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.learning.fit import prepare
from statewise.parts import emphasis, ratio
from statewise.parts.actor import Actor
from statewise.parts.critic import Critic
from statewise.parts.emphasis import Emphasis
from statewise.parts.q_network import QNetwork
from statewise.parts.ratio import ClosedForm

MDP = TabularMDP.random(states=4, actions=2, seed=2, termination=0.2)
# all batches are alike: what is computed operation by operation is compiled for every size
SHARED = {
    "discount": 1.0,
    "critic": Critic(hidden=(), batch=50, steps=2, warm_steps=2, closed_form=False),
    "actor": Actor(hidden=(), batch=50, clone_steps=2, clone_batch=50, learning_rate=0.1),
}
CLOSED = ClosedForm(features=16, rank=4)
Q = QNetwork(hidden=(), batch=50, steps=2)
OFFPAC, PLAIN = OffPAC(**SHARED), OPPOSD(**SHARED, ratio=CLOSED)
REPLAY = ACER(discount=1.0, critic=Q, hidden=(), batch=50, clone_steps=2)
# without the weight, and with it
WEIGHTS = {
    "the state ratio of OPPOSD": (OFFPAC, PLAIN),
    "the emphasis of Off-PAC": (OFFPAC, replace(OFFPAC, emphasis=Emphasis())),
    "the state ratio of OPPOSD's critic": (PLAIN, replace(PLAIN, weigh_critic=True)),
    "the state ratio of ACER": (REPLAY, replace(REPLAY, state_ratio=CLOSED)),
}


@pytest.fixture(scope="module")
def data():
    return collect_tabular(MDP, np.full((4, 2), 0.5), episodes=40, horizon=10, seed=0)


def learned(config, data):
    """Critic, policy and their optimisers after one update.

    It is computed operation by operation: of two programs, a compiler may add up the same numbers in another order.
    """
    algorithm, (prepared, _) = algorithm_of(config), prepare(config, data)
    state = jax.jit(lambda key: algorithm.init(config, prepared, key))(jax.random.key(1))
    with jax.disable_jit():
        state, _ = algorithm.update(config, prepared, state, jax.random.key(2))
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves((state.critic, state.actor))])


@pytest.mark.parametrize("name", WEIGHTS)
def test_weight_of_one_changes_nothing_and_the_true_one_does(data, name, monkeypatch):
    without, weighed = WEIGHTS[name]
    assert np.abs(learned(without, data) - learned(weighed, data)).max() > 1e-6
    monkeypatch.setattr(emphasis, "follow_on", lambda ratios, first, discount, interest: interest)
    monkeypatch.setattr(ratio, "of_rows", lambda ground, state, rows: jnp.ones(rows.reward.shape))
    np.testing.assert_array_equal(learned(without, data), learned(weighed, data))
