"""COP-TD's updates against exact ratios of finite problems, its loss against a loop, its draws against their law."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statewise as sw
from logs import make
from statewise.data.device import device_log
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ops.networks import Network, initial_network
from statewise.parts import ratio_cop_td
from statewise.parts.chain import chain_of
from statewise.parts.policy import action_ratio
from statewise.parts.ratio_cop_td import COPTD, Arrivals, draw, loss, moves_of, targets
from statewise.parts.ratio_network import state_ratio

STATES = 6
CHAINS = {"discounted": (0.9, 0.1), "renewal": (1.0, 0.15), "continuing": (1.0, 0.0)}  # discount, termination


def problem(seed, termination=0.0):
    """Transitions to a few states each, so that policies differ in where they go."""
    rng = np.random.default_rng(seed)
    transitions = (1 - termination) * rng.dirichlet(np.full(STATES, 0.3), size=(STATES, 2))
    mdp = TabularMDP(transitions, rng.random((STATES, 2)), rng.dirichlet(np.ones(STATES)))
    return mdp, rng.dirichlet([3.0, 3.0], size=STATES), rng.dirichlet([1.0, 1.0], size=STATES)


def renewed(mdp, policy, discount):
    """The chain that begins anew where an episode ends or is discounted away."""
    onward = discount * mdp.chain(policy)
    return onward + np.outer(1 - onward.sum(axis=1), mdp.initial)


def counterfactual_ratio(mdp, behaviour, policy, discount, carry):
    """((1 − γ̂) Σ γ̂ᵏ (P_πᵀ)ᵏ d_μ) / d_μ, by one matrix."""
    visits = mdp.occupancy(behaviour, discount)
    flow = np.eye(STATES) - carry * renewed(mdp, policy, discount).T
    return np.linalg.solve(flow, (1 - carry) * visits) / visits


def population(mdp, behaviour, policy, discount):
    """Every (s, a, s') on the chain once, with its probability as weight."""
    visits = mdp.occupancy(behaviour, discount)
    state, action, arrived = (axis.ravel() for axis in np.indices((STATES, 2, STATES)))
    onward = discount * mdp.transitions[state, action]
    chance = onward[np.arange(len(state)), arrived] + (1 - onward.sum(axis=1)) * mdp.initial[arrived]
    eye = jnp.eye(STATES)
    return Arrivals(
        state=eye[state],
        arrived=eye[arrived],
        ratio=jnp.asarray((policy / behaviour)[state, action]),
        weight=jnp.asarray(visits[state] * behaviour[state, action] * chance),
    )


@partial(jax.jit, static_argnums=0)
def expected_update(carry, w, arrivals):
    """Each state's mean target, which minimises the loss where every state has a number of its own; and its slope."""
    table = jnp.log(jnp.expm1(w))[:, None]
    target = targets(carry, Network((table,), (jnp.zeros(1),)), arrivals)
    mean = arrivals.arrived.T @ (arrivals.weight * target) / (arrivals.arrived.T @ arrivals.weight)
    fitted = Network((jnp.log(jnp.expm1(mean))[:, None],), (jnp.zeros(1),))
    return mean, jnp.abs(jax.grad(loss)(fitted, target, arrivals).weights[0]).max()


@pytest.mark.parametrize("carry", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("chain", CHAINS)
def test_updates_in_expectation_lead_to_the_exact_ratio(chain, carry):
    discount, termination = CHAINS[chain]
    mdp, behaviour, policy = problem(17, termination)
    exact = mdp.ratio(policy, behaviour, discount)
    if carry < 1:
        exact = counterfactual_ratio(mdp, behaviour, policy, discount, carry)
    with jax.enable_x64(True):
        arrivals = population(mdp, behaviour, policy, discount)
        np.testing.assert_allclose(expected_update(carry, jnp.asarray(exact), arrivals)[0], exact, rtol=1e-9)
        w = jnp.asarray(np.random.default_rng(0).gamma(2.0, size=STATES))
        for _ in range(300):
            w, slope = expected_update(carry, w, arrivals)
            assert slope < 1e-12
        w = np.asarray(w)
    np.testing.assert_allclose(w, exact, rtol=1e-6)
    assert mdp.occupancy(behaviour, discount) @ w == pytest.approx(1)
    assert (np.ptp(exact) > 0.3) == (carry > 0)


def test_less_carried_is_nearer_to_one():
    mdp, behaviour, policy = problem(17)
    far, near = (counterfactual_ratio(mdp, behaviour, policy, 0.9, carry) for carry in (0.999999, 0.5))
    np.testing.assert_allclose(far, mdp.ratio(policy, behaviour, 0.9), rtol=1e-4)
    visits = mdp.occupancy(behaviour, 0.9)
    assert visits @ np.abs(near - 1) < 0.7 * visits @ np.abs(far - 1)


def test_loss_is_a_loop_over_arrivals():
    rng, size = np.random.default_rng(0), 10
    state, arrived = rng.normal(size=(2, size, 3))
    rho, weight = rng.gamma(1.0, size=size), rng.integers(0, 2, size=size).astype(float)
    network, slow = (initial_network(jax.random.key(seed), (3, 4, 1)) for seed in (0, 1))

    def w(one, x):
        return float(state_ratio(one, jnp.asarray(x, jnp.float32)[None])[0])

    carry, used = 0.8, np.flatnonzero(weight)
    mean = sum(rho[i] * w(slow, state[i]) for i in used) / len(used)
    expected = 0.0
    for i in used:
        expected += (carry * rho[i] * w(slow, state[i]) / mean + 0.2 - w(network, arrived[i])) ** 2 / len(used)
    arrivals = Arrivals(*(jnp.asarray(x, jnp.float32) for x in (state, arrived, rho, weight)))
    assert float(loss(network, targets(carry, slow, arrivals), arrivals)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_arrivals_are_those_of_the_logs_chain(discount):
    """Rows ∝ γᵗ; the next state with the chance γ, a start of any episode otherwise and wherever one ends."""
    data = replace(make([1, 5, 2, 7, 3, 4]), terminated=np.ones(6, bool))
    log, chain = device_log(data, discount), chain_of(data, discount)
    count = 40_000
    drawn = draw(lambda rows: jnp.ones(count), log, moves_of(chain), chain.kind, count, jax.random.key(0))
    state, arrived = (np.round(np.asarray(x)[:, 0]).astype(int) for x in (drawn.state, drawn.arrived))
    row_of = {round(float(x)): i for i, x in enumerate(data.observations[:, 0])}
    rows = np.array([row_of[x] for x in state])
    shares = np.bincount(rows, minlength=len(data)) / count
    expected = discount**data.time / np.sum(discount**data.time)
    assert (np.abs(shares - expected) < 4.5 * np.sqrt(expected / count)).all()
    last = np.isin(np.arange(len(data)), data.starts[1:] - 1)[rows]
    went_on = arrived == state + 1
    assert not went_on[last].any()
    spread = np.sqrt(discount * (1 - discount) / (~last).sum())
    assert abs(went_on[~last].mean() - discount) <= 4.5 * spread
    starts = [round(float(x)) for x in data.observations[data.starts[:-1], 0]]
    counts = np.array([(arrived[~went_on] == start).sum() for start in starts])
    assert counts.sum() == (~went_on).sum()
    assert (np.abs(counts / counts.sum() - 1 / 6) < 4.5 * np.sqrt(5 / 36 / counts.sum())).all()


def test_rows_whose_next_state_is_unknown_do_not_count():
    data = replace(make([3, 4, 5], final=[True, False, True]), terminated=np.zeros(3, bool))
    chain = chain_of(data, 1.0)
    assert chain.kind == "continuing"
    recorded = np.asarray(moves_of(chain).recorded)
    assert np.flatnonzero(recorded == 0).tolist() == [6]


@pytest.mark.parametrize("chain", ["discounted", "renewal"])
def test_fitted_to_a_log_it_comes_within_a_tenth_of_the_exact_ratio(chain):
    discount, termination = CHAINS[chain]
    mdp, behaviour, policy = problem(17, termination)
    data = collect_tabular(mdp, behaviour, episodes=2000, horizon=60, seed=0)
    log, moves = device_log(data, discount), moves_of(chain_of(data, discount))
    rho = partial(action_ratio, Network((jnp.asarray(np.log(policy), jnp.float32),), (jnp.zeros(2),)))
    settings = COPTD(hidden=(), learning_rate=1e-2, batch=500, target_rate=0.05)

    @jax.jit
    def learned(key):
        tracked = ratio_cop_td.initial(settings, STATES, key)
        before = state_ratio(tracked.target, jnp.eye(STATES))
        tracked = ratio_cop_td.fit(settings, tracked, rho, log, moves, chain, 600, key)
        return before, state_ratio(tracked.target, jnp.eye(STATES))

    before, w = (np.asarray(x, np.float64) for x in learned(jax.random.key(0)))
    exact, visits = mdp.ratio(policy, behaviour, discount), mdp.occupancy(behaviour, discount)
    np.testing.assert_allclose(before, 1, atol=0.02)
    assert visits @ np.abs(1 - exact) > 0.3
    assert visits @ np.abs(w - exact) < 0.1


def test_fit_ratio_by_cop_td_agrees_with_the_closed_form():
    mdp, behaviour, policy = problem(17, 0.15)
    data = collect_tabular(mdp, behaviour, episodes=1000, horizon=200, seed=0)
    acting = lambda observations: policy[np.asarray(observations).argmax(axis=1)]  # noqa: E731
    solved = sw.fit_ratio(acting, data, discount=1.0)
    learned = sw.fit_ratio(acting, data, discount=1.0, method="cop-td", steps=1500)
    assert np.mean(learned.of_rows) == pytest.approx(1)
    assert learned.diagnostics.mean == pytest.approx(1, abs=0.05)  # before it is scaled
    assert np.mean(np.abs(learned.of_rows - solved.of_rows)) < 0.1
    exact = mdp.ratio(policy, behaviour, 1.0)[data.observations.argmax(axis=1)]
    assert np.mean(np.abs(exact - 1)) > 0.3
    for found in (solved, learned):
        assert np.mean(np.abs(found.of_rows - exact / exact.mean())) < 0.1
    np.testing.assert_allclose(learned(data.observations), learned.of_rows, rtol=1e-4)
    nearer = sw.fit_ratio(acting, data, discount=1.0, method=COPTD(carry=0.3), steps=1500)
    assert np.mean(np.abs(nearer.of_rows - 1)) < 0.6 * np.mean(np.abs(learned.of_rows - 1))


def test_what_is_carried_is_a_share():
    with pytest.raises(ValueError, match=r"carry: expected 0 to 1, got 1\.2"):
        sw.fit_ratio(lambda observations: np.full((len(observations), 2), 0.5), make([3, 3]), method=COPTD(carry=1.2))
