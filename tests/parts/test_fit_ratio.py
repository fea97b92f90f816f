"""w(s, t) where a limit cuts episodes off, against exact ratios of finite problems."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statewise as sw
from statewise.data.horizon import Horizon
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.parts import ratio_closed_form
from statewise.parts.ratio_closed_form import FOLDS, Flow, draw_rows, remembering
from statewise.parts.ratio_features import ClosedForm, turned_together

STATES, ACTIONS = 5, 2
# compiled whole: operation by operation it would be hundreds of programs
solve, draw = eqx.filter_jit(ratio_closed_form.solve), eqx.filter_jit(draw_rows)
EXACT = ClosedForm(regularisation=(1e-11,), rows=10**9)


def problem(seed, termination=0.0):
    """Transitions to a few states each, so that policies differ in where they go."""
    rng = np.random.default_rng(seed)
    ends = termination * rng.random((STATES, ACTIONS, 1))  # how long an episode lasts depends on what is done
    transitions = (1 - ends) * rng.dirichlet(np.full(STATES, 0.3), size=(STATES, ACTIONS))
    mdp = TabularMDP(transitions, rng.normal(size=(STATES, ACTIONS)), rng.dirichlet(np.ones(STATES)))
    return mdp, rng.dirichlet([3.0, 3.0], size=STATES), rng.dirichlet([1.0, 1.0], size=STATES)


def visits(mdp, policy, limit):
    """d_t(s): the chance that an episode is in s at step t."""
    rows = [mdp.initial]
    for _ in range(limit - 1):
        rows.append(rows[-1] @ mdp.chain(policy))
    return np.stack(rows)


def value(mdp, policy, limit, discount):
    """From the last step backwards."""
    values = np.zeros(STATES)
    for _ in range(limit):
        values = (policy * (mdp.rewards + discount * mdp.transitions @ values)).sum(axis=1)
    return mdp.initial @ values


def population(mdp, behaviour, limit, discount):
    """Every (t, s, a, s') once, with its probability as weight: what an unlimited log would hold."""
    eye, seen = np.eye(STATES), visits(mdp, behaviour, limit)
    time, state, action, following = (axis.ravel() for axis in np.indices((limit, STATES, ACTIONS, STATES + 1)))
    ends = following == STATES
    moves = np.append(mdp.transitions, mdp.termination[:, :, None], axis=2)
    chance = moves[state, action, following]
    weight = discount**time * seen[time, state] * behaviour[state, action] * chance
    arrived = np.where(ends, state, following)
    basis = turned_together(EXACT, None, eye[state], weight, time, limit)
    onward = np.where(ends | (time == limit - 1), 0.0, discount)
    n = len(time)
    flow = Flow(
        phi=jnp.concatenate([basis(jnp.asarray(eye[state]), time), basis(jnp.asarray(eye[arrived]), time + 1)]),
        following=jnp.arange(n, 2 * n),
        onward=jnp.asarray(onward),
        weight=jnp.asarray(weight),
        fresh=jnp.asarray(mdp.initial) @ basis(jnp.eye(STATES), np.zeros(STATES, int)),
        folds=jnp.tile(jnp.arange(n), (FOLDS, 1)),
        sizes=jnp.full(FOLDS, n),
        importance=basis.importance,
        continuing=False,
    )
    return remembering(flow), time, state, action, weight


LIMITS = [(6, 0.0, 1.0), (12, 0.4, 1.0), (8, 0.0, 0.9), (9, 0.4, 0.95)]


@pytest.mark.parametrize(("limit", "termination", "discount"), LIMITS)
def test_with_a_limit_the_population_gives_the_exact_ratio_and_value(limit, termination, discount):
    mdp, behaviour, policy = problem(limit, termination)
    exact = visits(mdp, policy, limit) / visits(mdp, behaviour, limit)
    assert np.ptp(exact, axis=0).max() > 0.3  # it depends on time
    with jax.enable_x64(True):
        flow, time, state, action, weight = population(mdp, behaviour, limit, discount)
        rho = policy[state, action] / behaviour[state, action]
        rows, shares = draw(flow, EXACT.rows, jax.random.key(0))
        solution = solve(EXACT, flow, rows, shares, jnp.asarray(rho)[rows])
        w = np.asarray(flow.phi[: len(time)] @ solution.beta)
    w = w / np.average(w[time == 0], weights=weight[time == 0])  # episodes begin alike: w has mean 1 there
    np.testing.assert_allclose(w, exact[time, state], rtol=1e-6)
    worth = np.sum(weight * w * rho * mdp.rewards[state, action])
    assert worth == pytest.approx(value(mdp, policy, limit, discount), abs=1e-6)


def sampled(limit=8, termination=0.4, episodes=8000, seed=12):
    mdp, behaviour, policy = problem(seed, termination)
    return mdp, behaviour, policy, collect_tabular(mdp, behaviour, episodes, limit, seed=0)


def of_state(policy):
    return lambda observations: policy[np.asarray(observations).argmax(axis=1)]


def test_on_a_log_the_ratio_at_every_step_is_near_the_exact_one():
    mdp, behaviour, policy, data = sampled()
    w = sw.fit_ratio(of_state(policy), data)
    assert w.limit == 8
    seen = visits(mdp, behaviour, 8)
    exact = visits(mdp, policy, 8) / seen
    exact *= seen.sum() / visits(mdp, policy, 8).sum()  # mean 1 over the rows
    fitted = np.stack([w(np.eye(STATES), t) for t in range(8)])
    error = np.sqrt(np.average((fitted / exact - 1) ** 2, weights=seen))
    assert error < 0.05
    assert np.sqrt(np.average((exact.mean(axis=0) / exact - 1) ** 2, weights=seen)) > 0.2  # no w(s) is near it
    states = data.observations.argmax(axis=1)
    np.testing.assert_allclose(w.of_rows, fitted[data.time, states], rtol=1e-4, atol=1e-4)
    first = data.time == 0
    worth = np.sum(w.of_rows * w.action_ratio * data.rewards) / np.sum(w.of_rows[first])
    assert worth == pytest.approx(value(mdp, policy, 8, 1.0), abs=0.05)


def test_the_network_sees_the_clock():
    mdp, behaviour, policy, data = sampled(episodes=3000)
    w = sw.fit_ratio(of_state(policy), data, method="network", steps=3000)
    seen = visits(mdp, behaviour, 8)
    exact = visits(mdp, policy, 8) / seen
    exact *= seen.sum() / visits(mdp, policy, 8).sum()
    fitted = np.stack([w(np.eye(STATES), np.full(STATES, t)) for t in range(8)])
    error = np.sqrt(np.average((fitted - exact) ** 2, weights=seen))
    without = np.sqrt(np.average((np.average(exact, axis=0, weights=seen) - exact) ** 2, weights=seen))
    assert error < without


def test_a_ratio_with_a_limit_asks_for_the_time():
    _, _, policy, data = sampled(episodes=300)
    w = sw.fit_ratio(of_state(policy), data)
    with pytest.raises(ValueError, match="time: episodes end at step 8, so that w depends on the step"):
        w(np.eye(STATES))
    with pytest.raises(ValueError, match="expected steps from 0 to 7, got 8 to 8"):
        w(np.eye(STATES), 8)


def test_where_what_is_cut_off_goes_on_the_ratio_has_no_clock():
    """To the last digit the same whatever `time` would be."""
    _, _, policy, data = sampled(termination=0.0, episodes=300)
    data = replace(data, ends=Horizon("continuing"))
    w = sw.fit_ratio(of_state(policy), data, discount=0.9)
    assert w.limit is None
    assert np.array_equal(w(np.eye(STATES)), w(np.eye(STATES), 3))


def test_a_limit_that_its_owner_sets_earlier_is_where_the_ratio_ends():
    _, _, policy, data = sampled(limit=8, termination=0.0, episodes=2000)
    shorter = replace(data, ends=Horizon("limit", 5))
    w = sw.fit_ratio(of_state(policy), shorter, discount=1.0)
    _, _, _, data_of_five = sampled(limit=5, termination=0.0, episodes=2000)
    assert w.limit == 5
    assert (w.of_rows[data.time >= 5] == 0).all()
    within = data.time < 5
    assert np.mean(w.of_rows[within]) == pytest.approx(1.0, abs=1e-6)
    same = sw.fit_ratio(of_state(policy), data_of_five, discount=1.0)
    np.testing.assert_allclose(w.of_rows[within], same.of_rows, rtol=1e-4)
