"""MRDR's critic against the paper's objective in plain loops, against the variance that it is to minimise, and Q^π."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from logs import make
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ope.estimators import more_robust
from statewise.ope.estimators.more_robust import (
    RIDGES,
    Objective,
    more_robust_doubly_robust,
    objective_of,
    weighted_returns,
)
from statewise.ope.estimators.per_decision import carried_by_decisions, per_decision
from statewise.ope.evaluate import prepare
from statewise.ope.linear_critic import cross_fitted, judged, moved_by
from statewise.ope.prepared import Case

DISCOUNT = 0.9


@pytest.fixture(scope="module", params=["every action's propensity", "the taken one's"])
def case(request):
    """Episodes of 1 to 5 steps, all of which end, and a policy that differs from the behaviour."""
    data = make([1 + e % 5 for e in range(60)])
    rng = np.random.default_rng(4)
    data = replace(data, terminated=np.ones(60, bool), observations=rng.normal(size=data.observations.shape))
    chances = 0.6 * data.distributions + 0.4 * rng.dirichlet(np.ones(3), size=len(data))
    if request.param == "the taken one's":
        data = replace(data, distributions=None)
    return Case(prepare(data, discount=DISCOUNT), chances)


def plain_objective(case, q):
    """Σ γ²ᵗ ω₀…ₜ₋₁² ωₜ qᵀΩq, from its definition; or the second moment."""
    data, total, weights = case.prepared.dataset, 0.0, 0.0
    for e in range(data.episodes):
        before = 1.0
        for t, i in enumerate(range(data.starts[e], data.starts[e + 1])):
            taken, policy = data.actions[i], case.probabilities[i]
            rho = policy[taken] / data.propensities[i]
            to_come, product = 0.0, 1.0
            for k in range(i, data.starts[e + 1]):
                if k > i:
                    product *= DISCOUNT * case.probabilities[k, data.actions[k]] / data.propensities[k]
                to_come += product * data.rewards[k]
            if data.distributions is None:
                weight, loss = before**2 * rho**2, (q[i, taken] - to_come) ** 2
            else:
                left = np.diag(policy) @ q[i] - np.eye(3)[taken] * to_come
                weight, loss = before**2 * rho, left @ (np.diag(1 / data.distributions[i]) - np.ones((3, 3))) @ left
            total += DISCOUNT ** (2 * t) * weight * loss
            weights += DISCOUNT ** (2 * t) * weight
            before *= rho
    return total / weights


def solved(objective, rows=None, ridge=0.0):
    rows = np.ones(len(objective.weight), bool) if rows is None else rows
    normal, target = objective.system(np.flatnonzero(rows))
    theta = np.linalg.solve(normal + ridge * np.eye(len(target)), target)
    return theta.reshape(objective.features.shape[1], -1)


def test_the_critic_minimises_the_papers_objective(case):
    """Along lines in every direction from θ, the plain sum is a parabola whose least point is θ."""
    objective = objective_of(case, case.prepared.dataset.rewards)
    theta, rng = solved(objective, ridge=1e-9), np.random.default_rng(0)
    here = plain_objective(case, objective.features @ theta)
    for _ in range(20):
        direction = objective.features @ rng.normal(size=theta.shape)
        above, below = (plain_objective(case, objective.features @ theta + s * direction) for s in (0.1, -0.1))
        assert above + below - 2 * here > 0
        assert abs(above - below) < 1e-4 * (above + below - 2 * here)


def test_in_expectation_the_objective_is_the_variance_of_the_estimate():
    """One step, two states, three actions, a critic that cannot tell the states apart: all pairs with their weights."""
    rng = np.random.default_rng(2)
    chance, mean = np.array([0.3, 0.7]), rng.normal(size=(2, 3))
    behaviour, policy = rng.dirichlet(np.ones(3), size=2), rng.dirichlet(np.ones(3), size=2)
    state, action = (axis.ravel() for axis in np.indices((2, 3)))
    rho = (policy / behaviour)[state, action]
    objective = Objective(
        features=np.ones((6, 1)),
        policy=policy[state],
        spread=1 / behaviour[state],
        joint=1.0,
        returns=np.eye(3)[action] * mean[state, action][:, None],
        weight=chance[state] * behaviour[state, action] * rho,
    )

    def variance(q):
        """Within states, of V̂ + ρ(r − Q̂); what lies between states is the same for every critic."""
        corrected = (policy * q).sum(axis=1)[:, None] + policy / behaviour * (mean - q)
        within = (behaviour * corrected**2).sum(axis=1) - (behaviour * corrected).sum(axis=1) ** 2
        return chance @ within

    normal, target = objective.system(np.arange(6))
    theta = np.linalg.lstsq(normal, target, rcond=None)[0]
    best = minimize(lambda q: variance(q[None]), np.zeros(3), tol=1e-12)
    assert variance(theta[None]) == pytest.approx(best.fun, rel=1e-6)
    fitted = (chance[:, None] * behaviour * mean).sum(axis=0) / (chance[:, None] * behaviour).sum(axis=0)
    assert best.fun < 0.99 * variance(fitted[None])  # the best-fitting critic leaves more


@pytest.mark.parametrize("logged", ["every action's propensity", "the taken one's"])
def test_with_a_feature_for_every_state_the_critic_is_the_policys(logged):
    mdp = TabularMDP.random(3, 2, seed=5, termination=0.5)
    rng = np.random.default_rng(0)
    behaviour, policy = rng.dirichlet([6.0, 6.0], size=3), rng.dirichlet([6.0, 6.0], size=3)
    data = collect_tabular(mdp, behaviour, episodes=40_000, horizon=60, seed=0)
    if logged == "the taken one's":
        data = replace(data, distributions=None)
    states = data.observations.argmax(axis=1)
    case = Case(prepare(data, discount=DISCOUNT), policy[states])
    objective = replace(objective_of(case, data.rewards), features=np.eye(3)[states])
    theta = solved(objective, ridge=1e-9)
    exact = mdp.action_values(policy, DISCOUNT)
    # ρ (Q̂ − Q^π) that is the same for all actions of a state changes no variance: V̂ takes it back
    gap = policy / behaviour * (theta - exact)
    gap = gap - (behaviour * gap).sum(axis=1, keepdims=True) * objective.joint
    np.testing.assert_allclose(gap, 0, atol=0.05)
    assert np.abs(exact - exact.mean(axis=1, keepdims=True)).max() > 0.2


def test_returns_to_come_are_weighted_from_the_next_step_on(case):
    data = case.prepared.dataset
    returns = weighted_returns(case, data.rewards)
    last = data.starts[1:] - 1
    np.testing.assert_allclose(returns[last], data.rewards[last])
    before = last[data.lengths > 1] - 1
    expected = data.rewards[before] + DISCOUNT * case.ratio[before + 1] * data.rewards[before + 1]
    np.testing.assert_allclose(returns[before], expected)


def by_hand(case, objective, ridge):
    """The doubly robust estimate with each fold's critic, which is held to the usual one."""
    log, data = case.prepared, case.prepared.dataset
    usual = cross_fitted(case, data.rewards)
    fold = log.horizon_equations.fold_of_episode[data.episode_of_step]
    change, held_out_loss = np.zeros_like(case.probabilities), 0.0
    for f in range(3):
        theta = usual.fits[f].weights.ravel()
        normal, target = objective.system(np.flatnonzero(fold != f))
        if ridge < np.inf:
            theta = theta + np.linalg.solve(normal + ridge * np.eye(len(target)), target - normal @ theta)
        change[fold == f] = objective.features[fold == f] @ (theta.reshape(-1, 3) - usual.fits[f].weights)
        q = objective.policy * (objective.features @ theta.reshape(-1, 3)) - objective.returns
        turned = objective.spread * q - objective.joint * q.sum(axis=1, keepdims=True)
        held_out_loss += np.sum((objective.weight[:, None] * q * turned)[fold == f])
    chosen, values = judged(case, data.rewards, usual.fits)
    values = values + (change * case.probabilities).sum(axis=1)
    errors = log.targets(data.rewards, values) - chosen - change[np.arange(len(data)), data.actions]
    value = values[data.starts[:-1]].mean() + carried_by_decisions(case) @ errors
    return value, values, errors, held_out_loss


def test_the_estimate_is_doubly_robust_with_the_penalty_that_does_best_on_other_episodes(case):
    data, objective = case.prepared.dataset, objective_of(case, case.prepared.dataset.rewards)
    found = [by_hand(case, objective, ridge) for ridge in RIDGES]
    best = int(np.argmin([one[3] for one in found]))
    assert more_robust_doubly_robust(case, data.rewards).value == pytest.approx(found[best][0], rel=1e-9)
    assert len({round(one[0], 6) for one in found}) == len(RIDGES)  # each would be another


def test_what_an_episode_moves_through_the_critic_is_the_derivative_by_its_weight(case, monkeypatch):
    """Beside what it moves through the usual one."""
    monkeypatch.setattr(more_robust, "RIDGES", (1e-2,))
    data, objective, step = case.prepared.dataset, objective_of(case, case.prepared.dataset.rewards), 1e-4
    moved = []
    for e in range(60):
        sides = []
        for sign in (1, -1):
            weight = objective.weight * (1 + sign * step * (data.episode_of_step == e))
            sides.append(by_hand(case, replace(objective, weight=weight), 1e-2)[0])
        moved.append(60 * (sides[0] - sides[1]) / (2 * step))
    _, values, errors, _ = by_hand(case, objective, 1e-2)
    plain = values[data.starts[:-1]] + per_decision(case, errors).numerator
    usual = moved_by(case, data.rewards, cross_fitted(case, data.rewards), carried_by_decisions(case))
    through = more_robust_doubly_robust(case, data.rewards).numerator - plain - usual
    fold = case.prepared.horizon_equations.fold_of_episode
    moved = np.array(moved)
    assert np.abs(moved).max() > 1e-3
    assert through.sum() == pytest.approx(0, abs=1e-9)
    # each fold's critic is known up to a constant in what its episodes add, so that nothing is added on the whole
    for f in range(3):
        np.testing.assert_allclose(
            through[fold == f] - through[fold == f].mean(),
            moved[fold == f] - moved[fold == f].mean(),
            atol=1e-5 * np.abs(moved).max() + 1e-9,
        )
