"""The HIV simulator against an extended-precision table, SciPy's stiff solver and the numbers of the literature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from statewise.domains.hiv import HIV, UNHEALTHY, rates
from statewise.domains.simulate import episode_keys, in_float64, returns, rollout

# Constant actions from the unhealthy start, integrated in 80-bit floats: per action after 10 and 200 steps,
# T1, T2, T1*, T2*, V, E, the sum of raw rewards and the sum discounted by .98.
TABLE = np.array(
    [
        [
            [163572.92, 4.9954702, 11944.831, 45.598973, 63917.999, 23.598518, 173218.32, 158483.19],
            [163572.75, 4.9954235, 11944.943, 45.599014, 63918.596, 23.543978, 3432351.3, 844299.81],
        ],
        [
            [488078.75, 755.51788, 149.25835, 77.736109, 1186.7871, 28.501808, 176744.46, 163600.25],
            [543557.92, 11.950472, 6517.8323, 45.49732, 34987.46, 27.169752, 3192408.2, 984064.41],
        ],
        [
            [211777.78, 9.1538364, 9101.3116, 44.722401, 34193.836, 25.106445, 230064.93, 211341.67],
            [234611, 7.8229567, 10930.394, 45.558394, 40779.684, 23.91416, 3978357.3, 1007377.7],
        ],
        [
            [490273.78, 1154.1837, 0.065724723, 0.048622317, 0.42241719, 10.827596, 102518.7, 97850.724],
            [774592.73, 34.245351, 3218.0412, 45.171325, 12123.993, 38.9023, 7021980.1, 2003788.5],
        ],
    ]
)
EFFICACIES = ((0.0, 0.0), (0.7, 0.0), (0.0, 0.3), (0.7, 0.3))


def trajectory(actions):
    """States after each step, and raw rewards."""

    def advance(state, action):
        state, reward, _ = HIV.step(state, action)
        return state, (state, reward * 1e8)

    return jax.lax.scan(advance, HIV.reset(jax.random.key(0)), actions)[1]


@pytest.fixture(scope="module")
def simulate():
    """Sequences of actions, 64 at a time so that one compiled program serves every test."""
    # run for long, and so worth compiling well, other than most programs of the tests
    compiled = in_float64(jax.jit(jax.vmap(trajectory), compiler_options={"xla_backend_optimization_level": 3}))

    def run(actions):
        count = len(actions)
        filled = np.zeros((-(-count // 64) * 64, 200), np.int32)
        filled[:count] = actions
        parts = [compiled(batch) for batch in filled.reshape(-1, 64, 200)]
        return tuple(np.concatenate(part)[:count] for part in zip(*parts, strict=True))

    return run


def switching_sequences():
    """Random actions; then drugs with long, with short and with random interruptions, where V bursts."""
    generator = np.random.default_rng(0)
    long = np.tile(np.repeat([3, 0], 60), 2)[:200]
    short = np.resize(np.repeat([3, 0], [30, 10]), 200)
    sparse = generator.choice([0, 3], 200, p=[0.2, 0.8])
    return np.stack([*generator.integers(0, 4, (2, 200)), long, short, sparse])


def by_lsoda(actions):
    state, states = np.array(UNHEALTHY), []
    for action in actions:
        rti, pi = EFFICACIES[action]
        solution = solve_ivp(
            lambda _, y, rti=rti, pi=pi: _rates(y, rti, pi), (0, 5), state, method="LSODA", rtol=1e-10, atol=1e-13
        )
        state = solution.y[:, -1]
        states.append(state)
    return np.array(states)


def _rates(state, e1, e2):
    """The equations written a second time, in the order of the paper by Adams et al., in NumPy."""
    t1, t2, t1s, t2s, v, e = state
    k1, k2, f, infected = 8e-7, 1e-4, 0.34, t1s + t2s
    return [
        10000 - 0.01 * t1 - (1 - e1) * k1 * v * t1,
        31.98 - 0.01 * t2 - (1 - f * e1) * k2 * v * t2,
        (1 - e1) * k1 * v * t1 - 0.7 * t1s - 1e-5 * e * t1s,
        (1 - f * e1) * k2 * v * t2 - 0.7 * t2s - 1e-5 * e * t2s,
        (1 - e2) * 100 * 0.7 * infected - 13 * v - ((1 - e1) * k1 * t1 + (1 - f * e1) * k2 * t2) * v,
        1 + 0.3 * infected / (infected + 100) * e - 0.25 * infected / (infected + 500) * e - 0.1 * e,
    ]


def test_constant_actions_agree_with_the_table(simulate):
    states, rewards = simulate(np.repeat(np.arange(4)[:, None], 200, axis=1))
    discounts = 0.98 ** np.arange(200)
    for row, steps in enumerate((10, 200)):
        np.testing.assert_allclose(states[:, steps - 1], TABLE[:, row, :6], rtol=1e-7)
        np.testing.assert_allclose(rewards[:, :steps].sum(axis=1), TABLE[:, row, 6], rtol=1e-7)
        np.testing.assert_allclose((rewards * discounts)[:, :steps].sum(axis=1), TABLE[:, row, 7], rtol=1e-7)


def test_changing_actions_agree_with_lsoda(simulate):
    sequences = switching_sequences()
    states, rewards = simulate(sequences)
    assert states[..., 4].max() > 1e6  # the burst that makes the equations stiff is among them
    for sequence, ours, paid in zip(sequences, states, rewards, strict=True):
        theirs = by_lsoda(sequence)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        e1, e2 = np.array(EFFICACIES)[sequence].T
        expected = -0.1 * theirs[:, 4] - 2e4 * e1**2 - 2e3 * e2**2 + 1e3 * theirs[:, 5]
        np.testing.assert_allclose(paid, expected, rtol=1e-6, atol=1e-2)


def test_rates_are_the_equations_and_vanish_at_the_healthy_fixed_point():
    healthy = np.array([967839.0, 621.0, 76.0, 6.0, 415.0, 353108.0])
    for rti, pi in EFFICACIES:
        ours = in_float64(lambda state, rti=rti, pi=pi: rates(jnp.asarray(state), jnp.asarray(rti), jnp.asarray(pi)))
        np.testing.assert_allclose(ours(healthy), _rates(healthy, rti, pi), rtol=1e-12)
    relative = np.abs(np.array(_rates(healthy, 0, 0)) / healthy)
    assert relative.max() < 0.1  # the point is known to whole cells only, of which T2* has six


def test_healthy_patient_stays_healthy_without_drugs():
    step = in_float64(jax.jit(HIV.step))
    state = np.array([967839.0, 621.0, 76.0, 6.0, 415.0, 353108.0])
    for _ in range(40):
        state, reward, terminated = step(state, 0)
    np.testing.assert_allclose(state, [967839, 621, 76, 6, 415, 353108], rtol=0.1)
    assert float(reward) > 3
    assert not terminated


def test_step_is_the_same_inside_another_program(simulate):
    """Traced with 64-bit numbers off, as inside a learner's compiled function, and one by one."""
    actions = switching_sequences()
    expected, _ = simulate(actions)
    state = HIV.reset(jax.random.key(0))
    assert state.dtype == np.float64

    @jax.jit
    def elsewhere(state, actions):
        def advance(state, action):
            state = HIV.step(state, action)[0]
            return state, (state, HIV.observe(state))

        return jax.vmap(lambda row: jax.lax.scan(advance, state, row)[1])(actions)

    states, observations = elsewhere(state, jnp.asarray(actions[:, :50], jnp.int32))
    assert states.dtype == np.float64
    assert observations.dtype == np.float32
    np.testing.assert_allclose(states, expected[:, :50], rtol=1e-9)
    np.testing.assert_allclose(observations, np.log10(expected[:, :50]), rtol=1e-6)
    np.testing.assert_allclose(HIV.step(state, int(actions[0, 0]))[0], expected[0, 0], rtol=1e-9)


def test_a_state_that_cannot_be_integrated_gives_nan_and_returns():
    assert np.isnan(in_float64(jax.jit(HIV.step))(np.full(6, np.nan), 3)[0]).all()


@pytest.mark.parametrize("policies", [300, pytest.param(1000, marks=pytest.mark.long)])
def test_no_policy_breaks_the_simulator(simulate, policies):
    """An action distribution each, from even to all but constant, and a stickiness each, for every policy."""
    generator = np.random.default_rng(1)
    concentration = 10.0 ** generator.uniform(-1, 1, size=(policies, 1))
    preferences = generator.gamma(np.repeat(concentration, 4, axis=1)) + 1e-12
    cumulative = (preferences / preferences.sum(axis=1, keepdims=True)).cumsum(axis=1)
    drawn = (generator.random((policies, 200, 1)) > cumulative[:, None]).sum(axis=2).clip(0, 3)
    stays = generator.random((policies, 200)) < generator.random((policies, 1))
    actions = drawn
    for step in range(1, 200):
        actions[:, step] = np.where(stays[:, step], actions[:, step - 1], drawn[:, step])
    assert len(np.unique(actions, axis=0)) > 0.8 * policies

    states, rewards = simulate(actions)
    assert np.isfinite(states).all()
    assert np.isfinite(rewards).all()
    assert (states > 0).all()
    assert np.abs(np.log10(states)).max() < 12
    assert states[..., 4].max() > 1.5e6


def test_uniform_policy_has_the_known_score():
    episodes = rollout(HIV, lambda observation: jnp.full(4, 0.25), episode_keys(0, 128))
    np.testing.assert_allclose(episodes.observations[:, 0], np.tile(np.log10(UNHEALTHY), (128, 1)), rtol=1e-6)
    assert episodes.valid.all()
    assert not episodes.terminated.any()
    for discount, known in ((0.98, 2.25e6), (1.0, 9.95e6)):
        scores = HIV.reward_scale * returns(episodes, discount)
        assert abs(scores.mean() - known) < 4 * scores.std() / np.sqrt(128)
