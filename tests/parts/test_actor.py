"""The actor's gradient against exact ones, its entropy and anchor against loops and differences, and its warm start."""

import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from logs import make
from statewise.data.device import Rows, device_log
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP, softmax
from statewise.ops.networks import Network, initial_network
from statewise.parts import actor, anchor, critic
from statewise.parts.actor import Actor
from statewise.parts.anchor import Anchor
from statewise.parts.critic import Batch, Critic
from statewise.parts.known_values import Gains
from statewise.parts.learned import start
from statewise.parts.policy import action_ratio, chance_of_taken, entropy, log_policy

STATES, ACTIONS, UPDATES = 5, 3, 10
PLAIN = Actor(entropy=0.0, relative=False, anchor=Anchor(weight=0.0))


def linear(table):
    """The network that gives row s of the table for the one-hot state s."""
    table = jnp.asarray(table)
    return Network((table,), (jnp.zeros(table.shape[1]),))


def ascended(settings, network, rows, weight, advantage, cloned=None, key=0):
    """The gradient that one step went along (downhill, as the optimiser saw it), the new network and the report."""

    @jax.jit
    def step(weight, advantage):
        learned = start(network, actor.optimiser(settings, UPDATES))
        clone = network if cloned is None else cloned
        return actor.ascend(settings, learned, clone, rows, weight, advantage, updates=UPDATES, key=jax.random.key(key))

    learned, report = step(weight, advantage)
    mean = optax.tree_utils.tree_get(learned.optimiser, "mu")  # Adam's first moment: a tenth of the only gradient
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64) / 0.1, mean), learned.network, report


# Exact problems: every (s,a,s') once, its probability as weight


def enumerated(mdp, behaviour, legal=None):
    entries = []
    for s, a, t in np.ndindex(STATES, ACTIONS, STATES + 1):
        ends = t == STATES
        chance = mdp.termination[s, a] if ends else mdp.transitions[s, a, t]
        entries.append((s, a, s if ends else t, 1.0 - ends, behaviour[s, a] * chance))
    state, action, following, onward, chance = (np.array(column) for column in zip(*entries, strict=True))
    eye, ones = np.eye(STATES), jnp.ones(len(entries))
    rows = Rows(
        index=jnp.arange(len(entries)),
        state=jnp.asarray(eye[state]),
        next_state=jnp.asarray(eye[following]),
        action=jnp.asarray(action),
        reward=jnp.asarray(mdp.rewards[state, action]),
        propensity=jnp.asarray(behaviour[state, action]),
        onward=jnp.asarray(onward),
        usable=ones,
        live=ones,
        last=jnp.asarray(1 - onward),
        terminated=jnp.asarray(1 - onward),
        legal=None if legal is None else jnp.asarray(legal[state]),
    )
    return rows, state, chance


@pytest.fixture
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("baseline", [True, False])
@pytest.mark.parametrize(("discount", "termination"), [(0.9, 0.0), (1.0, 0.15)])
def test_gradient_is_the_policy_gradient(double_precision, discount, termination, baseline):
    """With exact w and V̂, E[w ∇ρ Q] over the behaviour's rows is ∇R(π) per decision: ∂(p₀·V)/∂θ / Σv_π."""
    mdp = TabularMDP.random(STATES, ACTIONS, seed=4, termination=termination)
    rng = np.random.default_rng(2)
    behaviour, logits = rng.dirichlet(np.ones(ACTIONS), size=STATES), rng.normal(size=(STATES, ACTIONS))
    policy = softmax(logits)
    rows, state, chance = enumerated(mdp, behaviour)
    visits = mdp.occupancy(behaviour, discount)
    ratio = mdp.ratio(policy, behaviour, discount)
    log = device_log(make([2, 2]), discount)
    exact = jnp.asarray(discount), jnp.asarray(1.0), jnp.array([-jnp.inf, jnp.inf])
    log = eqx.tree_at(lambda log: (log.value_discount, log.scale, log.value_bounds), log, exact)
    values = linear(mdp.state_values(policy, discount)[:, None])
    batch = Batch(rows, action_ratio(linear(logits), rows), jnp.asarray(chance))
    advantage = critic.advantages(Critic(), values, batch, log, baseline)

    expected = mdp.policy_gradient(logits, discount) / mdp.visits(policy, discount).sum()
    weight = jnp.asarray(chance * (visits * ratio)[state])
    gradient, *_ = ascended(PLAIN, linear(logits), rows, weight, advantage)
    np.testing.assert_allclose(-gradient.weights[0], expected, rtol=1e-9, atol=1e-12)

    # without w it is another one
    gradient, *_ = ascended(PLAIN, linear(logits), rows, jnp.asarray(chance * visits[state]), advantage)
    assert np.abs(-gradient.weights[0] - expected).max() > 0.05 * np.abs(expected).max()


# Terms and settings, on rows drawn at random


@pytest.fixture(scope="module")
def case():
    """Rows of a log, a policy, another that it was cloned from, w and advantages."""
    data = make([6, 3, 9])
    rows = device_log(data, 1.0).rows.take(jnp.arange(len(data)))
    rows = eqx.tree_at(lambda rows: rows.state, rows, rows.state / jnp.asarray([[10.0, 1.0]]))
    rng = np.random.default_rng(3)
    weight, advantage = (jnp.asarray(x, jnp.float32) for x in (rng.gamma(1.0, size=18), rng.normal(size=18)))
    policy, cloned = (initial_network(jax.random.key(i), (2, 3), last_scale=3.0) for i in (0, 1))
    return rows, policy, cloned, weight, advantage


def chances_of(network, states):
    """π(·|s) of a network with one layer, in double precision, row by row."""
    weight, bias = np.asarray(network.weights[0], np.float64), np.asarray(network.biases[0], np.float64)
    chances = []
    for state in np.asarray(states, np.float64):
        exps = [math.exp(state @ weight[:, a] + bias[a]) for a in range(weight.shape[1])]
        chances.append([x / sum(exps) for x in exps])
    return np.array(chances)


def differences(function, network):
    """∂ function / ∂ weights and biases, by central differences in double precision."""
    leaves, treedef = jax.tree.flatten(network)
    leaves = [np.asarray(leaf, np.float64) for leaf in leaves]
    slopes = []
    for i, leaf in enumerate(leaves):
        slope = np.zeros(leaf.shape)
        for place in np.ndindex(leaf.shape):
            ends = []
            for shift in (1e-5, -1e-5):
                moved = [x.copy() for x in leaves]
                moved[i][place] += shift
                ends.append(function(jax.tree.unflatten(treedef, moved)))
            slope[place] = (ends[0] - ends[1]) / 2e-5
        slopes.append(slope)
    return slopes


def assert_gradient(gradient, expected):
    for got, slope in zip(jax.tree.leaves(gradient), expected, strict=True):
        np.testing.assert_allclose(got, slope, rtol=2e-4, atol=2e-5)


def gain_of(rows, weight, advantage, clip=None):
    """Σ w ρ A / Σ w; ρ above the clip is the clip."""
    weight, advantage, propensity = (np.asarray(x, np.float64) for x in (weight, advantage, rows.propensity))

    def gain(network):
        chances = chances_of(network, rows.state)
        ratio = [chances[i, a] / propensity[i] for i, a in enumerate(np.asarray(rows.action))]
        ratio = [r if clip is None else min(r, clip) for r in ratio]
        return sum(w * r * a for w, r, a in zip(weight, ratio, advantage, strict=True)) / weight.sum()

    return gain


@pytest.mark.parametrize("clip", [None, 1.5])
def test_gain_is_climbed(case, clip):
    rows, policy, _, weight, advantage = case
    settings = replace(PLAIN, clip=clip)
    gradient, moved, report = ascended(settings, policy, rows, weight, advantage)
    gain = gain_of(rows, weight, advantage, clip)
    expected = differences(gain, policy)
    assert_gradient(gradient, [-slope for slope in expected])
    norm = math.sqrt(sum((slope**2).sum() for slope in expected))
    assert float(report.gradient_norm) == pytest.approx(norm, rel=1e-4)
    assert gain(moved) > gain(policy)


def test_a_policy_never_learns_from_columns_that_it_may_not_see(case):
    """Its gradient is that of the same policy on observations without them."""
    rows, policy, _, weight, advantage = case
    settings = replace(PLAIN, features=(0,))
    blind = actor.seeing(settings, policy)
    hidden = np.asarray(blind.weights[0])[1:]
    assert (hidden == 0).all()
    assert hidden.size > 0
    gradient, moved, _ = ascended(settings, blind, rows, weight, advantage)
    masked = eqx.tree_at(lambda rows: rows.state, rows, rows.state.at[:, 1:].set(0.0))
    plain, _, _ = ascended(PLAIN, blind, masked, weight, advantage)
    assert_gradient(gradient, [np.asarray(leaf) for leaf in jax.tree.leaves(plain)])
    assert (np.asarray(moved.weights[0])[1:] == 0).all()
    assert np.abs(np.asarray(moved.weights[0] - blind.weights[0])[0]).max() > 0
    with pytest.raises(ValueError, match=r"actor.features: expected columns from 0 to 1, got \[99\]"):
        actor.seeing(replace(PLAIN, features=(99,)), policy)


def test_clip_changes_the_gradient(case):
    """Otherwise the test above could not fail."""
    rows, policy, _, weight, advantage = case
    free, held = (differences(gain_of(rows, weight, advantage, clip), policy) for clip in (None, 1.5))
    assert max(np.abs(a - b).max() for a, b in zip(free, held, strict=True)) > 0.01


def test_relative_advantages_have_deviation_one(case):
    rows, policy, _, weight, advantage = case
    absolute, _, report = ascended(PLAIN, policy, rows, weight, advantage)
    scaled, *_ = ascended(replace(PLAIN, relative=True), policy, rows, weight, 7.0 * advantage)
    w, a = np.asarray(weight, np.float64), np.asarray(advantage, np.float64)
    deviation = math.sqrt(sum(x * y**2 for x, y in zip(w, a, strict=True)) / w.sum())
    assert float(report.advantage_deviation) == pytest.approx(deviation, rel=1e-5)
    assert_gradient(scaled, [leaf / deviation for leaf in jax.tree.leaves(absolute)])


def test_entropy_is_climbed_too(case):
    rows, policy, _, weight, advantage = case

    def expected(network):
        w = np.asarray(weight, np.float64)
        spread = [-sum(p * math.log(p) for p in chances) for chances in chances_of(network, rows.state)]
        return sum(x * h for x, h in zip(w, spread, strict=True)) / w.sum()

    gradient, _, report = ascended(replace(PLAIN, entropy=0.7), policy, rows, weight, advantage)
    gain = gain_of(rows, weight, advantage)
    assert float(report.entropy) == pytest.approx(expected(policy), rel=1e-5)
    assert_gradient(gradient, [-slope for slope in differences(lambda n: gain(n) + 0.7 * expected(n), policy)])


def test_anchor_holds_to_the_clone_where_it_is_certain(case):
    """−weight · E[c KL(clone ‖ π)] at states beyond the log's."""
    rows, policy, cloned, weight, advantage = case
    settings = Anchor(weight=2.0, spread=1.4, noise=0.6)
    noise = np.asarray(jax.random.normal(jax.random.key(9), rows.state.shape), np.float64)
    beyond = 1.4 * np.asarray(rows.state, np.float64) + 0.6 * noise

    def expected(network):
        total = 0.0
        for cloned_chances, chances in zip(chances_of(cloned, beyond), chances_of(network, beyond), strict=True):
            certainty = 1 + sum(p * math.log(p) for p in cloned_chances) / math.log(3)
            total += certainty * sum(p * math.log(p / q) for p, q in zip(cloned_chances, chances, strict=True))
        return total / len(beyond)

    assert expected(policy) > 0.05
    penalty = anchor.penalty(settings, policy, cloned, rows, jax.random.key(9))
    assert float(penalty) == pytest.approx(expected(policy), rel=1e-4)
    assert float(anchor.penalty(settings, cloned, cloned, rows, jax.random.key(9))) == pytest.approx(0, abs=1e-7)
    gradient, _, report = ascended(replace(PLAIN, anchor=settings), policy, rows, weight, advantage, cloned, key=9)
    gain = gain_of(rows, weight, advantage)
    assert float(report.anchor) == pytest.approx(expected(policy), rel=1e-4)
    assert_gradient(gradient, differences(lambda n: 2 * expected(n) - gain(n), policy))


def test_known_values_of_all_actions_are_followed_exactly(case):
    """∇ E[w Σ_a π(a|s) A(s,a)], steps and entropy as the settings say."""
    rows, policy, _, weight, _ = case
    table = jnp.asarray(np.random.default_rng(8).normal(size=(len(rows.reward), 3)), jnp.float32)
    values = Gains(rows.state, rows.legal, table, None)
    settings = replace(PLAIN, sure_entropy=0.0, sure_steps=5.0)
    gradient, moved, report = ascended(settings, policy, rows, weight, values)
    w = np.asarray(weight, np.float64)
    w = w / w.mean()
    table = np.asarray(table, np.float64)

    def gain(network):
        return float(np.mean(w * (np.asarray(chances_of(network, rows.state), np.float64) * table).sum(axis=1)))

    assert_gradient(gradient, [-slope for slope in differences(gain, policy)])
    assert float(report.advantage_deviation) == pytest.approx(math.sqrt(np.mean(w[:, None] * table**2)), rel=1e-5)
    _, slower, _ = ascended(replace(settings, sure_steps=1.0), policy, rows, weight, values)
    for start_leaf, slow, fast in zip(*map(jax.tree.leaves, (policy, slower, moved)), strict=True):
        np.testing.assert_allclose(fast - start_leaf, 5 * (slow - start_leaf), rtol=1e-3, atol=1e-6)


def test_decisions_in_one_state_count_as_one_with_their_weights_added(case):
    rows, policy, _, weight, _ = case
    place = jnp.asarray(np.random.default_rng(9).integers(0, 4, len(rows.reward)))
    states, table = rows.state[:5], jnp.asarray(np.random.default_rng(10).normal(size=(5, 3)), jnp.float32)
    legal = jnp.asarray([[1, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 1, 0]], bool)
    apart = ascended(PLAIN, policy, rows, weight, Gains(states[place], legal[place], table[place], None))
    as_one = ascended(PLAIN, policy, rows, weight, Gains(states, legal, table, place))
    for one, other in zip(jax.tree.leaves(apart), jax.tree.leaves(as_one), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-6)


# Legal actions


def test_illegal_actions_have_no_probability_and_no_gradient():
    mdp = TabularMDP.random(STATES, ACTIONS, seed=5)
    legal = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=bool)
    behaviour = legal / legal.sum(axis=1, keepdims=True)
    logits = np.random.default_rng(6).normal(size=(STATES, ACTIONS)).astype(np.float32)
    rows, state, chance = enumerated(mdp, np.where(legal, behaviour, 1.0), legal)
    chosen = np.flatnonzero(legal[state, np.asarray(rows.action)])
    rows, state, chance = jax.tree.map(lambda leaf: leaf[chosen], (rows, state, chance))

    chances = np.asarray(jnp.exp(log_policy(linear(logits), jnp.eye(STATES), jnp.asarray(legal))))
    assert (chances[~legal] == 0).all()
    for s in range(STATES):
        exps = [math.exp(logits[s, a]) if legal[s, a] else 0.0 for a in range(ACTIONS)]
        np.testing.assert_allclose(chances[s], np.array(exps) / sum(exps), rtol=1e-5)

    spread = np.asarray(entropy(log_policy(linear(logits), jnp.eye(STATES), jnp.asarray(legal))))
    expected = [-sum(p * math.log(p) for p in chances[s] if p > 0) for s in range(STATES)]
    np.testing.assert_allclose(spread, expected, rtol=1e-5, atol=1e-6)
    assert spread[2] == 0  # one action is legal there

    advantage = jnp.asarray(np.random.default_rng(7).normal(size=len(state)), jnp.float32)
    settings = replace(PLAIN, entropy=0.5, anchor=Anchor(weight=1.0))
    gradient, moved, _ = ascended(settings, linear(logits), rows, jnp.asarray(chance, jnp.float32), advantage)
    without = replace(settings, anchor=Anchor(weight=0.0))
    plain, *_ = ascended(without, linear(logits), rows, jnp.asarray(chance, jnp.float32), advantage)
    for leaf in (*jax.tree.leaves(gradient), *jax.tree.leaves(moved)):
        assert np.isfinite(leaf).all()
    np.testing.assert_array_equal(plain.weights[0][~legal], 0)
    assert (np.abs(plain.weights[0][legal & (legal.sum(axis=1, keepdims=True) > 1)]) > 1e-6).all()


def test_anchor_of_a_single_action_is_nothing():
    """There is nothing to be certain of: log 1 = 0 must not be divided by."""
    data = make([3, 4], actions=1)
    policy, clone = (initial_network(jax.random.key(seed), (2, 4, 1)) for seed in (0, 1))
    rows = device_log(data, 1.0).rows.take(jnp.arange(7))
    penalty = jax.value_and_grad(lambda policy: anchor.penalty(Anchor(), policy, clone, rows, jax.random.key(2)))
    pull, gradient = jax.jit(penalty)(policy)
    assert float(pull) == 0
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize("masked", [False, True])
def test_chance_of_the_taken_action_is_the_softmaxes(masked):
    """Action by action for few of them, and by the softmax's own line for many: values and gradients."""
    data = make([3, 4], actions=3)
    rows = device_log(data, 1.0).rows.take(jnp.arange(7))
    legal = (jnp.arange(3)[None, :] == rows.action[:, None]) | (jnp.arange(3)[None, :] == jnp.arange(7)[:, None] % 3)
    rows = eqx.tree_at(lambda rows: rows.legal, rows, legal if masked else None, is_leaf=lambda leaf: leaf is None)
    network = initial_network(jax.random.key(3), (2, 5, 3))

    def by_softmax(network):
        return jnp.exp(log_policy(network, rows.state, rows.legal))[jnp.arange(7), rows.action]

    taken = jax.jit(lambda n: chance_of_taken(n, rows))(network)
    np.testing.assert_allclose(taken, jax.jit(by_softmax)(network), rtol=1e-5)
    one, other = (jax.jit(jax.jacobian(f))(network) for f in (lambda n: chance_of_taken(n, rows), by_softmax))
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-6)


# The warm start


def test_rows_that_fill_up_episodes_are_not_cloned(case):
    """The mean of −log π(a|s) is over live rows alone."""
    rows, policy, *_ = case
    live = np.arange(len(rows.action)) % 3 > 0
    rows = replace(rows, live=jnp.asarray(live, rows.live.dtype))
    chances = np.asarray(jnp.exp(log_policy(policy, rows.state)))
    expected = -np.mean([math.log(chances[i, a]) for i, a in enumerate(np.asarray(rows.action)) if live[i]])
    assert float(actor.surprise(policy, rows)) == pytest.approx(expected, rel=1e-5)


def test_clone_takes_the_logged_actions_as_often_as_the_behaviour():
    mdp = TabularMDP.random(STATES, ACTIONS, seed=8)
    behaviour = np.random.default_rng(9).dirichlet(np.ones(ACTIONS), size=STATES)
    data = collect_tabular(mdp, behaviour, episodes=300, horizon=20, seed=0)
    settings = Actor(hidden=(16,), clone_steps=800, clone_rate=3e-3, clone_batch=1000)
    clone = jax.jit(lambda key: actor.clone(settings, STATES, ACTIONS, device_log(data, 1.0), key))
    got = np.asarray(jnp.exp(log_policy(clone(jax.random.key(0)), jnp.eye(STATES))))
    state = data.observations.argmax(axis=1)
    shares = np.array([np.bincount(data.actions[state == s], minlength=ACTIONS) / (state == s).sum() for s in range(5)])
    assert np.abs(shares - 1 / 3).max() > 0.3
    np.testing.assert_allclose(got, shares, atol=0.03)


def test_clone_is_blind_to_what_the_policy_may_not_see():
    data = collect_tabular(TabularMDP.random(STATES, ACTIONS, seed=8), np.eye(ACTIONS)[[0, 1, 2, 0, 1]], 20, 5, seed=0)
    settings = Actor(hidden=(4,), features=(1, 3), clone_steps=5, clone_batch=50)
    clone = jax.jit(lambda key: actor.clone(settings, STATES, ACTIONS, device_log(data, 1.0), key))(jax.random.key(0))
    seen = np.abs(np.asarray(clone.weights[0])).max(axis=1) > 0
    assert seen.tolist() == [False, True, False, True, False]
