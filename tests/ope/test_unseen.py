"""What the log does not show, by what it shows once."""

from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from statewise.ope.estimators.doubly_robust_state_ratio import doubly_robust_state_ratio
from statewise.ope.estimators.state_ratio import carried_by_ratio
from statewise.ope.evaluate import prepare
from statewise.ope.prepared import Case
from statewise.ope.unseen import _by_itself, seen_once, unseen_imbalance, unseen_steps


def whitened(features):
    variance, directions = np.linalg.eigh(features.T @ features)
    return (features @ (directions / np.sqrt(variance))).astype(np.float32)


@pytest.mark.parametrize("size", [3, 12])
def test_what_the_others_lack_is_their_own_leverage(size):
    """fᵀ(Σ_others ffᵀ)⁻¹f of every row of an episode, with fewer and with more rows than features."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 6))
    features[:size, 0] *= 20.0  # which the others hardly show
    own, others = features[:size], features[size:]
    expected = np.einsum("ij,jk,ik->i", own, np.linalg.inv(others.T @ others), own)
    assert expected.max() > 1
    np.testing.assert_allclose(_by_itself(whitened(features)[:size]), expected, rtol=1e-3)


def test_an_episode_like_the_others_lacks_nothing():
    features = np.random.default_rng(1).normal(size=(400, 5))
    assert not _by_itself(whitened(features)[:4]).any()


def test_of_states_told_apart_by_name_it_is_good_and_turings_share():
    """Rows of their own: seen once is a count of one, and its share that of what never came, in the mean."""
    rng, chances = np.random.default_rng(2), 0.7 ** np.arange(1, 40)
    chances /= chances.sum()
    once, missing = [], []
    for _ in range(200):
        counts = rng.multinomial(60, chances)
        came = counts[counts > 0]
        rows = np.repeat(np.eye(len(came)) / np.sqrt(came), came, axis=0)
        alone = np.array([_by_itself(row[None].astype(np.float32))[0] > 1 for row in rows])
        np.testing.assert_array_equal(alone, np.repeat(counts, counts) == 1)
        once.append(alone.mean())
        missing.append(chances[counts == 0].sum())
    assert np.mean(once) == pytest.approx(np.mean(missing), abs=3 * np.std(once) / np.sqrt(200))


def walks(far=(0,)):
    """Two hundred episodes of eight steps among nine places; those of `far` also go where no other goes."""
    rng, places = np.random.default_rng(5), []
    for episode in range(200):
        place = rng.integers(-4, 5, size=8) / 4.0
        if episode in far:
            place[5:] = 8.0
        places.append(place)
    return sw.Dataset.from_episodes(
        observations=[place[:, None] for place in places],
        actions=list(rng.integers(2, size=(200, 8))),
        rewards=[place + rng.normal(size=8) for place in places],
        distributions=[np.full((8, 2), 0.5)] * 200,
        terminated=[True] * 200,
    )


def half(data):
    return np.full((len(data), 2), 0.5)


def test_only_the_rows_that_no_other_episode_shows():
    data = walks()
    log = prepare(data, discount=1.0)
    assert np.flatnonzero(seen_once(log)).tolist() == [5, 6, 7]
    case = Case(log, half(data))
    assert unseen_steps(case) == pytest.approx(carried_by_ratio(case)[5:8].sum())
    assert unseen_steps(case) == pytest.approx(3 / 200, rel=0.1)
    equations = log.horizon_equations
    features = equations.in_log_order(equations.rows.times(np.eye(equations.rows.rank)))[5:8]
    assert unseen_imbalance(case) == pytest.approx(np.linalg.norm(features.sum(axis=0)) / 1600, rel=0.1)


def test_what_two_episodes_show_was_seen_but_not_if_both_are_one_unit_s():
    twice = walks(far=(0, 1))
    assert not seen_once(prepare(twice, discount=1.0)).any()
    units = np.r_[0, 0, np.arange(1, 199)]
    assert seen_once(prepare(replace(twice, units=units), discount=1.0)).sum() == 6


def test_the_interval_is_widened_by_the_spread_of_rewards_times_the_steps_unseen(by_features):
    data = walks()
    seen = sw.evaluate(half, walks(far=()), discount=1.0)
    case = Case(prepare(data, discount=1.0), half(data))
    estimate = doubly_robust_state_ratio(case, data.rewards)
    rewards = np.append(data.rewards, 0.0)
    assert estimate.unseen == pytest.approx(unseen_steps(case) / carried_by_ratio(case).sum())
    assert min(estimate.allowance) >= unseen_steps(case) * np.ptp(rewards) / np.sqrt(12)
    assert next(m for m in seen.measures if m.name == "unseen-situations").value == 0
