"""The Gymnasium environments against Gymnasium's own checker and the domains they wrap."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from statewise.domains import environments
from statewise.domains.cartpole import CARTPOLE
from statewise.domains.hiv import HIV, UNHEALTHY

NAMES = ("statewise/CartPole-v0", "statewise/HIV-v0")


@pytest.mark.parametrize("name", NAMES)
def test_passes_gymnasiums_checker(name):
    check_env(gymnasium.make(name).unwrapped)  # its warnings are errors here


def test_registering_twice_is_harmless():
    before = dict(gymnasium.registry)
    environments.register()
    assert gymnasium.registry == before
    assert set(NAMES) <= set(before)


def test_cartpole_follows_gymnasiums():
    ours, theirs = gymnasium.make("statewise/CartPole-v0"), gymnasium.make("CartPole-v1")
    lengths = []
    for seed in range(5):
        _, info = ours.reset(seed=seed)
        ours.action_space.seed(seed)
        theirs.reset()
        theirs.unwrapped.state = info["state"]
        terminated = False
        while not terminated:
            action = ours.action_space.sample()
            observation, reward, terminated, truncated, info = ours.step(action)
            expected = theirs.step(action)
            np.testing.assert_allclose(observation, expected[0], atol=1e-6)
            assert (reward, terminated, truncated) == expected[1:4]
            assert info["raw_reward"] == 1
        lengths.append(theirs.get_wrapper_attr("_elapsed_steps"))
    assert len(set(lengths)) > 1


def test_cartpole_is_truncated_at_200():
    environment = gymnasium.make("statewise/CartPole-v0")
    observation, _ = environment.reset(seed=0)
    for step in range(1, 201):
        action = int(observation[2] + 0.5 * observation[3] > 0)
        observation, _, terminated, truncated, _ = environment.step(action)
        assert not terminated
        assert truncated == (step == 200)


def test_hiv_reports_the_raw_state_and_reward():
    environment = gymnasium.make("statewise/HIV-v0")
    observation, info = environment.reset(seed=0)
    np.testing.assert_array_equal(info["state"], UNHEALTHY)
    state = HIV.reset(jax.random.key(0))
    efficacies = np.array([(0.0, 0.0), (0.7, 0.0), (0.0, 0.3), (0.7, 0.3)])
    truncated = False
    for action in np.random.default_rng(0).integers(0, 4, 200):
        assert not truncated
        np.testing.assert_allclose(observation, np.log10(info["state"]), rtol=1e-6)
        observation, reward, terminated, truncated, info = environment.step(action)
        assert info["state"].dtype == np.float64
        e1, e2 = efficacies[action]
        raw = -0.1 * info["state"][4] - 2e4 * e1**2 - 2e3 * e2**2 + 1e3 * info["state"][5]
        assert info["raw_reward"] == pytest.approx(raw, rel=1e-9)
        assert reward == pytest.approx(raw / 1e8, rel=1e-9)
        assert not terminated
    assert truncated
    state, _, _ = HIV.step(state, 3)
    environment.reset()
    np.testing.assert_allclose(environment.step(3)[4]["state"], np.asarray(state), rtol=1e-9)


def test_the_start_follows_the_seed():
    environment = gymnasium.make("statewise/CartPole-v0")
    first, _ = environment.reset(seed=7)
    second, _ = environment.reset()
    again, _ = environment.reset(seed=7)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
    assert environment.unwrapped.domain is CARTPOLE


def test_wrong_use_is_explained():
    environment = environments.cartpole()
    with pytest.raises(RuntimeError, match="call reset"):
        environment.step(0)
    environment.reset(seed=0)
    with pytest.raises(ValueError, match=r"cartpole: expected an action in Discrete\(2\), got 2"):
        environment.step(2)


def test_the_time_limit_is_the_domains_horizon():
    for name, domain in zip(NAMES, (CARTPOLE, HIV), strict=True):
        assert gymnasium.spec(name).max_episode_steps == domain.horizon
