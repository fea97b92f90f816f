"""CartPole against Gymnasium's."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from statewise.domains.cartpole import CARTPOLE
from statewise.domains.simulate import episode_keys, in_float64, returns, rollout

STEP = in_float64(jax.jit(CARTPOLE.step))


def side_by_side(choose, seed, steps):
    """Largest difference of the two states over an episode, and its length, checking rewards and ends."""
    theirs = gymnasium.make("CartPole-v1").unwrapped
    state = CARTPOLE.reset(jax.random.key(seed))
    theirs.reset()
    theirs.state = np.asarray(state)
    largest = 0.0
    for time in range(steps):
        action = choose(np.asarray(state))
        state, reward, terminated = STEP(state, action)
        observation, their_reward, their_terminated, _, _ = theirs.step(action)
        largest = max(largest, np.abs(np.asarray(state) - theirs.state).max())
        np.testing.assert_allclose(CARTPOLE.observe(state), observation, atol=1e-6)
        assert float(reward) == their_reward
        assert bool(terminated) == their_terminated
        if terminated:
            return largest, time + 1
    return largest, steps


def test_agrees_with_gymnasium_under_random_actions():
    generator = np.random.default_rng(0)
    results = [side_by_side(lambda _: int(generator.integers(2)), seed, 200) for seed in range(20)]
    assert max(largest for largest, _ in results) < 1e-12
    assert sum(length for _, length in results) > 200


def test_agrees_with_gymnasium_over_a_whole_balanced_episode():
    largest, length = side_by_side(lambda state: int(state[2] + 0.5 * state[3] > 0), 0, 200)
    assert length == 200
    assert largest < 1e-8


def test_falls_off_either_end_of_the_track():
    for position, action in ((2.399, 1), (-2.399, 0)):
        state = jnp.asarray([position, np.sign(position), 0.0, 0.0])
        assert STEP(state, action)[2]
        assert not STEP(-0.5 * state, action)[2]


def test_start_is_uniform_on_a_small_box():
    starts = np.asarray(jax.vmap(CARTPOLE.reset)(episode_keys(0, 4000)))
    assert starts.dtype == np.float64
    assert np.abs(starts).max() <= 0.05
    np.testing.assert_allclose(starts.mean(axis=0), 0, atol=4 * 0.05 / np.sqrt(3 * 4000))
    np.testing.assert_allclose(starts.std(axis=0), 0.05 / np.sqrt(3), rtol=0.05)


def test_uniform_policy_scores_22():
    scores = returns(rollout(CARTPOLE, lambda observation: jnp.full(2, 0.5), episode_keys(1, 1000)), 1.0)
    assert abs(scores.mean() - 22.3) < 4 * scores.std() / np.sqrt(1000)
