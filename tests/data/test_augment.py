"""The augmented problem, its smoothed log, padding, renewal and scaling, against exact answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statewise as sw
from statewise.data.augment import ABSORBED, Scaler, pad, smooth
from statewise.data.device import device_log
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP, with_absorbing

EPSILON, HORIZON, DISCOUNT = 0.2, 12, 0.9


@pytest.fixture(scope="module")
def partly_covered():
    """A problem and a behaviour that never takes some actions in some states."""
    mdp = TabularMDP.random(states=5, actions=3, seed=3)
    behaviour = np.random.default_rng(4).dirichlet(np.ones(3), size=5)
    behaviour[0, 1] = behaviour[2, 0] = behaviour[2, 2] = 0
    return mdp, behaviour / behaviour.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def smoothed(partly_covered):
    mdp, behaviour = partly_covered
    log = collect_tabular(mdp, behaviour, episodes=20_000, horizon=HORIZON, seed=0)
    return log, smooth(log, EPSILON, seed=1)


def soft(behaviour):
    """μ̃ in closed form."""
    unsupported = behaviour <= 0
    k = unsupported.sum(axis=1, keepdims=True)
    return np.where(k > 0, (1 - EPSILON) * behaviour + EPSILON * unsupported / np.maximum(k, 1), behaviour)


def test_smoothed_propensities_are_those_of_the_smoothed_behaviour(partly_covered, smoothed):
    _, behaviour = partly_covered
    _, (data, shift) = smoothed
    assert shift == 0
    expected = with_absorbing(soft(behaviour))
    state = _state(data)
    np.testing.assert_allclose(data.distributions, expected[state], atol=1e-12)
    np.testing.assert_allclose(data.propensities, expected[state, data.actions], atol=1e-12)


def test_smoothed_actions_are_drawn_from_the_smoothed_behaviour(partly_covered, smoothed):
    _, behaviour = partly_covered
    _, (data, _) = smoothed
    expected = with_absorbing(soft(behaviour))
    state = _state(data)
    for s in range(6):
        n = (state == s).sum()
        shares = np.bincount(data.actions[state == s], minlength=3) / n
        deviation = np.sqrt(expected[s] * (1 - expected[s]) / n)
        assert (np.abs(shares - expected[s]) <= 4.5 * deviation + 1e-12).all()


def test_smoothed_states_follow_the_augmented_chain(partly_covered, smoothed):
    mdp, behaviour = partly_covered
    _, (data, _) = smoothed
    chain = mdp.augmented(behaviour).chain(with_absorbing(soft(behaviour)))
    distribution = np.append(mdp.initial, 0.0)
    state = _state(data)
    for t in range(HORIZON):
        shares = np.bincount(state[data.time == t], minlength=6) / data.episodes
        deviation = np.sqrt(distribution * (1 - distribution) / data.episodes)
        assert (np.abs(shares - distribution) <= 4.5 * deviation + 1e-12).all()
        distribution = distribution @ chain


def test_importance_sampling_on_the_smoothed_log_gives_the_augmented_value(partly_covered, smoothed):
    """Only with the right propensities on every row: those kept, those drawn, and those after the absorption."""
    mdp, behaviour = partly_covered
    _, (data, _) = smoothed
    target = with_absorbing(0.5 * behaviour + 0.5 / 3)
    ratio = target[_state(data), data.actions] / data.propensities
    weights = np.exp(np.add.reduceat(np.log(ratio), data.starts[:-1]))
    returns = weights * data.returns(DISCOUNT)
    augmented = mdp.augmented(behaviour)
    distribution, truth = np.append(mdp.initial, 0.0), 0.0
    for t in range(HORIZON):
        truth += DISCOUNT**t * distribution @ (target * augmented.rewards).sum(axis=1)
        distribution = distribution @ augmented.chain(target)
    error = returns.std() / np.sqrt(len(returns))
    assert error < 0.05 * truth
    assert abs(returns.mean() - truth) < 4 * error


def test_absorbed_rows_stay_absorbed_earn_nothing_and_are_not_live(smoothed):
    log, (data, _) = smoothed
    absorbed = _state(data) == 5
    assert 0.3 < absorbed.mean() < 0.9
    assert (data.rewards[absorbed] == 0).all()
    np.testing.assert_array_equal(data.live, ~absorbed)
    same_episode = np.diff(data.episode_of_step) == 0
    assert not (absorbed[:-1] & ~absorbed[1:] & same_episode).any()
    assert data.observation_names == (*log.observation_names, ABSORBED)
    # the row that led there earns nothing either: its value is 0
    led = ~absorbed[:-1] & absorbed[1:] & same_episode
    assert (data.rewards[:-1][led] == 0).all()


def test_a_decision_that_leaves_is_worth_nothing_even_at_the_horizon():
    log = sw.Dataset.from_episodes(
        observations=[[[0.0], [1.0]]] * 40,
        actions=[[0]] * 40,
        rewards=[[1.0]] * 40,
        distributions=[[[1.0, 0.0]]] * 40,
        terminated=[False] * 40,
    )
    data = smooth(log, 0.5, seed=2).dataset
    rows = device_log(data, discount=0.9).rows.take(jnp.arange(len(data)))
    left = np.asarray(rows.action == 1) & np.asarray(rows.live > 0)
    assert 5 < left.sum() < 35
    np.testing.assert_array_equal(np.asarray(rows.onward)[left], 0)
    np.testing.assert_array_equal(np.asarray(rows.reward)[left], 0)


def test_absorbed_episodes_go_on_to_the_given_horizon(smoothed):
    log, _ = smoothed
    data = smooth(log, EPSILON, seed=1, horizon=20).dataset
    absorbed = np.isin(np.arange(data.episodes), data.episode_of_step[~data.live])
    assert set(data.lengths[absorbed]) == {20}
    assert set(data.lengths[~absorbed]) == {HORIZON}


def test_covered_log_is_left_alone():
    mdp = TabularMDP.random(states=3, actions=2, seed=0)
    log = collect_tabular(mdp, np.full((3, 2), 0.5), episodes=5, horizon=4, seed=0)
    assert smooth(log, EPSILON).dataset is log


def test_illegal_actions_are_not_unsupported():
    log = sw.Dataset.from_episodes(
        observations=[[[0.0], [1.0]]],
        actions=[[0, 1]],
        rewards=[[0.0, 1.0]],
        distributions=[[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]],
        legal=[[[True, True, False], [True, True, False]]],
        terminated=[False],
    )
    assert smooth(log, EPSILON).dataset is log


def test_negative_rewards_are_shifted_or_refused():
    def log(terminated):
        return sw.Dataset.from_episodes(
            observations=[[[0.0], [1.0]]] * 2,
            actions=[[0, 0]] * 2,
            rewards=[[-2.0, 1.0]] * 2,
            distributions=[[[1.0, 0.0], [1.0, 0.0]]] * 2,
            terminated=[terminated, False],
            action_count=2,
        )

    data, shift = smooth(log(False), 1e-9)
    assert shift == 2
    assert data.rewards.tolist() == [0, 3, 0, 3]
    for terminating in (log(True), pad(log(True), horizon=5)):
        with pytest.raises(ValueError, match="raising them all would reward policies for longer episodes"):
            smooth(terminating, EPSILON)


def test_smoothing_needs_whole_distributions():
    log = sw.Dataset.from_episodes(
        observations=[[[0.0]]], actions=[[0]], rewards=[[0.0]], propensities=[[0.5]], terminated=[True]
    )
    with pytest.raises(ValueError, match="whole logged distributions"):
        smooth(log, EPSILON)


def test_padding_repeats_the_terminal_state():
    log = sw.Dataset.from_episodes(
        observations=[[[1.0], [2.0], [3.0]], [[4.0], [5.0]], [[6.0], [7.0]]],
        actions=[[0, 1], [1, 1], [0]],
        rewards=[[1.0, 1.0], [1.0, 1.0], [1.0]],
        propensities=[[0.5, 0.5], [0.5, 0.5], [0.5]],
        terminated=[True, False, True],
    )
    data = pad(log, horizon=4)
    assert data.observations[:, 0].tolist() == [1, 2, 3, 3, 4, 5, 6, 7, 7, 7]
    assert data.rewards.tolist() == [1, 1, 0, 0, 1, 1, 1, 0, 0, 0]
    assert data.live.tolist() == [True, True, False, False, True, True, True, False, False, False]
    assert not data.terminated.any()
    assert data.final_observations[:, 0].tolist()[0::2] == [3, 7]
    assert (data.propensities == 0.5).all()
    np.testing.assert_array_equal(data.returns(), log.returns())
    with pytest.raises(ValueError, match="shorter than the longest"):
        pad(log, horizon=1)
    # rows on padding lead to padding: their states are worth nothing
    rows = device_log(data, discount=1.0).rows.take(jnp.arange(len(data)))
    assert rows.onward.tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_padding_acts_as_the_last_logged_distribution():
    log = sw.Dataset.from_episodes(
        observations=[[[1.0], [2.0]]],
        actions=[[0]],
        rewards=[[1.0]],
        distributions=[[[0.9, 0.1, 0.0]]],
        terminated=[True],
    )
    data = pad(log, horizon=4000)
    np.testing.assert_array_equal(data.distributions, np.tile([0.9, 0.1, 0.0], (4000, 1)))
    shares = np.bincount(data.actions[1:], minlength=3) / 3999
    np.testing.assert_allclose(shares, [0.9, 0.1, 0.0], atol=0.02)
    assert shares[2] == 0
    np.testing.assert_array_equal(data.propensities, np.array([0.9, 0.1])[data.actions])


def test_renewal_leads_each_end_to_a_fresh_start_and_leaves_the_rest():
    mdp = TabularMDP.random(states=4, actions=2, seed=1, termination=0.3)
    data = collect_tabular(mdp, np.full((4, 2), 0.5), episodes=3000, horizon=50, seed=2)
    log = device_log(data, discount=1.0)
    rows = log.rows.take(jnp.arange(len(data)))
    following = np.asarray(log.renewed(jax.random.key(0), rows))
    last = np.asarray(rows.last) > 0
    assert last.sum() == 3000
    np.testing.assert_array_equal(following[~last], data.observations[1:][~last[:-1]])
    shares = following[last].mean(axis=0)
    deviation = np.sqrt(mdp.initial * (1 - mdp.initial) / last.sum())
    assert (np.abs(shares - mdp.initial) < 6 * deviation).all()


def test_renewal_chain_has_the_visits_ratio_as_its_stationary_ratio():
    """The claim behind `renewed`, exactly: P_π with its missing mass sent to p₀ is stationary at v_π / Σv_π."""
    mdp = TabularMDP.random(states=6, actions=2, seed=5, termination=0.1)
    policy = np.random.default_rng(0).dirichlet(np.ones(2), size=6)
    renewal = mdp.chain(policy) + np.outer(1 - mdp.chain(policy).sum(axis=1), mdp.initial)
    distribution = np.full(6, 1 / 6)
    for _ in range(2000):
        distribution = distribution @ renewal
    np.testing.assert_allclose(distribution, mdp.occupancy(policy, 1.0), atol=1e-12)


def test_scaler_standardises_live_states_and_spares_constants():
    log = sw.Dataset.from_episodes(
        observations=[[[1.0, 7.0], [2.0, 7.0], [6.0, 7.0]], [[4.0, 7.0], [5.0, 7.0]]],
        actions=[[0, 1], [1]],
        rewards=[[1.0, 1.0], [1.0]],
        propensities=[[0.5, 0.5], [0.5]],
        terminated=[True, True],
    )
    scaler = Scaler.of(log)
    scaled = scaler.scale(log)
    np.testing.assert_allclose(scaled.observations.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.observations.std(axis=0), [1, 0], atol=1e-12)
    np.testing.assert_allclose(scaled.final_observations[0, 0], (6 - 7 / 3) / np.std([1, 2, 4]))
    padded = Scaler.of(pad(log, horizon=9))
    np.testing.assert_allclose(padded.mean, scaler.mean)
    np.testing.assert_allclose(padded.std, scaler.std)


def _state(data):
    """Which state a row is in; 5 is the absorbing one."""
    return np.where(data.observations[:, -1] == 1, 5, data.observations[:, :5].argmax(axis=1))
