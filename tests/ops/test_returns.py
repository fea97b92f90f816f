"""λ-returns against sums written out and over every path of a small problem; Retrace and follow-on traces."""

import itertools

import jax
import numpy as np
import pytest

from statewise.domains.tabular import TabularMDP
from statewise.ops.returns import follow_on, lambda_returns, look_ahead, retrace_returns

TRACES = [0.0, 0.3, 1.0]
DISCOUNT, STEPS = 0.9, 4
_returns = jax.jit(lambda_returns, static_argnames="trace")
_many = jax.jit(jax.vmap(lambda_returns, in_axes=(0, 0, 0, 0, None, None)), static_argnums=5)


def written_out(rewards, next_values, next_ratios, discount, trace):
    """Rλ of each step of one episode: Σₖ (γλ)ᵏ ρ₁⋯ρₖ [rₖ + γ(1−λ) Vₖ₊₁], the last step with the whole of its V."""
    returns = []
    for t in range(len(rewards)):
        total, carried = 0.0, 1.0
        for k in range(t, len(rewards)):
            share = 1.0 if k == len(rewards) - 1 else 1 - trace
            total += carried * (rewards[k] + discount * share * next_values[k])
            carried *= discount * trace * next_ratios[k]
        returns.append(total)
    return returns


@pytest.mark.parametrize("trace", TRACES)
def test_ragged_episodes_one_after_another(trace):
    """Terminated ones have no value after their end, truncated ones bootstrap from the state they were cut off in."""
    rng = np.random.default_rng(0)
    lengths, terminated = [4, 1, 7, 1, 3], [True, True, False, False, False]
    pieces, expected = [], []
    for length, ended in zip(lengths, terminated, strict=True):
        rewards, values, ratios = rng.normal(size=length), rng.normal(size=length), rng.gamma(1.0, size=length)
        if ended:
            values[-1] = 0.0
        pieces.append((rewards, values, ratios, np.arange(length) == length - 1))
        expected += written_out(rewards, values, ratios, DISCOUNT, trace)
    rewards, values, ratios, ends = (np.concatenate(column) for column in zip(*pieces, strict=True))
    got = _returns(*(column.astype(np.float32) for column in (rewards, values, ratios)), ends, DISCOUNT, trace=trace)
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)


@pytest.fixture(scope="module")
def paths():
    """Every path of at most four steps, its probability under μ, ρ of its pairs and the exact V^π along it."""
    mdp = TabularMDP.random(states=2, actions=2, seed=1, termination=0.2)
    behaviour, policy = np.array([[0.7, 0.3], [0.4, 0.6]]), np.array([[0.2, 0.8], [0.9, 0.1]])
    values = mdp.state_values(policy, DISCOUNT)
    starts, chances, tables, lengths = [], [], [], []

    def extend(state, chance, steps):
        for action, following in itertools.product((0, 1), (0, 1, None)):
            ended = following is None
            went = mdp.termination[state, action] if ended else mdp.transitions[state, action, following]
            ratio = policy[state, action] / behaviour[state, action]
            path = [*steps, (mdp.rewards[state, action], 0.0 if ended else values[following], ratio)]
            if not ended and len(path) < STEPS:
                extend(following, chance * behaviour[state, action] * went, path)
                continue
            starts.append(start)
            chances.append(chance * behaviour[state, action] * went)
            lengths.append(len(path))
            tables.append(path + [(0.0, 0.0, 0.0)] * (STEPS - len(path)))

    for start in (0, 1):
        extend(start, 1.0, [])
    ends = np.arange(STEPS)[None, :] == np.array(lengths)[:, None] - 1
    return np.array(starts), np.array(chances), np.array(tables, np.float32), ends, values


def _mean_of_first_return(paths, trace, misprinted):
    starts, chances, table, ends, _ = paths
    rewards, values, ratios = table[..., 0], table[..., 1], table[..., 2]
    carried = ratios if misprinted else np.concatenate([ratios[:, 1:], np.ones_like(ratios[:, :1])], axis=1)
    first = np.asarray(_many(rewards, values, carried, ends, DISCOUNT, trace), np.float64)[:, 0]
    return np.bincount(starts, weights=chances * ratios[:, 0] * first)


@pytest.mark.parametrize("trace", TRACES)
def test_mean_over_the_behaviours_paths_is_the_policys_value(paths, trace):
    """E_μ[ρ(s,a) Rλ(s,a)] = V^π(s), over all paths, for every λ."""
    starts, chances, *_, values = paths
    np.testing.assert_allclose(np.bincount(starts, weights=chances), 1, atol=1e-12)
    np.testing.assert_allclose(_mean_of_first_return(paths, trace, misprinted=False), values, rtol=1e-6)


@pytest.mark.parametrize("trace", [0.3, 1.0])
def test_ratio_of_the_pair_itself_in_the_recursion_is_biased(paths, trace):
    """ρ(s,a) in place of ρ(s',a') enters twice with the critic's own weight, and the mean is off."""
    *_, values = paths
    off = np.abs(_mean_of_first_return(paths, trace, misprinted=True) / values - 1)
    assert off.max() > 0.05 * trace / 0.3


# Retrace


def test_retrace_against_sums_of_temporal_differences():
    """Qʳᵉᵗ(s₀,a₀) = Q + Σₖ γᵏ c₁⋯cₖ [rₖ + γ V(sₖ₊₁) − Q(sₖ,aₖ)], the definition by Munos et al. (2016)."""
    rng = np.random.default_rng(3)
    pieces, expected = [], []
    for length in (1, 5, 3):
        reward, value, q, trace = (rng.normal(size=length) for _ in range(4))
        trace = np.clip(np.abs(trace), 0, 1)
        for t in range(length):
            total, carried = q[t], 1.0
            for k in range(t, length):
                carried *= 1.0 if k == t else DISCOUNT * trace[k]
                total += carried * (reward[k] + DISCOUNT * value[k] - q[k])
            expected.append(total)
        following = [np.append(column[1:], np.nan if column is q else 1.0) for column in (q, trace)]
        pieces.append((reward, value, *following, np.arange(length) == length - 1))
    *columns, ends = (np.concatenate(column) for column in zip(*pieces, strict=True))
    got = jax.jit(retrace_returns)(*(np.nan_to_num(column).astype(np.float32) for column in columns), ends, DISCOUNT)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("trace", TRACES)
def test_mean_of_retrace_is_the_policys_action_value_if_its_critic_is_right(trace):
    """With exact V and Q every correction has mean 0, one action after another: Qʳᵉᵗ = r + γ E[V(s')] on average."""
    mdp = TabularMDP.random(states=3, actions=2, seed=4, termination=0.2)
    policy, behaviour = np.array([[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]]), np.full((3, 2), 0.5)
    rows = mdp.sample(behaviour, 30_000, 6, seed=0)
    v, q = mdp.state_values(policy, DISCOUNT), mdp.action_values(policy, DISCOUNT)
    here = q[rows["state"], rows["action"]]
    ratio = (policy / behaviour)[rows["state"], rows["action"]]
    last = np.append(rows["step"][1:] == 0, True)
    onward = np.where(rows["terminated"], 0.0, v[rows["next_state"]])
    shifted = [np.append(column[1:], 0.0) for column in (here, trace * np.minimum(ratio, 1))]
    columns = (rows["reward"], onward, *shifted)
    returns = jax.jit(retrace_returns)(*(column.astype(np.float32) for column in columns), last, DISCOUNT)
    for s, a in np.ndindex(3, 2):
        mine = np.asarray(returns, np.float64)[(rows["state"] == s) & (rows["action"] == a)]
        assert abs(mine.mean() - q[s, a]) < 4 * mine.std() / np.sqrt(len(mine))
        assert mine.std() / np.sqrt(len(mine)) < 0.01


# Follow-on traces


def test_follow_on_traces_against_a_loop():
    rng = np.random.default_rng(5)
    lengths = [4, 1, 7, 2]
    ratios, interest, first, expected = rng.gamma(1.0, size=sum(lengths)), rng.random(sum(lengths)), [], []
    for length in lengths:
        begin = len(first)
        first += [True] + [False] * (length - 1)
        trace = 0.0
        for t in range(length):
            trace = interest[begin + t] + (0.0 if t == 0 else DISCOUNT * ratios[begin + t - 1] * trace)
            expected.append(trace)
    got = jax.jit(follow_on)(ratios.astype(np.float32), np.array(first), DISCOUNT, interest.astype(np.float32))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_looking_ahead_against_a_loop():
    gains, factors = np.random.default_rng(6).normal(size=(2, 30))
    factors[[4, 11]] = 0.0
    expected, following = [], 0.0
    for gain, factor in zip(gains[::-1], factors[::-1], strict=True):
        following = gain + factor * following
        expected.append(following)
    got = jax.jit(look_ahead)(gains.astype(np.float32), factors.astype(np.float32))
    np.testing.assert_allclose(got, expected[::-1], rtol=1e-4, atol=1e-5)
