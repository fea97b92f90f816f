"""Sums over rows, block by block and only over hats that are not 0, against features written out and plain sums."""

from dataclasses import replace

import numpy as np
import pytest

from logs import written_out
from statewise.data.dataset import Dataset
from statewise.ope import features as features_module
from statewise.ope import order as order_module
from statewise.ope.equations import make_equations
from statewise.ope.estimators.doubly_robust_state_ratio import doubly_robust_state_ratio
from statewise.ope.evaluate import prepare
from statewise.ope.features import time_knots
from statewise.ope.order import in_folds
from statewise.ope.prepared import Case
from statewise.ope.quotient import standard_error
from statewise.ope.rows import Rows, Weights, _single
from statewise.ops.clock import hats
from statewise.parts.chain import chain_of

LIMIT = 30


def near_its_limit(episodes=240, limit=LIMIT, seed=0):
    """A walk that goes on to the limit, or ends on the way; what it does moves it and is paid for."""
    rng = np.random.default_rng(seed)
    seen, taken, paid, chances, ended = [], [], [], [], []
    for _ in range(episodes):
        state, rows = rng.normal(size=2), []
        length = min(int(rng.geometric(0.03)), limit)
        for _ in range(length):
            right = 1 / (1 + np.exp(-state[0]))
            action = int(rng.random() < right)
            rows.append((state, action, state[0] + action, [1 - right, right]))
            state = 0.9 * state + 0.3 * (2 * action - 1) * np.array([1.0, -0.5]) + 0.2 * rng.normal(size=2)
        one, two, three, four = zip(*rows, strict=True)
        seen.append(np.array([*one, state]))
        taken.append(two)
        paid.append(three)
        chances.append(np.array(four))
        ended.append(length < limit)
    return Dataset.from_episodes(
        observations=seen, actions=taken, rewards=paid, distributions=chances, terminated=ended
    )


def further_right(data):
    chances = 1 / (1 + np.exp(-data.observations[:, 0] - 0.4))
    return np.stack([1 - chances, chances], axis=1)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(order_module, "BLOCK", 100)


def log_of(limited):
    data = near_its_limit()
    if not limited:
        data = replace(data, terminated=np.ones(data.episodes, bool))
    return prepare(data, discount=0.98)


@pytest.mark.parametrize("limited", [False, True])
def test_an_order_is_one_of_whole_episodes(small_blocks, limited):
    data = near_its_limit()
    order = in_folds(data, 0, time_knots(data, 1.0) if limited else None)
    assert sorted(order.rows) == list(range(len(data)))
    assert len(order.blocks) > 30
    values = np.random.default_rng(0).normal(size=len(data))
    for block in order.blocks:
        at, mine = order.rows[block.part], values[order.rows[block.part]]
        episodes = order.episodes[block.episodes]
        np.testing.assert_array_equal(at[block.first], data.starts[episodes])
        np.testing.assert_array_equal(at[block.last], data.starts[episodes + 1] - 1)
        np.testing.assert_array_equal(episodes[block.episode], data.episode_of_step[at])
        assert (order.fold_of_episode[episodes] == block.fold).all()
        last, first = set(data.starts[1:] - 1), set(data.starts[:-1])
        np.testing.assert_array_equal(block.after(mine), [0.0 if i in last else values[i + 1] for i in at])
        np.testing.assert_array_equal(block.handed_on(mine), [0.0 if i in first else values[i - 1] for i in at])
        whole = [values[data.starts[e] : data.starts[e + 1]].sum() for e in episodes]
        np.testing.assert_allclose(block.by_episode(mine), whole, atol=1e-12)


@pytest.mark.parametrize("limited", [False, True])
def test_sums_over_rows_against_plain_ones(small_blocks, limited):
    log = log_of(limited)
    data, equations = log.dataset, log.horizon_equations
    rows, order, fold = equations.rows, equations.order, equations.fold_of_episode[log.dataset.episode_of_step]
    assert (rows.turn is not None) == limited
    here = equations.in_log_order(written_out(equations))
    after = np.append(here[1:], here[:1], axis=0)
    after[data.starts[1:] - 1] = 0.0  # nothing is known of what follows
    rng = np.random.default_rng(1)
    stays, moves = rng.normal(size=(2, len(data), 3)) / len(data)
    taken = data.actions.astype(np.int64)

    sums = rows.sums(lambda block: stays[order[block.part]])
    by_group = rows.moments(
        lambda block: Weights(stays[order[block.part]], moves[order[block.part]], taken[order[block.part]]), 2
    )
    for f in range(3):
        np.testing.assert_allclose(sums[f], here[fold == f].T @ stays[fold == f], atol=1e-6)
        for action in range(2):
            own = (fold == f) & (taken == action)
            for k in range(3):
                left = moves[own, k, None] * after[own] + stays[own, k, None] * here[own]
                np.testing.assert_allclose(by_group[f, action, k], left.T @ here[own], atol=1e-6)
    alone = rows.moments(lambda block: Weights(moves=moves[order[block.part]]))[:, 0].sum(axis=0)
    np.testing.assert_allclose(alone[1], (moves[:, 1, None] * after).T @ here, atol=1e-6)
    for block in equations.blocks:
        at = order[block.part]
        for e, given in zip(equations.episodes[block.episodes], rows.by_episode(block, stays[at, 0]), strict=True):
            part = slice(data.starts[e], data.starts[e + 1])
            np.testing.assert_allclose(given, stays[part, 0] @ here[part], atol=1e-6)


def test_features_are_those_of_states_times_hats():
    """Up to a rotation, which changes nothing: products of any two rows are compared."""
    log = log_of(limited=True)
    data, equations, clock = log.dataset, log.horizon_equations, time_knots(log.dataset, log.discount)
    chain = chain_of(data, log.discount, stationary=False)
    seen = {}
    timed = features_module._timed  # pyright: ignore[reportPrivateUsage]

    def look(phi, order, *more):
        seen["phi"] = phi.astype(np.float64)
        return timed(phi, order, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features_module, "_timed", look)
        _ = prepare(data, discount=log.discount).horizon_equations
    phi = equations.in_log_order(seen["phi"])
    products = (hats(data.time, clock)[:, :, None] * phi[:, None, :]).reshape(len(data), -1)
    variance, directions = np.linalg.eigh(products.T @ (chain.weight[:, None] / chain.weight.sum() * products))
    kept = variance > 1e-6 * variance[-1]
    plain = products @ (directions[:, kept] / np.sqrt(variance[kept]))
    here = equations.in_log_order(written_out(equations))
    assert here.shape == plain.shape
    np.testing.assert_allclose(here[::50] @ here.T, plain[::50] @ plain.T, atol=1e-4 * np.abs(plain @ plain[0]).max())


def judged(log, chances):
    found = doubly_robust_state_ratio(Case(log, chances), log.dataset.rewards)
    return found.value, standard_error(found.influence(), log.dataset.groups), found.influence()


@pytest.mark.parametrize("limited", [False, True])
def test_estimates_are_those_of_features_written_out_in_double_precision(limited):
    log = log_of(limited)
    data, equations = log.dataset, log.horizon_equations
    value, error, influence = judged(log, further_right(data))
    order = in_folds(data, 0)
    dense = Rows(order, equations.in_log_order(written_out(equations))[order.rows])
    assert dense.features.dtype == np.float64
    plain = prepare(data, discount=log.discount)
    chain = chain_of(data, log.discount, stationary=False)
    plain.__dict__["horizon_equations"] = make_equations(chain, dense, equations.settings)
    plain_value, plain_error, plain_influence = judged(plain, further_right(data))
    assert value == pytest.approx(plain_value, abs=1e-3 * plain_error)
    assert error == pytest.approx(plain_error, rel=1e-3)
    np.testing.assert_allclose(influence, plain_influence, atol=1e-3 * np.abs(plain_influence).max())


def test_half_precision_of_features_changes_no_estimate_by_a_hundredth_of_its_error(monkeypatch):
    data = log_of(limited=False).dataset
    value, error, _ = judged(prepare(data, discount=0.98), further_right(data))
    monkeypatch.setattr(features_module, "HALF", 0)
    half = prepare(data, discount=0.98)
    assert half.horizon_equations.rows.features.dtype == np.float16
    other, other_error, _ = judged(half, further_right(data))
    assert value != other
    assert other == pytest.approx(value, abs=0.01 * error)
    assert other_error == pytest.approx(error, rel=0.01)


def test_half_precision_is_widened_to_the_same_bits():
    half = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    half = half[np.isfinite(half)].reshape(-1, 2)
    np.testing.assert_array_equal(_single(half).view(np.uint32), half.astype(np.float32).view(np.uint32))
