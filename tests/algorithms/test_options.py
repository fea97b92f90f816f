"""Options that weigh states otherwise: a weight of one is the option off, bit for bit, and another weight is not."""

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
SHARED = {
    "discount": 1.0,
    "critic": Critic(hidden=(3,), batch=50, steps=2, warm_steps=2),
    "actor": Actor(hidden=(), batch=100, clone_steps=2, clone_batch=50, learning_rate=0.1),
}
CLOSED = ClosedForm(features=16, rank=4)
Q = QNetwork(hidden=(3,), batch=50, steps=2)
OPTIONS = {
    "emphatic Off-PAC": (OffPAC(**SHARED), {"emphasis": Emphasis()}),
    "OPPOSD, critic weighed by the ratio": (OPPOSD(**SHARED, ratio=CLOSED), {"weigh_critic": True}),
    "ACER with the state ratio": (ACER(discount=1.0, critic=Q, batch=100, clone_steps=2), {"state_ratio": CLOSED}),
}


@pytest.fixture(scope="module")
def data():
    return collect_tabular(MDP, np.full((4, 2), 0.5), episodes=40, horizon=10, seed=0)


def updated(config, prepared, state):
    """Critic, policy and their optimisers after one update, compiled anew, so that what is patched is seen."""
    update = jax.jit(lambda state: algorithm_of(config).update(config, prepared, state, jax.random.key(2))[0])
    after = update(state)
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves((after.critic, after.actor))])


@pytest.mark.parametrize("name", OPTIONS)
def test_weight_of_one_changes_nothing_and_the_true_one_does(data, name, monkeypatch):
    off, option = OPTIONS[name]
    on = replace(off, **option)
    prepared, _ = prepare(on, data)
    state = jax.jit(lambda key: algorithm_of(on).init(on, prepared, key))(jax.random.key(1))
    assert np.abs(updated(off, prepared, state) - updated(on, prepared, state)).max() > 1e-6
    monkeypatch.setattr(emphasis, "follow_on", lambda ratios, first, discount: jnp.ones_like(ratios))
    monkeypatch.setattr(ratio, "of_rows", lambda ground, state, rows: jnp.ones(rows.reward.shape))
    np.testing.assert_array_equal(updated(off, prepared, state), updated(on, prepared, state))
