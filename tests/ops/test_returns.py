"""The off-policy λ-return against sums written out forwards, and its mean over every path of a small problem."""

import itertools

import jax
import numpy as np
import pytest

from statewise.domains.tabular import TabularMDP
from statewise.ops.returns import lambda_returns

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
