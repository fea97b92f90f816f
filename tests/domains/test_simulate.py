"""`rollout` against episodes stepped one by one, and the promises it makes about keys and ends."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statewise.domains.cartpole import CARTPOLE
from statewise.domains.simulate import LANES_CPU, episode_keys, returns, rollout

TRACED = []  # grows whenever the policy below is compiled


class Leaning(eqx.Module):
    """Pushes towards the side to which the pole leans, to the right without fail when it falls fast."""

    weights: jax.Array | np.ndarray

    def __call__(self, observation):
        TRACED.append(observation)
        right = jnp.clip(0.5 + observation @ self.weights, 0.1, 0.9)
        right = jnp.where(right > 0.8, 1.0, right)
        return jnp.stack([1 - right, right])


WEIGHTS = np.array([0.0, 0.0, 1.5, 0.4], np.float32)


@pytest.fixture(scope="module")
def episodes():
    return rollout(CARTPOLE, Leaning(jnp.asarray(WEIGHTS)), episode_keys(0, LANES_CPU + 6))


def test_shapes_and_types(episodes):
    count = LANES_CPU + 6
    expected = [
        ((count, 201, 4), np.float32),
        ((count, 200), np.int32),
        ((count, 200), np.float32),
        ((count, 200, 2), np.float32),
        ((count, 200), np.bool_),
        ((count, 200), np.bool_),
    ]
    assert [(part.shape, part.dtype) for part in episodes] == expected


def test_every_step_is_the_domains_own(episodes):
    """Replay of the recorded actions from the recorded key, outside of any compiled loop."""
    key = episode_keys(0, 3)[2]
    state = CARTPOLE.reset(jax.random.split(key)[0])
    length = int(episodes.valid[2].sum())
    assert length > 10
    for time in range(length):
        np.testing.assert_allclose(episodes.observations[2, time], CARTPOLE.observe(state), atol=1e-6)
        state, reward, terminated = CARTPOLE.step(state, int(episodes.actions[2, time]))
        assert episodes.rewards[2, time] == float(reward)
        assert episodes.terminated[2, time] == bool(terminated)
    np.testing.assert_allclose(episodes.observations[2, length], CARTPOLE.observe(state), atol=1e-6)


def test_probabilities_are_those_of_the_policy_outside(episodes):
    outside = jax.vmap(jax.vmap(Leaning(jnp.asarray(WEIGHTS))))(episodes.observations[:, :-1])
    np.testing.assert_allclose(episodes.probabilities, outside, atol=1e-6)


def test_actions_follow_the_probabilities(episodes):
    """Σ (1{a=right} − π(right)) over all steps has mean 0 and the variance Σ π(1−π)."""
    right = episodes.probabilities[..., 1][episodes.valid].astype(np.float64)
    surplus = (episodes.actions[episodes.valid] - right).sum()
    assert abs(surplus) < 4 * np.sqrt((right * (1 - right)).sum())
    certain = episodes.valid & (episodes.probabilities[..., 0] == 0)
    assert certain.sum() > 100
    assert (episodes.actions[certain] == 1).all()


def test_an_episode_stops_where_it_ended(episodes):
    ended = episodes.terminated.any(axis=1)
    assert ended.sum() > 10
    for episode in np.flatnonzero(ended):
        end = int(np.flatnonzero(episodes.terminated[episode])[0])
        assert episodes.valid[episode].sum() == end + 1 == episodes.valid[episode, : end + 1].sum()
        assert not episodes.terminated[episode, end + 1 :].any()
        assert not episodes.rewards[episode, end + 1 :].any()
        np.testing.assert_array_equal(
            episodes.observations[episode, end + 1 :], episodes.observations[episode, [end + 1] * (200 - end)]
        )
    assert episodes.valid[~ended].all()


def test_an_episode_depends_on_its_key_alone(episodes):
    keys = episode_keys(0, LANES_CPU + 6)
    policy = Leaning(jnp.asarray(WEIGHTS))
    for chosen in ([0, 1, 2], [LANES_CPU + 5, 7]):
        for part, whole in zip(rollout(CARTPOLE, policy, keys[np.array(chosen)]), episodes, strict=True):
            np.testing.assert_array_equal(part, whole[chosen])
    assert len(np.unique(episodes.observations[:, 0], axis=0)) == len(episodes.observations)


def test_new_weights_do_not_compile_anew(episodes):
    before = len(TRACED)
    assert before > 0
    other = rollout(CARTPOLE, Leaning(jnp.asarray(-WEIGHTS)), episode_keys(0, 8))
    assert len(TRACED) == before
    assert other.valid.sum() < 0.5 * episodes.valid[:8].sum()


def test_float64_weights_compute_in_float32(episodes):
    doubled = rollout(CARTPOLE, Leaning(WEIGHTS.astype(np.float64)), episode_keys(0, 4))
    np.testing.assert_array_equal(doubled.actions, episodes.actions[:4])


def test_a_shorter_horizon_truncates(episodes):
    short = rollout(dataclasses.replace(CARTPOLE, horizon=7), Leaning(jnp.asarray(WEIGHTS)), episode_keys(0, 4))
    np.testing.assert_array_equal(short.actions, episodes.actions[:4, :7])
    assert not short.terminated.any()


def test_returns_are_discounted_sums(episodes):
    lengths = episodes.valid.sum(axis=1)
    np.testing.assert_array_equal(returns(episodes, 1.0), lengths)
    np.testing.assert_allclose(returns(episodes, 0.9), (1 - 0.9**lengths) / (1 - 0.9), rtol=1e-12)


def test_no_keys_is_an_error():
    with pytest.raises(ValueError, match="rollout: expected one key per episode, got none"):
        rollout(CARTPOLE, Leaning(jnp.asarray(WEIGHTS)), episode_keys(0, 1)[:0])
