"""What is done in blocks, or on a sample of rows, equals what is done on all rows at once."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statewise as sw
from statewise.algorithms import opposd
from statewise.base import column
from statewise.base.column import parts_of
from statewise.data import augment
from statewise.data.augment import Scaler
from statewise.data.device import device_log
from statewise.experiments.stack import stacked
from statewise.ops.networks import initial_network
from statewise.parts import critic, ratio_closed_form, ratio_features
from statewise.parts.actor import Actor
from statewise.parts.critic import Critic

LIMIT = 9


def log_of(kind, episodes=60, seed=0):
    """A walk that actions push along: with episodes that end, that go on, or that a limit cuts off."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, LIMIT + 1, episodes) if kind == "renewal" else np.full(episodes, LIMIT)
    observations, actions = [], []
    for length in lengths:
        chosen, states = rng.integers(0, 2, length), [rng.normal(size=2)]
        for action in chosen:
            states.append(0.8 * states[-1] + [0.5 * (2 * action - 1), 0.0] + 0.3 * rng.normal(size=2))
        observations.append(np.array(states))
        actions.append(chosen)
    return sw.Dataset.from_episodes(
        observations=observations,
        actions=actions,
        rewards=[states[1:, 0] for states in observations],
        propensities=[np.full(length, 0.5) for length in lengths],
        terminated=[kind == "renewal"] * episodes,
        cut_off={"renewal": None, "limit": "limit"}.get(kind, "continuing"),
    )


KINDS = [("renewal", 1.0), ("continuing", 1.0), ("discounted", 0.9), ("limit", 1.0), ("limit", 0.9)]


def policy(observations):
    up = 1 / (1 + np.exp(-observations[:, 0]))
    return np.column_stack([1 - up, up])


def all_rows(steps, seed=0):
    return np.arange(steps)


@pytest.mark.parametrize(("kind", "discount"), KINDS)
def test_a_sample_of_all_rows_gives_the_ratio_of_all_rows(kind, discount, monkeypatch):
    data = log_of(kind)
    whole = sw.fit_ratio(policy, data, discount=discount)
    monkeypatch.setattr(ratio_closed_form, "sampled", all_rows)
    part = sw.fit_ratio(policy, data, discount=discount)
    assert part.ground.flow.sample is not None
    assert whole.ground.flow.sample is None
    assert np.ptp(whole.of_rows) > 0.3
    np.testing.assert_allclose(part.of_rows, whole.of_rows, rtol=2e-3, atol=2e-3)
    assert part.diagnostics.regularisation == whole.diagnostics.regularisation
    states, time = data.observations[:20], np.arange(20) % LIMIT if kind == "limit" else None
    np.testing.assert_allclose(part(states, time), whole(states, time), rtol=2e-3, atol=2e-3)


def test_an_update_on_a_sample_of_all_rows_is_that_on_all_rows(monkeypatch):
    data = log_of("limit")
    small = Critic(warm_steps=5, batch=50, steps=3, hidden=(8,))
    config = sw.OPPOSD(discount=0.9, critic=small, actor=Actor(hidden=(8,), batch=200, clone_steps=5))
    key = jax.random.key(3)
    reached, samples = [], []
    for sampled in (ratio_closed_form.sampled, all_rows):
        monkeypatch.setattr(ratio_closed_form, "sampled", sampled)
        prepared, _ = opposd.prepare(config, data, key)
        state = eqx.filter_jit(opposd.init)(config, prepared, key)
        reached.append(eqx.filter_jit(opposd.update)(config, prepared, state, key))
        samples.append(prepared.ground.flow.sample)
    (before, one), (after, other) = reached
    assert samples[0] is None
    assert samples[1].table is not None
    np.testing.assert_allclose(other.ratio_ess, one.ratio_ess, rtol=2e-3)
    np.testing.assert_allclose(other.reward, one.reward, rtol=2e-3)
    for here, there in zip(before.actor.network.weights, after.actor.network.weights, strict=True):
        np.testing.assert_allclose(there, here, atol=2e-4)


def test_a_sample_is_drawn_without_repeats_and_read_in_stretches_of_single_folds(monkeypatch):
    data = log_of("limit", episodes=90)
    monkeypatch.setattr(ratio_closed_form, "MOST_ROWS", 300)
    flow = sw.fit_ratio(policy, data, discount=0.9).ground.flow
    rows = np.asarray(flow.sample.rows)
    assert len(set(rows.tolist())) == len(rows) == 300
    drawn, weight = ratio_closed_form.draw_rows(flow, 60, jax.random.key(5))
    assert drawn.shape == (3, 20)
    np.testing.assert_allclose(weight.sum(axis=1), 1.0, rtol=1e-6)
    episodes = [set(data.episode_of_step[rows[np.asarray(one)]].tolist()) for one in drawn]
    assert len(set.union(*episodes)) == sum(map(len, episodes))


def test_logs_of_samples_stack(monkeypatch):
    monkeypatch.setattr(ratio_closed_form, "MOST_ROWS", 100)
    both = [opposd.prepare(sw.OPPOSD(), log_of("renewal", seed=seed), jax.random.key(0))[0] for seed in (1, 2)]
    flow = stacked(both).ground.flow
    assert flow.phi.shape[:2] == (2, 200)
    np.testing.assert_array_equal(flow.sample.rows[1], both[1].ground.flow.sample.rows)


def test_features_and_scales_in_blocks_are_those_of_all_rows(monkeypatch):
    data, settings = log_of("limit"), ratio_features.ClosedForm()
    weight, key = 0.9**data.time, jax.random.key(1)
    arguments = settings, data.observations, 1.0, key, weight, data.time, LIMIT
    at_once, scaler = ratio_features.make_basis(*arguments), Scaler.of(data)
    states = jnp.asarray(data.observations, jnp.float32)
    expected = np.asarray(at_once(states, data.time))
    monkeypatch.setattr(column, "PART", 100)
    monkeypatch.setattr(augment, "PART", 100)
    got = np.asarray(ratio_features.make_basis(*arguments)(states, data.time))
    np.testing.assert_allclose(got @ got.T, expected @ expected.T, rtol=1e-2, atol=0.05)
    assert [len(data.observations[rows]) for rows in parts_of(len(data))] == [100] * 5 + [40]
    again = Scaler.of(data)
    np.testing.assert_allclose(again.mean, scaler.mean, rtol=1e-12)
    np.testing.assert_allclose(again.std, scaler.std, rtol=1e-12)
    scaled = again.scale(data)
    assert scaled.observations.dtype == np.float32
    np.testing.assert_allclose(scaled.observations, scaler(data.observations), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_gathered_step_by_step_are_those_gathered_ahead(weighted, monkeypatch):
    data = log_of("renewal")
    log, settings = device_log(data, 1.0), Critic(hidden=(8,), batch=40)
    value = critic.initial(settings, 2, jax.random.key(0))
    network = initial_network(jax.random.key(1), (2, 8, 2))
    state_weight = (lambda rows: 1 + rows.state[:, 0] ** 2) if weighted else None
    results = []
    for ahead in (True, False):
        monkeypatch.setattr(critic, "gathers_ahead", lambda ahead=ahead: ahead)
        results.append(critic.fit(settings, value, network, log, 7, jax.random.key(2), state_weight))
    (one, loss), (other, its_loss) = results
    np.testing.assert_allclose(its_loss, loss, rtol=1e-5)
    for here, there in zip(jax.tree.leaves(one.network), jax.tree.leaves(other.network), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-6)
