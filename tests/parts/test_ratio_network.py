"""The kernel losses against loops over pairs, the sampler against its law, and the fitted network against exact w."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from logs import make
from statewise.data.augment import smooth
from statewise.data.device import device_log
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ops.kernels import rbf
from statewise.ops.networks import Network, initial_network
from statewise.parts import ratio_network
from statewise.parts.policy import action_ratio
from statewise.parts.ratio_network import (
    Pairs,
    RatioNetwork,
    average_loss,
    discounted_loss,
    draw,
    pairs_of,
    state_ratio,
)

STATES, DISCOUNT, BANDWIDTH = 6, 0.9, 0.7
KERNEL = np.exp(-(1 - np.eye(STATES)) / BANDWIDTH**2)  # of one-hot states, √2 apart


def linear(table):
    """The network that gives row s of the table for the one-hot state s."""
    table = np.asarray(table)
    return Network((jnp.asarray(table, jnp.float32),), (jnp.zeros(table.shape[1]),))


def network_of_ratio(ratio):
    """The network with softplus(network(s)) = w(s) in one-hot states."""
    return linear(np.log(np.expm1(ratio))[:, None])


def problem(seed, termination=0.0):
    """Transitions to a few states each, so that policies differ in where they go."""
    rng = np.random.default_rng(seed)
    transitions = (1 - termination) * rng.dirichlet(np.full(STATES, 0.3), size=(STATES, 2))
    mdp = TabularMDP(transitions, rng.random((STATES, 2)), rng.dirichlet(np.ones(STATES)))
    return mdp, rng.dirichlet([3.0, 3.0], size=STATES), rng.dirichlet([1.0, 1.0], size=STATES)


# The losses


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    size, features = 12, 3
    return Pairs(
        points=jnp.asarray(rng.normal(size=(2, 2, size, features)), jnp.float32),
        ratio=jnp.asarray(rng.gamma(1.0, size=(2, size)), jnp.float32),
        begins=jnp.asarray(rng.random((2, size)) < 0.3, jnp.float32),
        weight=jnp.asarray(rng.random((2, size)) < 0.8, jnp.float32),
        kernel=jnp.asarray(rng.random((size, size)), jnp.float32),
        level=jnp.asarray(1.7),
    )


@pytest.mark.parametrize("discounted", [False, True])
def test_loss_is_the_double_loop_over_pairs(pairs, discounted):
    network = initial_network(jax.random.key(3), (3, 8, 1))
    leaves = (np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(pairs))
    (state, following), ratio, begins, weight, kernel, level = leaves
    (w1, w2), (b1, b2) = ([np.asarray(x, np.float64) for x in side] for side in (network.weights, network.biases))

    def w(x):
        return math.log1p(math.exp(float(np.maximum(x @ w1 + b1, 0) @ w2[:, 0] + b2[0])))

    def delta(side, i):
        if weight[side, i] == 0:
            return 0.0
        if discounted and begins[side, i]:
            return 1 - w(following[side, i])
        error = w(state[side, i]) * ratio[side, i] - w(following[side, i])
        used = [w(state[side, j]) for j in range(12) if weight[side, j]]
        return error if discounted else error / (sum(used) / 12)

    expected = sum(delta(0, i) * delta(1, j) * kernel[i, j] for i in range(12) for j in range(12)) / 144 / level
    loss = discounted_loss if discounted else average_loss
    assert float(loss(network, pairs)) == pytest.approx(expected, rel=1e-4)


def population(mdp, behaviour, policy, discounted):
    """Every (s,a,s') once in each batch, its probability as weight: the loss of the whole population.

    Discounted, rows have the weight γᵗ⁺¹ and an episode's end none; else an end leads to every initial state in turn.
    """
    visits = mdp.visits(behaviour, DISCOUNT) if discounted else mdp.occupancy(behaviour, 1.0)
    total = 1 + DISCOUNT * visits.sum() if discounted else 1.0
    entries = []
    for s, a, t in np.ndindex(STATES, 2, STATES):
        onward = mdp.transitions[s, a, t]
        chance = DISCOUNT * onward if discounted else onward + mdp.termination[s, a] * mdp.initial[t]
        entries.append((s, t, policy[s, a] / behaviour[s, a], 0, visits[s] * behaviour[s, a] * chance / total))
    if discounted:
        entries += [(0, t, 0.0, 1, mdp.initial[t] / total) for t in range(STATES)]
    state, following, ratio, begins, chance = (np.array(column) for column in zip(*entries, strict=True))
    kernel = KERNEL[following][:, following]

    def twice(values):
        return jnp.asarray(np.stack([values, values]), jnp.float32)

    eye, weight = np.eye(STATES), twice(chance * len(chance))
    points = jnp.stack([twice(eye[state]), twice(eye[following])])
    return Pairs(points, twice(ratio), twice(begins), weight, jnp.asarray(kernel, jnp.float32), jnp.ones(()))


@pytest.mark.parametrize(("seed", "termination"), [(0, 0.0), (1, 0.0), (2, 0.2)])
@pytest.mark.parametrize("discounted", [False, True])
def test_exact_ratio_has_no_loss_and_any_other_what_matrices_say(seed, termination, discounted):
    """‖m‖² with m the flow of π into each state from w·d_μ, less w·d_μ there."""
    mdp, behaviour, policy = problem(seed, termination)
    pairs = population(mdp, behaviour, policy, discounted)
    loss = discounted_loss if discounted else average_loss
    other = np.random.default_rng(seed).gamma(2.0, size=STATES)
    if discounted:
        exact, visits = mdp.visit_ratio(policy, behaviour, DISCOUNT), mdp.visits(behaviour, DISCOUNT)
        flow = mdp.initial + DISCOUNT * mdp.chain(policy).T @ (visits * other) - visits * other
        flow = flow / (1 + DISCOUNT * visits.sum())
    else:
        exact, visits = mdp.ratio(policy, behaviour, 1.0), mdp.occupancy(behaviour, 1.0)
        renewal = mdp.chain(policy) + np.outer(1 - mdp.chain(policy).sum(axis=1), mdp.initial)
        flow = (renewal.T @ (visits * other) - visits * other) / (visits @ other)
    expected = flow @ KERNEL @ flow
    assert expected > 1e-3
    assert float(loss(network_of_ratio(other), pairs)) == pytest.approx(expected, rel=1e-4)
    assert abs(float(loss(network_of_ratio(exact), pairs))) < 1e-9 * expected


# The sampler


def draw_pairs(settings, ratio, log, chain, bandwidth, steps, key):
    return pairs_of(ratio, log, chain, bandwidth, draw(settings, log, chain, steps, key))


@pytest.fixture(scope="module")
def drawn():
    """Many pairs of a ragged log: ends that are terminal or cut off, with the last state logged or not."""
    data = make([1, 5, 2, 7, 3, 4], final=[True, True, False, True, True, False])
    policy = initial_network(jax.random.key(1), (2, 4, 3))
    log, settings, ratio = device_log(data, DISCOUNT), RatioNetwork(batch=50), partial(action_ratio, policy)
    draw = jax.jit(lambda key: draw_pairs(settings, ratio, log, "discounted", jnp.asarray(1.0), 800, key))
    return data, policy, draw(jax.random.key(2))


def test_steps_are_drawn_in_proportion_to_the_discount(drawn):
    """t = −1, 0, 1, … of each episode ∝ γᵗ⁺¹."""
    data, _, pairs = drawn
    begins = np.asarray(pairs.begins).ravel() > 0
    rows = _row(data, np.asarray(pairs.state).reshape(-1, 2))
    time = np.where(begins, -1, data.time[rows])
    expected = np.array([(data.lengths > t).sum() * DISCOUNT ** (t + 1) for t in range(-1, 7)])
    expected = expected / expected.sum()
    shares = np.bincount(time + 1, minlength=8) / len(time)
    assert (np.abs(shares - expected) < 4.5 * np.sqrt(expected * (1 - expected) / len(time))).all()
    # at t = −1 each episode's first state alike
    starts = _row(data, np.asarray(pairs.following).reshape(-1, 2)[begins])
    counts = np.array([(starts == start).sum() for start in data.starts[:-1]])
    assert counts.sum() == begins.sum()
    assert (np.abs(counts / begins.sum() - 1 / 6) < 4.5 * np.sqrt(5 / 36 / begins.sum())).all()


def test_pairs_hold_what_the_log_holds(drawn):
    """Each later entry is one row: its next state, its ρ, and no weight where it leads nowhere."""
    data, policy, pairs = drawn
    begins = np.asarray(pairs.begins).ravel() > 0
    state, following = (np.asarray(x).reshape(-1, 2) for x in (pairs.state, pairs.following))
    rows = _row(data, state)
    last = np.isin(np.arange(len(data)), data.starts[1:] - 1)
    episode = data.episode_of_step
    leads = ~last | (data.has_final_observation & data.truncated)[episode]
    expected = np.where(begins, 1.0, leads[rows])
    np.testing.assert_array_equal(np.asarray(pairs.weight).ravel(), expected)
    assert 0.02 < (expected == 0).mean() < 0.5
    after = np.where(last[:, None], data.final_observations[episode], np.roll(data.observations, -1, axis=0))
    checked = ~begins & (expected > 0)
    np.testing.assert_allclose(following[checked], after[rows[checked]], rtol=1e-6)
    logits = np.asarray(policy(jnp.asarray(state)), np.float64)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    ratio = chances[np.arange(len(rows)), data.actions[rows]] / data.propensities[rows]
    np.testing.assert_allclose(np.asarray(pairs.ratio).ravel(), ratio, rtol=1e-4)


def test_kernel_is_that_between_the_states_arrived_at(drawn):
    *_, pairs = drawn
    points = np.asarray(pairs.following, np.float64)[5]
    squared = ((points[0][:, None] - points[1][None]) ** 2).sum(axis=2)
    expected = np.exp(-squared / 2)
    np.testing.assert_allclose(pairs.kernel[5], expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(pairs.level[5], expected.mean(), rtol=1e-4)


def _row(data, states):
    """The rows of the log with those states; `make` counts every row and final state in the first column."""
    number = {round(float(x)): i for i, x in enumerate(data.observations[:, 0])}
    return np.array([number[round(float(x))] for x in states[:, 0]])


def test_two_batches_estimate_the_loss_without_bias_and_one_batch_twice_does_not():
    """Against the loss of the log itself, over all its pairs."""
    mdp, behaviour, policy = problem(3)
    data = collect_tabular(mdp, behaviour, episodes=20, horizon=15, seed=0)
    log, size, steps = device_log(data, DISCOUNT), 20, 4000
    rho = partial(action_ratio, linear(np.log(policy)))
    network = network_of_ratio(np.random.default_rng(1).gamma(2.0, size=STATES))

    # the loss of the log: every row and every start, weighted by how often it is drawn
    w = np.asarray(state_ratio(network, jnp.eye(STATES)), np.float64)
    state = data.observations.argmax(axis=1)
    last = np.isin(np.arange(len(data)), data.starts[1:] - 1)
    following = np.where(last, data.final_observations.argmax(axis=1)[data.episode_of_step], np.roll(state, -1))
    ratio = policy[state, data.actions] / behaviour[state, data.actions]
    embedded = np.zeros(STATES)
    np.add.at(embedded, following, DISCOUNT ** (data.time + 1) * (w[state] * ratio - w[following]))
    np.add.at(embedded, state[data.starts[:-1]], 1 - w[state[data.starts[:-1]]])
    embedded /= 20 + np.sum(DISCOUNT ** (data.time + 1))
    expected = embedded @ KERNEL @ embedded

    @jax.jit
    def losses(key):
        pairs = draw_pairs(RatioNetwork(batch=size), rho, log, "discounted", jnp.asarray(BANDWIDTH), steps, key)

        def both(pairs):
            one, _ = pairs.following
            plain = eqx.tree_at(lambda p: p.level, pairs, jnp.ones(()))
            twice = jax.tree.map(lambda leaf: jnp.stack([leaf[0], leaf[0]]) if leaf.ndim else leaf, plain)
            twice = eqx.tree_at(lambda p: p.kernel, twice, rbf(one, one, BANDWIDTH))
            return discounted_loss(network, plain), discounted_loss(network, twice)

        return jax.vmap(both)(pairs)

    two, one = (np.asarray(loss, np.float64) for loss in losses(jax.random.key(0)))
    error = two.std() / np.sqrt(steps)
    assert error < 0.05 * expected
    assert abs(two.mean() - expected) < 4 * error
    assert one.mean() - expected > 20 * one.std() / np.sqrt(steps)


def test_ratio_of_the_absorbing_state_matters_to_the_loss():
    mdp, behaviour, policy = problem(17)
    behaviour[0], behaviour[3] = [1, 0], [0, 1]
    data = smooth(collect_tabular(mdp, behaviour, episodes=20, horizon=15, seed=0), 0.2).dataset
    log, rho = device_log(data, DISCOUNT), partial(action_ratio, linear(np.vstack([np.log(policy), [0, 0]])))

    @jax.jit
    def loss(logit):
        pairs = draw_pairs(RatioNetwork(batch=100), rho, log, "discounted", jnp.asarray(1.0), 20, jax.random.key(0))
        network = Network((jnp.concatenate([jnp.zeros(STATES), logit[None]])[:, None],), (jnp.ones(1),))
        return jnp.mean(jax.vmap(partial(discounted_loss, network))(pairs))

    assert abs(float(loss(jnp.asarray(3.0))) / float(loss(jnp.asarray(0.0))) - 1) > 0.1


# The fit


@pytest.mark.parametrize(("chain", "termination", "stretches"), [("discounted", 0.0, 20), ("renewal", 0.15, 10)])
def test_fitted_network_comes_within_a_tenth_of_the_exact_ratio(chain, termination, stretches):
    mdp, behaviour, policy = problem(17, termination)
    discount = DISCOUNT if chain == "discounted" else 1.0
    data = collect_tabular(mdp, behaviour, episodes=2000, horizon=60, seed=0)
    log, settings = device_log(data, discount), RatioNetwork(hidden=(16,), learning_rate=2e-3, batch=200)
    rho = partial(action_ratio, linear(np.log(policy)))

    @jax.jit
    def more(learned, key):
        learned = ratio_network.fit(settings, learned, rho, log, chain, jnp.asarray(BANDWIDTH), 100, key)
        return learned, state_ratio(learned.network, jnp.eye(STATES))

    learned, ratios = ratio_network.initial(settings, STATES, jax.random.key(0)), []
    for i in range(stretches):
        learned, ratio = more(learned, jax.random.fold_in(jax.random.key(1), i))
        ratios.append(np.asarray(ratio, np.float64))
    got = np.mean(ratios[-5:], axis=0)
    visits, exact = mdp.occupancy(behaviour, discount), mdp.ratio(policy, behaviour, discount)
    if chain != "discounted":  # known up to its scale
        got = got / (visits @ got)
    assert visits @ np.abs(1 - exact) > 0.3
    assert visits @ np.abs(got - exact) < 0.1


@pytest.mark.parametrize("chain", ["continuing", "discounted", "renewal"])
def test_pairs_computed_step_by_step_are_those_computed_ahead(chain, monkeypatch):
    data = make([1, 5, 2, 7, 3, 4], final=[True, True, False, True, True, False])
    log, rho = device_log(data, DISCOUNT), partial(action_ratio, initial_network(jax.random.key(1), (2, 4, 3)))
    settings = RatioNetwork(hidden=(4,), batch=20)
    learned = ratio_network.initial(settings, 2, jax.random.key(0))
    results = []
    for ahead in (True, False):
        monkeypatch.setattr(ratio_network, "gathers_ahead", lambda ahead=ahead: ahead)
        results.append(
            ratio_network.fit(settings, learned, rho, log, chain, jnp.asarray(1.0), 7, jax.random.key(2)).network
        )
    for here, there in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("ahead", [True, False])
def test_many_steps_are_all_made_and_need_no_more_memory_than_some(ahead, monkeypatch):
    """Kernels are computed in chunks where they are computed ahead; those of 5,000 steps at once would take .8 GB."""
    monkeypatch.setattr(ratio_network, "gathers_ahead", lambda: ahead)
    data = make([3, 5, 4, 6])
    log, rho = device_log(data, DISCOUNT), partial(action_ratio, initial_network(jax.random.key(1), (2, 4, 3)))

    def fit(settings, steps):
        learned = ratio_network.initial(settings, 2, jax.random.key(0))
        bandwidth = jnp.asarray(1.0)
        return lambda key: ratio_network.fit(settings, learned, rho, log, "discounted", bandwidth, steps, key)

    usual = RatioNetwork(hidden=(4,))
    compiled = jax.jit(fit(usual, 5000)).lower(jax.random.key(2)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 150e6
    learned = jax.jit(fit(RatioNetwork(hidden=(4,), batch=5), 2 * ratio_network.CHUNK + 7))(jax.random.key(2))
    assert int(optax.tree_utils.tree_get(learned.optimiser, "count")) == 2 * ratio_network.CHUNK + 7
