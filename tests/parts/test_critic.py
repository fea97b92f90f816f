"""The critic's λ-returns against sums written out from the log, and its fit against exact values."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from logs import make
from statewise.data.augment import pad
from statewise.data.device import device_log
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ops.networks import Least, Network, initial_network, members
from statewise.parts import critic
from statewise.parts.critic import Critic
from statewise.parts.learned import start
from statewise.parts.tracked import Tracked

DISCOUNT, SCALE = 0.9, 2.5


def in_numpy(network, inputs):
    """The network in double precision."""
    weights, biases = ([np.asarray(x, np.float64) for x in side] for side in (network.weights, network.biases))
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        inputs = np.maximum(inputs @ weight + bias, 0)
    return inputs @ weights[-1] + biases[-1]


def written_out(data, policy, network, trace):
    """Rλ(s,a) of every row: Σₖ (γλ)ᵏ ρ₁⋯ρₖ [rₖ + γ(1−λ) Vₖ₊₁], up to what is known of the episode."""
    chances = np.exp(in_numpy(policy, data.observations))
    chances = chances / chances.sum(axis=1, keepdims=True)
    ratio = chances[np.arange(len(data)), data.actions] / data.propensities
    values = SCALE * in_numpy(network, data.observations)[:, 0]
    finals = SCALE * in_numpy(network, data.final_observations)[:, 0]
    expected = np.full(len(data), np.nan)
    for e in range(data.episodes):
        first, stop = data.starts[e], data.starts[e + 1]
        if data.truncated[e] and not data.has_final_observation[e]:
            stop -= 1  # the last decision led nowhere known: the one before bootstraps from its state
        for i in range(first, stop):
            total, carried = 0.0, 1.0
            for k in range(i, stop):
                last = k == stop - 1
                ended = last and data.terminated[e]
                after = 0.0 if ended else values[k + 1] if k + 1 < data.starts[e + 1] else finals[e]
                total += carried * (data.rewards[k] + DISCOUNT * (1.0 if last else 1 - trace) * after)
                if not last:
                    carried *= DISCOUNT * trace * ratio[k + 1]
            expected[i] = total
    return expected


def returns_of(data, settings, policy, network):
    """What the critic makes of rows drawn from the log: which, whether they count, their Rλ and advantage."""
    log = device_log(data, DISCOUNT, SCALE)

    @jax.jit
    def draw(key):
        batch = critic.draw(settings, policy, log, key, 60 * log.horizon)
        returns = critic.action_values(settings, network, batch, log)
        return batch.rows.index, batch.weight, returns, critic.advantages(settings, network, batch, log, baseline=True)

    index, weight, returns, advantages = (np.asarray(values) for values in draw(jax.random.key(5)))
    return index, weight > 0, returns, advantages


@pytest.fixture(scope="module")
def networks():
    return initial_network(jax.random.key(0), (2, 8, 3)), initial_network(jax.random.key(1), (2, 8, 1))


@pytest.mark.parametrize("trace", [0.0, 0.3, 1.0])
def test_returns_of_ragged_episodes(networks, trace):
    """Even episodes are terminated, odd ones cut off; some terminated ones have no final state logged."""
    data = make([3, 1, 5, 4, 1, 7], final=[True, True, False, True, False, True])
    index, counts, returns, _ = returns_of(data, Critic(trace=trace), *networks)
    expected = written_out(data, *networks, trace)
    assert set(index[counts].tolist()) == set(range(len(data)))
    np.testing.assert_allclose(returns[counts], expected[index[counts]], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("trace", [0.0, 0.3, 1.0])
def test_returns_of_episodes_cut_off_in_a_state_not_logged(networks, trace):
    """The last decision does not count, and those before it do not hear of it."""
    data = make([3, 2, 5, 4], final=[True, False, True, False])
    index, counts, returns, _ = returns_of(data, Critic(trace=trace), *networks)
    expected = written_out(data, *networks, trace)
    assert set(index[counts].tolist()) == set(np.flatnonzero(~np.isnan(expected)).tolist())
    np.testing.assert_allclose(returns[counts], expected[index[counts]], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("trace", [0.0, 0.5])
def test_padding_changes_no_return_and_has_no_advantage(networks, trace):
    data = make([3, 1, 5, 4])
    padded = pad(data, horizon=8)
    index, counts, returns, advantages = returns_of(padded, Critic(trace=trace), *networks)
    expected = np.zeros(len(padded))
    expected[padded.live] = written_out(data, *networks, trace)
    dead = ~padded.live[index]
    assert (dead & counts).any()
    np.testing.assert_allclose(returns[counts], expected[index[counts]], rtol=2e-4, atol=2e-4)
    baseline = SCALE * in_numpy(networks[1], padded.observations)[:, 0]
    np.testing.assert_allclose(
        advantages[counts & ~dead], (expected - baseline)[index[counts & ~dead]], rtol=2e-4, atol=2e-4
    )
    np.testing.assert_array_equal(advantages[dead], 0)


BEHAVIOUR, POLICY = np.full((4, 2), 0.5), np.array([[0.8, 0.2], [0.3, 0.7], [0.7, 0.3], [0.9, 0.1]])


def balanced(data, discount, trace):
    """V with Σ ρ(Rλ − V) = 0 over the log's rows in each state: Rλ is linear in V, so that this is one solution."""
    state, final = data.observations.argmax(axis=1), data.final_observations.argmax(axis=1)
    ratio = POLICY[state, data.actions] / BEHAVIOUR[state, data.actions]
    earned, onward = np.zeros(len(data)), np.zeros((len(data), 4))  # Rλ = earned + onward·V
    for e in range(data.episodes):
        last = data.starts[e + 1] - 1
        earned[last] = data.rewards[last]
        onward[last, final[e]] = 0.0 if data.terminated[e] else discount
        for i in range(last - 1, data.starts[e] - 1, -1):
            carried = discount * trace * ratio[i + 1]
            earned[i], onward[i] = data.rewards[i] + carried * earned[i + 1], carried * onward[i + 1]
            onward[i, state[i + 1]] += discount * (1 - trace)
    here = np.eye(4)[state] * ratio[:, None]
    return np.linalg.solve(here.T @ (np.eye(4)[state] - onward), here.T @ earned)


@pytest.mark.parametrize(("trace", "discount", "termination"), [(0.0, 0.9, 0.0), (0.2, 1.0, 0.2)])
def test_fit_finds_the_policys_value(trace, discount, termination):
    """ρ-weighted regression on a log of the behaviour gives V^π, not V^μ."""
    mdp = TabularMDP.random(states=4, actions=2, seed=3, termination=termination)
    data = collect_tabular(mdp, BEHAVIOUR, episodes=3000, horizon=20, seed=1)
    log = device_log(data, discount, scale=3.0)
    target = Network((jnp.asarray(np.log(POLICY), jnp.float32),), (jnp.zeros(2),))
    # V̂ is held to 0 where episodes ended; a tabular log holds no such state, so that no real one is
    settings = Critic(hidden=(), learning_rate=3e-3, trace=trace, batch=1000, terminal_weight=1.0, target_rate=1.0)
    more = jax.jit(partial(critic.fit, settings, policy=target, log=log, steps=200))
    value, estimates = critic.initial(settings, 4, jax.random.key(0)), []
    for i in range(10):
        value, _ = more(value, key=jax.random.fold_in(jax.random.key(1), i))
        estimates.append(np.asarray(critic.values(value.network, log.scale, jnp.eye(4)), np.float64))
    expected, other = (mdp.state_values(pi, discount) for pi in (POLICY, BEHAVIOUR))
    on_the_log = balanced(data, discount, trace)
    assert np.abs(other / expected - 1).min() > 0.05
    np.testing.assert_allclose(on_the_log, expected, rtol=0.03)
    np.testing.assert_allclose(np.mean(estimates[-4:], axis=0), on_the_log, rtol=0.03)


def test_undiscounted_values_look_ahead_no_further_than_the_log_teaches():
    short, long = make([4, 6]), make([100, 60])
    assert critic.value_discount(Critic(), short, 1.0) == pytest.approx(1 - 1 / 50)
    assert critic.value_discount(Critic(), long, 1.0) == pytest.approx(1 - 1 / 160)
    assert critic.value_discount(Critic(), short, 0.9) == 0.9
    assert critic.value_discount(Critic(discount=1.0), short, 1.0) == 1.0
    log = device_log(short, 1.0, value_discount=0.5)
    batch = critic.draw(Critic(), None, log, jax.random.key(0), 20)
    network = jax.tree.map(
        jnp.ones_like, critic.initial(Critic(hidden=()), log.rows.features, jax.random.key(1)).network
    )
    following = np.clip(network(batch.rows.next_state)[:, 0], *log.value_bounds)
    expected = batch.rows.reward + 0.5 * batch.rows.onward * following
    np.testing.assert_allclose(critic.action_values(Critic(), network, batch, log), expected, rtol=1e-6)


def test_batches_of_whole_episodes_hold_about_as_many_rows_as_asked_for():
    """However long the longest episode is: one of 40 steps stands among many of 2."""
    log = device_log(make([2] * 39 + [40]), DISCOUNT)
    batch = critic.draw(Critic(trace=0.5), None, log, jax.random.key(0), 600, times=20)
    real = np.asarray(batch.weight > 0).reshape(20, -1).sum(axis=1)
    assert abs(real.mean() - 600) < 4 * real.std() / np.sqrt(20) + 10
    assert real.min() > 350


def test_two_critics_that_start_alike_learn_what_one_does():
    settings = Critic(hidden=(8,), batch=50, members=1)
    log = device_log(make([6, 9, 4]), 0.9)
    single = critic.initial(settings, log.rows.features, jax.random.key(0))
    twice = Least((single.network, single.network))
    double = Tracked(start(twice, critic.optimiser(settings)), twice)
    for value in (single, double):
        learned, _ = critic.fit(settings, value, None, log, 20, jax.random.key(1))
        expected = learned.network if value is single else expected
        for member in members(learned.network):
            jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), member, expected)


def test_the_least_of_two_values_is_bootstrapped_from():
    log = device_log(make([6, 9, 4]), 0.9)
    one, other = (initial_network(jax.random.key(seed), (log.rows.features, 8, 1)) for seed in (0, 1))
    batch = critic.draw(Critic(), None, log, jax.random.key(2), 40)
    values = critic.action_values(Critic(), Least((one, other)), batch, log)
    each = [critic.action_values(Critic(), network, batch, log) for network in (one, other)]
    np.testing.assert_allclose(values, np.minimum(*each), rtol=1e-6)


@pytest.mark.parametrize(("rewards", "expected"), [((0.5, 2.0), (0.0, 20.0)), ((-1.0, 0.0), (-10.0, 0.0))])
def test_values_stay_within_what_rewards_can_come_to(rewards, expected):
    data = make([3, 4])
    data = replace(data, rewards=np.linspace(*rewards, len(data)))
    log = device_log(data, 0.9)
    np.testing.assert_allclose(log.value_bounds, expected, rtol=1e-5)
    far = Network((jnp.zeros((log.rows.features, 1)),), (jnp.array([1e6]),))
    batch = critic.draw(Critic(), None, log, jax.random.key(0), 40)
    most = batch.rows.reward + 0.9 * batch.rows.onward * expected[1]
    np.testing.assert_allclose(critic.action_values(Critic(), far, batch, log), most, rtol=1e-5)
    assert np.isinf(device_log(data, 1.0).value_bounds).any()
