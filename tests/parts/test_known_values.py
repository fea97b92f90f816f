"""Values of all actions from counts, against the counted problem solved exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from logs import simulated
from statewise.algorithms.offpac import OffPAC
from statewise.algorithms.opposd import OPPOSD
from statewise.data.device import device_log
from statewise.domains import DOMAINS
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP, softmax
from statewise.learning.fit import fit, prepare
from statewise.ops.networks import Network
from statewise.parts import known_values, ratio
from statewise.parts.actor import Actor
from statewise.parts.critic import Batch

STATES, ACTIONS, DISCOUNT = 6, 3, 0.9


@pytest.fixture(scope="module")
def problem():
    mdp = TabularMDP.random(STATES, ACTIONS, seed=0, termination=0.1)
    behaviour = softmax(np.random.default_rng(1).normal(size=(STATES, ACTIONS)))
    behaviour[2] = [0.5, 0.5, 0.0]  # what is never tried there
    return mdp, behaviour, collect_tabular(mdp, behaviour, 300, 30, seed=0)


def evaluated(data, logits, caution, monkeypatch):
    monkeypatch.setattr(known_values, "CAUTION", caution)
    known = known_values.known_states(data)
    assert known is not None
    order = np.asarray(known.states).argmax(axis=1)  # counted states, by their number in the problem
    policy = Network((jnp.asarray(logits, jnp.float32),), (jnp.zeros(ACTIONS),))
    gamma = jnp.asarray(DISCOUNT)
    first = known_values.evaluate(known, None, policy, gamma)
    return known, order, first, known_values.evaluate(known, first, policy, gamma)


def counted(data):
    """The problem that the log's own frequencies describe, from loops."""
    state, final = np.asarray(data.observations).argmax(axis=1), np.nan_to_num(data.final_observations).argmax(axis=1)
    trials, paid, moves = np.zeros((STATES, ACTIONS)), np.zeros((STATES, ACTIONS)), np.zeros((STATES, ACTIONS, STATES))
    for e in range(data.episodes):
        for row in range(data.starts[e], data.starts[e + 1]):
            pair = state[row], data.actions[row]
            trials[pair] += 1
            paid[pair] += data.rewards[row]
            last = row == data.starts[e + 1] - 1
            if not last or not data.terminated[e]:
                moves[*pair, final[e] if last else state[row + 1]] += 1
    each = np.maximum(trials, 1)
    return trials, TabularMDP(moves / each[..., None], paid / each, np.eye(STATES)[0])


def test_parts_of_a_long_log_are_counted_together(problem, monkeypatch):
    """Not a bit differs, also where a part ends within an episode."""
    _, _, data = problem
    expected = jax.tree.leaves(known_values.known_states(data))
    monkeypatch.setattr(known_values, "PART", 77)
    got = jax.tree.leaves(known_values.known_states(data))
    assert len(got) == len(expected) >= 6
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_counts_solve_the_counted_problem(problem, monkeypatch):
    _, _, data = problem
    logits = np.random.default_rng(2).normal(size=(STATES, ACTIONS))
    logits[2, 2] = -50.0  # the action that was never tried
    known, order, values, _ = evaluated(data, logits, 0.0, monkeypatch)
    trials, model = counted(data)
    np.testing.assert_array_equal(np.asarray(known.trials), trials[order])
    expected = model.action_values(softmax(logits), DISCOUNT)
    tried = trials > 0
    np.testing.assert_allclose(np.asarray(values.actions)[tried[order]], expected[order][tried[order]], rtol=1e-4)
    worth = np.asarray(values.actions)[list(order).index(2)]
    assert worth[2] == worth[:2].min()
    np.testing.assert_allclose(
        np.asarray(values.states), model.state_values(softmax(logits), DISCOUNT)[order], rtol=1e-4
    )


def test_caution_is_taken_off_by_standard_errors(problem, monkeypatch):
    """Q̂ with the second pass's caution is that of rewards less c σ̂/√n, σ̂ from the values of the first."""
    _, _, data = problem
    logits = np.random.default_rng(3).normal(size=(STATES, ACTIONS))
    logits[2, 2] = -50.0
    _, order, first, second = evaluated(data, logits, 0.5, monkeypatch)
    trials, model = counted(data)
    values = model.state_values(softmax(logits), DISCOUNT)
    following = DISCOUNT**2 * (model.transitions @ values**2 - (model.transitions @ values) ** 2)
    sigma = np.sqrt((trials * following).sum() / trials.sum())  # rewards of (s,a) do not vary here
    assert float(first.deviation) == pytest.approx(sigma, rel=1e-3)
    careful = TabularMDP(
        model.transitions, model.rewards - 0.5 * sigma / np.sqrt(np.maximum(trials, 1)), model.initial
    ).action_values(softmax(logits), DISCOUNT)
    tried = trials[order] > 0
    worth = np.asarray(second.actions)
    np.testing.assert_allclose(worth[tried], careful[order][tried], rtol=1e-3)
    place = list(order).index(2)  # what was never tried there is worth less than the worst, as after a single trial
    assert worth[place, 2] == pytest.approx(worth[place, :2].min() - 0.5 * sigma, rel=1e-3)


def test_scaled_states_are_found_again():
    """Scaled observations have double precision on the host and single on the device."""
    data = DOMAINS["random-mdp"].problem(50_000).collect(20, 0)
    known = prepare(OPPOSD(discount=0.95), data)[0].log.known
    # every row counts but those cut off in a state in which nothing was decided
    assert len(data) - data.truncated.sum() <= float(known.trials.sum()) <= len(data)


def test_logs_of_many_states_are_left_to_the_network():
    data = simulated(episodes=40)
    assert known_values.known_states(data) is None
    assert prepare(OPPOSD(discount=0.9), data)[0].log.known is None


@pytest.mark.parametrize("settings", [OPPOSD, OffPAC])
def test_policies_of_few_states_come_close_to_the_best(problem, settings):
    mdp, behaviour, data = problem
    config = settings(discount=DISCOUNT, actor=Actor(batch=500, clone_steps=100, clone_batch=200), updates=200)
    policy = fit(data, config).policies[0]
    best = mdp.value(_optimal(mdp), DISCOUNT)
    today, new = mdp.value(behaviour, DISCOUNT), mdp.value(policy.probabilities(np.eye(STATES)), DISCOUNT)
    assert new - today > 0.85 * (best - today)


def test_where_one_action_was_tried_the_policy_takes_it():
    """All others are worth the same there: without a doubt about them, entropy would make the policy uniform."""
    mdp = TabularMDP.random(STATES, ACTIONS, seed=3, termination=0.1)
    behaviour = np.full((STATES, ACTIONS), 1 / ACTIONS)
    behaviour[4] = [0.0, 1.0, 0.0]
    data = collect_tabular(mdp, behaviour, 300, 30, seed=0)
    config = OPPOSD(discount=DISCOUNT, actor=Actor(batch=500, clone_steps=100, clone_batch=200), updates=200)
    chances = fit(data, config).policies[0].probabilities(np.eye(STATES)[4:5])
    assert chances[0, 1] > 0.9


def _optimal(mdp):
    """By policy iteration from action 0."""
    best = np.zeros(STATES, int)
    for _ in range(50):
        best = mdp.action_values(np.eye(ACTIONS)[best], DISCOUNT).argmax(axis=1)
    return np.eye(ACTIONS)[best]


def test_brake_holds_where_few_rows_stand_for_all():
    log = device_log(simulated(episodes=20), 1.0)
    rows = log.rows.take(jnp.arange(100))
    even = Batch(rows, jnp.ones(100), jnp.ones(100))
    assert ratio.brake(0.0, even, jnp.ones(100)) is None
    assert float(ratio.brake(0.2, even, jnp.ones(100))) == 1
    for share, expected in ((0.2, 1.0), (0.15, 0.5), (0.1, 0.0), (0.05, 0.0)):
        some = jnp.asarray(np.arange(100) < 100 * share, jnp.float32)  # an effective share of exactly that
        assert float(ratio.brake(0.2, even, some)) == pytest.approx(expected, abs=1e-5)
