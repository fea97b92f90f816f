"""The actor–critic: its advantages by hand, its policy in NumPy, and that it learns and stops at its target."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actor_critic import TRACE, advantages, he_network, train
from statewise.domains.behaviours import Noisy, with_noise
from statewise.domains.cartpole import CARTPOLE
from statewise.domains.simulate import episode_keys, returns, rollout

TARGET = 40.0  # the uniform policy scores 22


@pytest.fixture(scope="module")
def training():
    measured = {}
    trained = train(CARTPOLE, TARGET, discounted=False, seed=0, iterations=50, progress=measured.__setitem__)
    return trained, measured


def test_advantages_are_the_weighted_sums_of_errors():
    """Â_t = Σ_k (γλ)ᵏ δ_{t+k}, up to and including the step that ends the episode."""
    generator = np.random.default_rng(0)
    rewards, values = generator.normal(size=9), generator.normal(size=10)
    terminated = np.arange(9) == 5
    expected = np.zeros(9)
    for start in range(9):
        for step in range(start, 9):
            following = 0 if terminated[step] else values[step + 1]
            error = rewards[step] + 0.9 * following - values[step]
            expected[start] += (0.9 * TRACE) ** (step - start) * error
            if terminated[step]:
                break
    arguments = (jnp.asarray(rewards, jnp.float32), jnp.asarray(values, jnp.float32), jnp.asarray(terminated))
    np.testing.assert_allclose(advantages(*arguments, 0.9), expected, rtol=1e-5, atol=1e-6)


def test_first_policy_is_all_but_uniform():
    layers = he_network(jax.random.key(0), (4, 16, 16, 16, 2))
    assert [weight.shape for weight in layers.weights] == [(4, 16), (16, 16), (16, 16), (16, 2)]
    actor = Noisy(layers, jnp.zeros(4), jnp.ones(4), jnp.asarray(1.0))
    probabilities = jax.vmap(actor)(jax.random.normal(jax.random.key(1), (100, 4)))
    np.testing.assert_allclose(probabilities, 0.5, atol=0.03)
    assert np.ptp(probabilities) > 0


def test_learns(training):
    _, measured = training
    assert list(measured) == list(range(2, 51, 2))
    assert measured[2] < 25
    assert measured[50] > 45


def test_keeps_the_iterate_nearest_to_the_target(training):
    trained, measured = training
    nearest = min(measured, key=lambda iteration: abs(measured[iteration] - TARGET))
    assert trained.card["iteration"] == f"{nearest} of 50"
    assert trained.card["behaviour_return"] == measured[nearest]
    assert 2 < nearest < 50
    scores = returns(rollout(CARTPOLE, with_noise(trained), episode_keys(99, 1024)), 1.0)
    assert abs(scores.mean() - measured[nearest]) < 4 * scores.std() * np.sqrt(1 / 1024 + 1 / 512)


def test_weights_are_the_policy(training):
    """What is handed out, computed in NumPy, is what acted: μ = .7 π̂ + .3 uniform."""
    trained, _ = training
    episodes = rollout(CARTPOLE, with_noise(trained), episode_keys(5, 8))
    learned = trained.probabilities(episodes.observations[:, :-1].reshape(-1, 4))
    np.testing.assert_allclose(episodes.probabilities.reshape(-1, 2), 0.7 * learned + 0.15, atol=1e-5)
    assert np.ptp(learned) > 0.2


def test_observations_are_standardised_by_the_uniform_policys(training):
    """Mean and deviation came from 64 uniform episodes: they must look like those of 40 other such batches."""
    trained, _ = training
    episodes = rollout(CARTPOLE, with_noise(trained, share=0.0), episode_keys(6, 40 * 64))
    np.testing.assert_allclose(episodes.probabilities, 0.5, atol=1e-6)
    batches = [
        seen[valid]
        for seen, valid in zip(
            episodes.observations[:, :-1].reshape(40, 64, 200, 4), episodes.valid.reshape(40, 64, 200), strict=True
        )
    ]
    for scaling, others in (
        (trained.mean, np.array([batch.mean(axis=0) for batch in batches])),
        (trained.std, np.array([batch.std(axis=0) for batch in batches])),
    ):
        assert (np.abs(scaling - others.mean(axis=0)) < 4 * others.std(axis=0)).all()
