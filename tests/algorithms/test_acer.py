"""ACER's gradient against exact ones, action by action."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from statewise.algorithms import acer
from statewise.algorithms.acer import ACER
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP, softmax
from statewise.ops.networks import Network
from statewise.parts import actor, q_network, ratio
from statewise.parts.actor import Actor
from statewise.parts.learned import start
from statewise.parts.q_network import QNetwork
from statewise.parts.ratio import ClosedForm
from statewise.parts.tracked import Tracked

ACTIONS = 4


@pytest.fixture
def state():
    """One state: logits, Q and μ; one action is illegal."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=ACTIONS)
    logits[3] = -np.inf
    behaviour = np.array([0.05, 0.6, 0.35, 0.0])
    return logits, rng.normal(size=ACTIONS), behaviour


def directions(logits, values, behaviour, returns, truncation):
    """g for each action that may have been taken."""
    chances = np.log(np.maximum(softmax(logits[None]), 1e-300))
    chances = np.where(np.isfinite(logits), chances, -np.inf)
    each = [np.tile(row, (ACTIONS, 1)) for row in (chances, values, behaviour)]
    arguments = (*each, np.eye(ACTIONS), returns)
    return np.asarray(acer.direction(*(jnp.asarray(x, jnp.float32) for x in arguments), truncation), np.float64)


@pytest.mark.parametrize("truncation", [0.5, 1.0, 10.0, 1e6])
def test_mean_over_the_behaviour_is_the_exact_gradient_whatever_the_truncation(state, truncation):
    """With Qʳᵉᵗ = Q the truncation's bias is corrected in full: E_μ[g] = ∂/∂θ Σ_a π_θ(a) Q(a)."""
    logits, values, behaviour = state
    gradients = directions(logits, values, behaviour, values, truncation)[:3]
    exact = jax.grad(lambda theta: jnp.sum(jax.nn.softmax(theta) * values[:3]))(jnp.asarray(logits[:3], jnp.float32))
    np.testing.assert_allclose(behaviour[:3] @ gradients[:, :3], exact, atol=1e-5)
    assert (gradients[:, 3] == 0).all()
    assert np.abs(exact).max() > 0.05


def test_against_the_formula_written_out(state):
    logits, values, behaviour = state
    policy, returns, limit = softmax(logits[None])[0], values + np.array([0.3, -0.2, 0.1, 0.0]), 1.5
    value = policy @ values
    gradients = directions(logits, values, behaviour, returns, limit)
    assert (policy[:3] / behaviour[:3] > limit).any()
    for taken in range(3):
        ratio = policy[taken] / behaviour[taken]
        expected = min(limit, ratio) * (np.eye(ACTIONS)[taken] - policy) * (returns[taken] - value)
        for other in range(3):
            kept = max(0.0, 1 - limit * behaviour[other] / policy[other])
            slope = np.eye(ACTIONS)[other] - policy
            expected = expected + kept * policy[other] * slope * (values[other] - value)
        np.testing.assert_allclose(gradients[taken], expected, atol=1e-5)


def scaled_table(values, scaler):
    """The network that gives row s of the table for the one-hot state s, as the scaler shows it."""
    table = np.asarray(values, np.float64)
    weights, biases = scaler.std[:, None] * table, scaler.mean @ table
    return Network((jnp.asarray(weights, jnp.float32),), (jnp.asarray(biases, jnp.float32),))


def test_with_the_state_ratio_an_update_climbs_the_exact_gradient_and_without_it_another():
    """From exact action values, which are kept. Adam's first moment is a tenth of the gradient, negated."""
    rng, discount = np.random.default_rng(9), 0.8
    transitions, rewards = 0.8 * rng.dirichlet(np.full(3, 0.3), size=(3, 2)), rng.normal(size=(3, 2))
    mdp = TabularMDP(transitions, rewards, np.array([0.8, 0.1, 0.1]))
    logits, behaviour = rng.normal(size=(3, 2)), rng.dirichlet([3.0, 3.0], size=3)
    data = collect_tabular(mdp, behaviour, episodes=20_000, horizon=80, seed=0)
    assert data.terminated.all()
    exact = mdp.policy_gradient(logits, discount) / mdp.visits(softmax(logits), discount).sum()
    found = {}
    for state_ratio in (None, ClosedForm(features=60, regularisation=(1e-6,), rows=10**9)):
        config = ACER(
            discount=discount,
            critic=QNetwork(hidden=(), learning_rate=0.0, batch=10, steps=1),
            trust=None,
            entropy=0.0,
            hidden=(),
            batch=400_000,
            state_ratio=state_ratio,
        )
        ready, view = acer.prepare(config, data, jax.random.key(0))
        policy = scaled_table(logits, view.scaler)
        worth = scaled_table(mdp.action_values(softmax(logits), discount) / float(ready.log.scale), view.scaler)
        networks = jax.tree.map(lambda leaf: leaf[None], worth)
        critic = Tracked(start(networks, q_network.optimiser(config.critic, config.updates)), networks)
        learned = start(policy, actor.optimiser(Actor(hidden=()), config.updates))
        w = None if state_ratio is None else ratio.initial(state_ratio, ready.ground, 3, jax.random.key(1))
        state = acer.State(w, critic, learned, policy)
        after, _ = eqx.filter_jit(acer.update)(config, ready, state, jax.random.key(2))
        moment = optax.tree_utils.tree_get(after.actor.optimiser, "mu")
        by_weight, by_bias = (np.asarray(part[0], np.float64) for part in (moment.weights, moment.biases))
        slope = view.scaler.std[:, None] * by_weight + view.scaler.mean[:, None] * by_bias[None]
        found[state_ratio is None] = -10 * float(ready.log.scale) * slope
    np.testing.assert_allclose(found[False], exact, atol=0.05 * np.abs(exact).max())
    assert np.abs(found[True] - exact).max() > 0.4 * np.abs(exact).max()
