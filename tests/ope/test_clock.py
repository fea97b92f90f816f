"""Where a limit cuts episodes off: w(s, t), V(s, t) and the value against exact ones of finite problems.

The log holds every path as often as it occurs: decisions are fair coins, what they lead to is certain, and every
sequence of coins comes once from every first state.
"""

from itertools import product

import numpy as np
import pytest

import statewise as sw
from statewise.ope import prepared as prepared_module
from statewise.ope.equations import make_equations
from statewise.ope.estimators.state_ratio import state_ratio
from statewise.ope.evaluate import prepare
from statewise.ope.linear_critic import state_values
from statewise.ope.order import in_folds
from statewise.ope.prepared import Case
from statewise.ope.rows import Rows
from statewise.parts.chain import chain_of
from statewise.parts.ratio_closed_form import ClosedForm

STATES, END = 3, -1
NEXT = np.array([[1, 2], [0, 1], [2, 0]])
ENDING = np.array([[1, 2], [0, END], [2, 0]])  # in state 1, action 1 ends the episode
REWARDS = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 3.0]])
POLICY = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
EXACT = ClosedForm(regularisation=(1e-12,))


def every_path(moves, limit):
    states, actions, ended = [], [], []
    for first, coins in product(range(STATES), product(range(2), repeat=limit)):
        here, path = first, []
        for coin in coins:
            path.append((here, coin))
            here = moves[here, coin]
            if here == END:
                break
        states.append([state for state, _ in path])
        actions.append([action for _, action in path])
        ended.append(here == END)
    return sw.Dataset.from_episodes(
        observations=[np.eye(STATES)[path] for path in states],
        actions=actions,
        rewards=[REWARDS[path, coins] for path, coins in zip(states, actions, strict=True)],
        distributions=[np.full((len(path), 2), 0.5) for path in states],
        terminated=ended,
    )


def visits(moves, policy, limit):
    """d_t(s), one step at a time."""
    seen = np.zeros((limit, STATES))
    seen[0] = 1 / STATES
    for t, s, a in product(range(limit - 1), range(STATES), range(2)):
        if moves[s, a] != END:
            seen[t + 1, moves[s, a]] += seen[t, s] * policy[s, a]
    return seen


def values(moves, policy, limit, discount):
    """V(s, t), from the last step backwards."""
    worth = np.zeros((limit + 1, STATES + 1))  # the last column is where an episode has ended
    for t in range(limit - 1, -1, -1):
        worth[t, :STATES] = (policy * (REWARDS + discount * worth[t + 1][moves])).sum(axis=1)
    return worth[:limit, :STATES]


CASES = [(NEXT, 6, 1.0), (NEXT, 7, 0.9), (ENDING, 6, 1.0), (ENDING, 8, 0.95)]


def case_of(moves, limit, discount):
    data = every_path(moves, limit)
    assert data.horizon == ("limit", limit)
    return Case(prepare(data, discount=discount), data.observations @ POLICY)


@pytest.mark.parametrize(("moves", "limit", "discount"), CASES)
def test_with_a_feature_for_every_state_and_step_all_is_exact(moves, limit, discount):
    case = case_of(moves, limit, discount)
    log, data = case.prepared, case.prepared.dataset
    state, time = data.observations.argmax(axis=1), data.time
    chain = chain_of(data, discount, stationary=False)
    pairs = np.eye(STATES * limit)
    here = pairs[STATES * time + state]
    scale = np.sqrt(chain.weight @ here / chain.weight.sum())  # E_μ[φφᵀ] = I
    here = here / np.where(scale > 0, scale, 1.0)
    order = in_folds(data, seed=0)
    log.__dict__["horizon_equations"] = make_equations(chain, Rows(order, here[order.rows]), EXACT)

    seen, wanted = visits(moves, np.full((STATES, 2), 0.5), limit), visits(moves, POLICY, limit)
    powers = discount ** np.arange(limit)[:, None]
    exact = np.divide(wanted, seen, out=np.zeros_like(seen), where=seen > 0)
    exact *= (powers * seen).sum() / (powers * wanted).sum()  # mean 1 over the rows
    assert np.ptp(exact, axis=0).max() > 0.2  # it depends on time
    np.testing.assert_allclose(case.solved.signed, exact[time, state], rtol=1e-6, atol=1e-6)

    worth = values(moves, POLICY, limit, discount)
    assert state_ratio(case, data.rewards).value == pytest.approx(worth[0].mean(), abs=1e-6)
    critic = state_values(case, data.rewards)
    np.testing.assert_allclose(critic, worth[time, state], atol=1e-3)


@pytest.mark.parametrize(("moves", "limit", "discount"), CASES)
def test_the_judges_own_features_tell_every_state_and_step_apart(monkeypatch, moves, limit, discount):
    """Single precision, waves and hats: what is left of exactness."""
    monkeypatch.setattr(prepared_module, "RATIO", ClosedForm(regularisation=(1e-7,)))
    case = case_of(moves, limit, discount)
    data, equations = case.prepared.dataset, case.prepared.horizon_equations
    state, time = data.observations.argmax(axis=1), data.time
    seen, wanted = visits(moves, np.full((STATES, 2), 0.5), limit), visits(moves, POLICY, limit)
    assert equations.rows.rank == (seen > 0).sum()
    exact = wanted[time, state] / seen[time, state]
    weight = equations.weights / equations.total
    exact /= weight @ exact
    np.testing.assert_allclose(case.solved.signed, exact, rtol=2e-3)
    worth = values(moves, POLICY, limit, discount)
    found = state_ratio(case, data.rewards)
    assert found.value == pytest.approx(worth[0].mean(), rel=1e-4)
    assert found.missed < 0.01


def test_the_usual_settings_are_close_where_the_behaviours_value_is_far():
    case = case_of(NEXT, 6, 1.0)
    data = case.prepared.dataset
    truth = values(NEXT, POLICY, 6, 1.0)[0].mean()
    today = values(NEXT, np.full((STATES, 2), 0.5), 6, 1.0)[0].mean()
    assert data.returns(1.0).mean() == pytest.approx(today)
    one = sw.evaluate(lambda seen: seen @ POLICY, data)
    assert abs(one.value - truth) < 0.05 * abs(truth - today)
    assert abs(one.value - truth) < one.standard_error
