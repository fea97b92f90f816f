"""Learners on logs whose episodes are cut off by a limit: critic and ratio know the time left, the policy does not."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statewise as sw
from statewise.algorithms import algorithm_of
from statewise.data.clock import clock, with_clock
from statewise.data.device import device_log
from statewise.data.horizon import Horizon
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.experiments.stack import stack_of, stacked
from statewise.parts import critic

LIMIT = 8
ACTOR = sw.Actor(hidden=(8,), batch=20, clone_steps=5, clone_batch=20)
CRITIC = sw.Critic(hidden=(8,), batch=20, warm_steps=5, closed_form=False)
KNOWING = replace(CRITIC, clock=True)
CLOSED = sw.ClosedForm(features=16)
NETWORK = sw.RatioNetwork(batch=20, steps=2, warm_steps=2)
COP_TD = sw.COPTD(batch=20, steps=2, warm_steps=2)
SMALL = {
    "opposd": sw.OPPOSD(ratio=CLOSED, critic=CRITIC, actor=ACTOR, updates=2),
    "opposd, critic": sw.OPPOSD(ratio=CLOSED, critic=KNOWING, actor=ACTOR, updates=2),
    "network": sw.OPPOSD(
        ratio=NETWORK, critic=replace(CRITIC, trace=0.5), actor=replace(ACTOR, features=(0, 2)), smoothing=0.1
    ),
    "network, critic": sw.OPPOSD(ratio=NETWORK, critic=KNOWING, actor=ACTOR),
    "cop-td": sw.OPPOSD(ratio=COP_TD, critic=CRITIC, actor=ACTOR),
    "critic alone": sw.OPPOSD(ratio=replace(NETWORK, clock=False), critic=KNOWING, actor=ACTOR),
    "offpac": sw.OffPAC(critic=KNOWING, actor=ACTOR),
    "acer": sw.ACER(
        critic=sw.QNetwork(hidden=(8,), batch=20), hidden=(8,), batch=20, clone_steps=5, state_ratio=CLOSED
    ),
    "acer, network": sw.ACER(
        critic=sw.QNetwork(hidden=(8,), batch=20), hidden=(8,), batch=20, clone_steps=5, state_ratio=NETWORK
    ),
}


@pytest.fixture(scope="module")
def data():
    mdp = TabularMDP.random(4, 2, seed=3, termination=0.1)
    behaviour = np.array([[0.6, 0.4], [1.0, 0.0], [0.3, 0.7], [0.5, 0.5]])
    return collect_tabular(mdp, behaviour, episodes=60, horizon=LIMIT, seed=0)


def same(left, right):
    if jax.tree.structure(left) != jax.tree.structure(right):
        return False
    # propensities that are not needed are NaN
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*map(jax.tree.leaves, (left, right)), strict=True))


def prepared(config, data):
    return algorithm_of(config).prepare(config, data, jax.random.key(0))


def inputs_of(network):
    return jax.tree.leaves(network)[0].shape[-2]


@pytest.mark.parametrize("name", SMALL)
def test_only_what_is_to_know_the_time_sees_the_clock(data, name):
    config = SMALL[name]
    (log, view), algorithm = prepared(config, data), algorithm_of(config)
    rows = log.log.rows
    assert view.observation_names == data.observation_names

    def one_update(key):
        return algorithm.update(config, log, algorithm.init(config, log, key), key)[0]

    learned = eqx.filter_eval_shape(one_update, jax.random.key(1))
    policy = 4 + (name == "network")  # smoothing adds a column that it sees in learning
    assert inputs_of(learned.actor.network) == policy
    assert inputs_of(learned.critic.network) == policy + getattr(config.critic, "clock", False)
    settings = getattr(config, "ratio", None) or getattr(config, "state_ratio", None)
    if isinstance(settings, sw.RatioNetwork | sw.COPTD):
        assert inputs_of(learned.ratio.network) == policy + settings.clock
    elif settings is not None:
        assert log.ground.basis.knots.shape == (LIMIT,)
        assert rows.timed == getattr(config.critic, "clock", False)


@pytest.mark.parametrize("name", SMALL)
def test_the_limit_is_an_end_to_critics_that_know_it(data, name):
    log = prepared(SMALL[name], data)[0].log
    rows = log.rows.take(log.starts + log.lengths - 1)
    at_limit = (np.asarray(log.lengths) == LIMIT) & (np.asarray(rows.live) > 0)
    assert at_limit.any()
    bootstrapped = np.asarray(rows.onward)[at_limit & (np.asarray(rows.reward) != 0)]
    knows = getattr(SMALL[name].critic, "clock", False)
    assert bootstrapped.any() != knows


def test_a_policy_learned_with_a_clock_acts_without_one(data, tmp_path):
    policy = sw.fit(data, SMALL["opposd"]).policies[0]
    assert policy.observation_names == data.observation_names
    policy.save(tmp_path / "policy.safetensors")
    loaded = sw.load_policy(tmp_path / "policy.safetensors")
    assert np.array_equal(loaded.probabilities(data.observations), policy.probabilities(data.observations))


@pytest.mark.parametrize("name", SMALL)
def test_where_no_limit_cuts_episodes_off_the_clock_changes_nothing(data, name):
    """What is learned from is the same to the last digit."""
    endless = replace(data, ends=Horizon("continuing"))
    assert same(prepared(SMALL[name], endless)[0], prepared(without_clock(SMALL[name]), endless)[0])
    assert not same(prepared(SMALL[name], data)[0], prepared(without_clock(SMALL[name]), data)[0])


def without_clock(config):
    changes = {
        part: replace(getattr(config, part), clock=False)
        for part in ("ratio", "critic", "state_ratio")
        if hasattr(getattr(config, part, None), "clock")
    }
    return replace(config, **changes)


def test_the_critic_knows_the_time_left():
    """Where every step earns 1, V(s, t) = H − t, in states that tell nothing of it."""
    steps = 400 * LIMIT
    rng = np.random.default_rng(0)
    data = sw.Dataset.from_episodes(
        observations=list(rng.normal(size=(400, LIMIT + 1, 2))),
        actions=list(rng.integers(2, size=(400, LIMIT))),
        rewards=list(np.ones((400, LIMIT))),
        propensities=list(np.full((400, LIMIT), 0.5)),
        terminated=[False] * 400,
    )
    assert len(data) == steps
    timed = with_clock(data, LIMIT)
    settings = sw.Critic(hidden=(32,), batch=200, discount=1.0, target_rate=0.1)
    log = device_log(timed, 1.0, scale=4.0, value_discount=1.0)
    value = critic.initial(settings, 3, jax.random.key(0))
    value, _ = critic.fit(settings, value, None, log, 4000, jax.random.key(1))
    times = np.arange(LIMIT + 1)
    states = np.column_stack([np.zeros((LIMIT + 1, 2)), clock(times, LIMIT)])
    fitted = critic.values(value.network, log.scale, jnp.asarray(states, jnp.float32))
    assert np.asarray(fitted) == pytest.approx(LIMIT - times, abs=0.3)


def test_the_ratio_is_that_of_state_and_time(data):
    log, _ = prepared(SMALL["opposd"], data)
    flow = log.ground.flow
    assert log.chain == "renewal"
    last = np.isin(np.arange(len(data)), data.starts[1:] - 1)
    assert np.array_equal(np.asarray(flow.onward) == 0, last)
    second_moment = np.asarray(flow.phi[: len(data)]).T @ np.asarray(flow.phi[: len(data)]) / len(data)
    kept = np.diag(second_moment) > 0.5
    assert kept.sum() > 4 * (LIMIT - 2)  # more than functions of the state alone
    assert second_moment == pytest.approx(np.diag(kept.astype(float)), abs=1e-3)


@pytest.mark.parametrize("name", ["paper-cartpole", "paper-hiv"])
def test_the_papers_presets_have_no_clock(name):
    for algorithm in ("opposd", "offpac"):
        assert without_clock(sw.preset(name, algorithm)) == sw.preset(name, algorithm)


def test_a_study_stacks_logs_with_a_clock_apart_from_those_without(data):
    endless = replace(data, ends=Horizon("continuing"))
    whole = {name: [stack_of(prepared(SMALL[name], log)[0]) for log in (data, endless)] for name in SMALL}
    assert {kind[0] for both in whole.values() for kind in both} == {60}
    assert stack_of(prepared(SMALL["opposd"], data.take(np.arange(30)))[0])[0] == 30
    kinds = {name: [kind[2:6] for kind in both] for name, both in whole.items()}
    plain = (False, False, False, False)
    assert kinds["opposd"] == [(False, True, False, False), plain]
    assert kinds["opposd, critic"] == [(True, True, False, False), plain]
    assert kinds["network"] == [(True, False, False, False), plain]
    stack = stacked(
        [prepared(SMALL["opposd"], data.take(order))[0] for order in (np.arange(60), np.arange(59, -1, -1))]
    )
    assert stack.ground.flow.memory.shape[0] == 2
