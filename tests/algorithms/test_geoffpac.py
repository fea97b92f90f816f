"""Geoff-PAC's gradient against the exact one of the counterfactual objective, from Off-PAC's to the policy's own."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from statewise.algorithms import algorithm_of, geoffpac
from statewise.algorithms.geoffpac import GeoffPAC
from statewise.algorithms.offpac import OffPAC
from statewise.data.device import device_log
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP, softmax
from statewise.experiments.stack import stacked
from statewise.learning.fit import prepare
from statewise.ops.networks import Network
from statewise.parts import actor
from statewise.parts.actor import Actor
from statewise.parts.anchor import Anchor
from statewise.parts.chain import chain_of
from statewise.parts.critic import Critic
from statewise.parts.emphasis import Emphasis
from statewise.parts.learned import start
from statewise.parts.ratio import COPTD, Ground
from statewise.parts.ratio_cop_td import moves_of
from statewise.parts.tracked import Tracked

STATES, ACTIONS, DISCOUNT = 3, 2, 0.8
UNTRIMMED = {"emphasis": Emphasis(), "ahead_share": 1.0}
PLAIN = Actor(hidden=(), entropy=0.0, relative=False, anchor=Anchor(weight=0.0))


def problem(termination):
    rng = np.random.default_rng(8)
    transitions = (1 - termination) * rng.dirichlet(np.full(STATES, 0.4), size=(STATES, ACTIONS))
    mdp = TabularMDP(transitions, rng.normal(size=(STATES, ACTIONS)), rng.dirichlet(np.ones(STATES)))
    logits = 0.5 * rng.normal(size=(STATES, ACTIONS))
    behaviour = softmax(logits + 0.4 * rng.normal(size=(STATES, ACTIONS)))
    if termination == 0:  # a log that begins in what the behaviour has settled in
        mdp = replace(mdp, initial=mdp.occupancy(behaviour, 1.0))
    return mdp, behaviour, logits


def renewed(mdp, policy):
    chain = mdp.chain(policy)
    return chain + np.outer(1 - chain.sum(axis=1), mdp.initial)


def counterfactual_states(mdp, behaviour, policy, carry):
    """d_γ̂, and with γ̂ = 1 the policy's own states."""
    if carry == 1:
        return mdp.occupancy(policy, 1.0)
    flow = np.eye(STATES) - carry * renewed(mdp, policy).T
    return np.linalg.solve(flow, (1 - carry) * mdp.occupancy(behaviour, 1.0))


def exact_gradient(mdp, behaviour, logits, carry, step=1e-5):
    """∂J_γ̂/∂θ by differences of J_γ̂ = d_γ̂ · V^π, which is solved for."""

    def objective(theta):
        policy = softmax(theta)
        return counterfactual_states(mdp, behaviour, policy, carry) @ mdp.state_values(policy, DISCOUNT)

    gradient = np.zeros_like(logits)
    for place in np.ndindex(logits.shape):
        change = np.zeros_like(logits)
        change[place] = step
        gradient[place] = (objective(logits + change) - objective(logits - change)) / (2 * step)
    return gradient


def table(values):
    """The network that gives row s of the table for the one-hot state s."""
    return Network((jnp.asarray(values, jnp.float32),), (jnp.zeros(np.shape(values)[1]),))


def of_ratio(c):
    """A ratio that is c, as a state of COP-TD."""
    network = table(np.log(np.expm1(c))[:, None])
    return Tracked(start(network, optax.adam(0.0)), network)


def prepared(data):
    chain = chain_of(data, 1.0)
    return geoffpac.Prepared(device_log(data, DISCOUNT), Ground(jnp.ones(()), None, None, moves_of(chain)), chain.kind)


def estimated(mdp, behaviour, logits, carry, data):
    """ρ ∇log π (m (r + γV(s') − V(s)) + γ̂ c U) of every row, with exact c and V; and its sums by episode."""
    policy = softmax(logits)
    c = counterfactual_states(mdp, behaviour, policy, carry) / mdp.occupancy(behaviour, 1.0)
    values = mdp.state_values(policy, DISCOUNT)
    config = GeoffPAC(counterfactual=carry, **UNTRIMMED)
    arguments = (prepared(data), of_ratio(c), table(values[:, None]), table(logits))
    emphatic, led = (np.asarray(x, np.float64) for x in jax.jit(lambda *x: geoffpac.weights(config, *x))(*arguments))
    states, rows = data.observations.argmax(axis=1), np.arange(len(data))
    last = data.starts[1:] - 1
    following = np.append(values[states[1:]], 0.0)
    following[last] = np.where(data.terminated, 0.0, values[data.final_observations.argmax(axis=1)])
    advantage = data.rewards + DISCOUNT * following - values[states]
    slope = np.eye(ACTIONS)[data.actions] - policy[states]
    rho = policy[states, data.actions] / data.propensities
    each = np.zeros((len(data), STATES, ACTIONS))
    each[rows, states] = (rho * emphatic * (advantage + led))[:, None] * slope
    return each


def check(each, exact, data, blocks, least=0.0):
    """Within four and a half standard errors of the exact gradient, which come from blocks of rows in order."""
    size = len(data) // blocks
    means = each[: size * blocks].reshape(blocks, size, STATES, ACTIONS).mean(axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(blocks)
    assert error.max() < 0.1 * np.abs(exact).max()
    assert (np.abs(means.mean(axis=0) - exact) < 4.5 * error + least).all(), (means.mean(axis=0), exact, error)
    return error


@pytest.mark.parametrize("carry", [0.0, 0.5, 0.8])
def test_mean_over_a_log_of_episodes_is_the_exact_gradient(carry):
    mdp, behaviour, logits = problem(0.3)
    data = collect_tabular(mdp, behaviour, episodes=60_000, horizon=100, seed=0)
    assert data.terminated.all()
    exact = exact_gradient(mdp, behaviour, logits, carry)
    error = check(estimated(mdp, behaviour, logits, carry, data), exact, data, blocks=200)
    for other in (0.0, 0.5, 0.8):
        if other != carry:  # which it can tell apart
            assert (np.abs(exact_gradient(mdp, behaviour, logits, other) - exact) > 10 * error).any()


@pytest.mark.parametrize("carry", [0.0, 0.7])
def test_mean_over_a_log_without_end_is_the_exact_gradient(carry):
    """But for what is cut off at both ends of a trajectory of 400 steps."""
    mdp, behaviour, logits = problem(0.0)
    data = collect_tabular(mdp, behaviour, episodes=400, horizon=400, seed=1)
    exact = exact_gradient(mdp, behaviour, logits, carry)
    check(estimated(mdp, behaviour, logits, carry, data), exact, data, blocks=400, least=0.02 * np.abs(exact).max())


@pytest.mark.parametrize("termination", [0.3, 0.0])
def test_as_gamma_hat_goes_to_one_the_objective_becomes_that_of_the_policys_own_states(termination):
    mdp, behaviour, logits = problem(termination)
    own = exact_gradient(mdp, behaviour, logits, 1.0)
    gaps = [np.abs(exact_gradient(mdp, behaviour, logits, carry) - own).max() for carry in (0.0, 0.9, 0.99, 0.9999)]
    assert gaps[0] > gaps[1] > gaps[2] > gaps[3]
    assert gaps[3] < 1e-3 * np.abs(own).max() < gaps[0]


def test_near_one_the_estimate_is_the_gradient_of_the_policys_own_states():
    """At π = μ, where no weight varies: centred values keep sums over 1/(1 − γ̂) = 200 steps from drowning it."""
    mdp, _, logits = problem(0.3)
    behaviour = softmax(logits)
    data = collect_tabular(mdp, behaviour, episodes=60_000, horizon=100, seed=2)
    own = exact_gradient(mdp, behaviour, logits, 1.0)
    error = check(estimated(mdp, behaviour, logits, 0.995, data), own, data, blocks=100, least=0.01 * np.abs(own).max())
    assert (np.abs(exact_gradient(mdp, behaviour, logits, 0.0) - own) > 10 * error).any()


def test_the_papers_forward_trace_gives_the_same_sum():
    """F⁽²⁾ and M⁽²⁾ with their gradients, row by row, as the paper's algorithm adds them up."""
    mdp, behaviour, logits = problem(0.3)
    data = collect_tabular(mdp, behaviour, episodes=40, horizon=100, seed=3)
    policy, carry, share = softmax(logits), 0.6, 0.7
    c = np.array([0.7, 1.1, 1.3])
    values = mdp.state_values(policy, DISCOUNT)
    states = data.observations.argmax(axis=1)
    config = GeoffPAC(counterfactual=carry, emphasis=Emphasis(share=0.3), ahead_share=share)
    arguments = (prepared(data), of_ratio(c), table(values[:, None]), table(logits))
    emphatic, led = jax.jit(lambda *x: geoffpac.weights(config, *x))(*arguments)
    rho = policy[states, data.actions] / data.propensities
    slope = np.zeros((len(data), STATES, ACTIONS))
    slope[np.arange(len(data)), states] = np.eye(ACTIONS)[data.actions] - policy[states]
    centred = values - np.average(values[states], weights=c[states])
    trace, follow, expected, second = np.zeros((STATES, ACTIONS)), 0.0, [], np.zeros((STATES, ACTIONS))
    first = set(data.starts[:-1].tolist())
    for t in range(len(data) + 1):
        if t > 0:
            new = c[states[t - 1]] * rho[t - 1] * slope[t - 1]
            trace = carry * rho[t - 1] * trace + new
            # the log's last decision leads to the start of its first episode
            here = states[t % len(data)]
            second += carry * centred[here] * ((1 - share) * new + share * trace)
        if t == len(data):
            break
        follow = c[states[t]] + (0.0 if t in first else DISCOUNT * rho[t - 1] * follow)
        expected.append(0.7 * c[states[t]] + 0.3 * follow)
    np.testing.assert_allclose(emphatic, expected, rtol=1e-4)
    got = np.einsum("n,nsa->sa", rho * np.asarray(emphatic * led, np.float64), slope)
    np.testing.assert_allclose(got, second, rtol=1e-3, atol=1e-3 * np.abs(second).max())


@pytest.mark.parametrize("carry", [0.0, 0.6])
def test_an_update_climbs_the_exact_gradient(carry):
    """Adam's first moment after one update from exact c and V, which are kept: a tenth of the gradient, negated."""
    mdp, behaviour, logits = problem(0.3)
    data = collect_tabular(mdp, behaviour, episodes=30_000, horizon=100, seed=4)
    policy = softmax(logits)
    config = GeoffPAC(
        discount=DISCOUNT,
        counterfactual=carry,
        ratio=COPTD(hidden=(), learning_rate=0.0, batch=10, steps=1),
        critic=Critic(hidden=(), learning_rate=0.0, batch=10, steps=1, members=1, terminal_weight=0.0),
        actor=replace(PLAIN, batch=300_000),
        **UNTRIMMED,
    )
    c = counterfactual_states(mdp, behaviour, policy, carry) / mdp.occupancy(behaviour, 1.0)
    value = table(mdp.state_values(policy, DISCOUNT)[:, None])
    learned = start(table(logits), actor.optimiser(config.actor, config.updates))
    state = geoffpac.State(of_ratio(c), Tracked(start(value, optax.adam(0.0)), value), learned, table(logits))
    after, _ = jax.jit(lambda key: geoffpac.update(config, prepared(data), state, key))(jax.random.key(0))
    moment = np.asarray(optax.tree_utils.tree_get(after.actor.optimiser, "mu").weights[0], np.float64)
    exact = exact_gradient(mdp, behaviour, logits, carry)
    # the actor scales the emphasis to mean 1; per row it is 1 + γ + γ² + … as long as the policy's episode goes on
    per_row = np.linalg.solve(
        np.eye(STATES) - DISCOUNT * mdp.chain(policy).T, counterfactual_states(mdp, behaviour, policy, carry)
    ).sum()
    np.testing.assert_allclose(-10 * moment * per_row, exact, atol=0.05 * np.abs(exact).max())


def test_with_no_counterfactual_it_is_ace():
    """Up to rounding: a compiler may add up the same numbers of two programs in another order."""
    mdp, behaviour, _ = problem(0.3)
    data = collect_tabular(mdp, behaviour, episodes=60, horizon=100, seed=0)
    shared = {
        "discount": 0.9,
        "critic": Critic(hidden=(), batch=50, steps=2, warm_steps=2, closed_form=False),
        "actor": Actor(hidden=(), batch=100, clone_steps=2, clone_batch=50, learning_rate=0.1),
        "emphasis": Emphasis(share=0.7, clip=2.0),
    }
    networks = []
    for config in (OffPAC(**shared), GeoffPAC(counterfactual=0.0, **shared)):
        algorithm, (ready, _) = algorithm_of(config), prepare(config, data)

        def both(key, config=config, algorithm=algorithm, ready=ready):
            return algorithm.update(config, ready, algorithm.init(config, ready, key), key)[0]

        networks.append(jax.jit(both)(jax.random.key(1)).actor.network)
    for left, right in zip(*map(jax.tree.leaves, networks), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)


def test_in_a_stack_a_log_that_is_filled_up_has_the_weights_that_it_has_alone():
    mdp, behaviour, logits = problem(0.3)
    shorter, longer = (collect_tabular(mdp, behaviour, episodes=20, horizon=horizon, seed=3) for horizon in (2, 100))
    ready = [prepared(data) for data in (shorter, longer)]
    assert len(shorter) < len(longer) - 10
    c, value, policy = of_ratio(np.array([0.7, 1.1, 1.3])), table([[1.0], [-2.0], [0.5]]), table(logits)
    config = GeoffPAC(counterfactual=0.8, **UNTRIMMED)
    weights = jax.jit(lambda *of: geoffpac.weights(config, *of))
    alone = weights(ready[0], c, value, policy)
    filled = jax.tree.map(lambda leaf: leaf[0], stacked(ready))
    together = weights(filled, c, value, policy)
    for one, other in zip(alone, together, strict=True):
        assert len(other) == len(longer)
        np.testing.assert_allclose(other[: len(shorter)], one, rtol=1e-4, atol=1e-5)


def test_what_has_no_finite_sum_is_refused():
    with pytest.raises(ValueError, match=r"counterfactual: expected a number from 0 to below 1, got 1\.0"):
        GeoffPAC(counterfactual=1.0)
