"""Which columns matter, and features that are white in state and time together."""

from dataclasses import replace

import numpy as np
import pytest

from logs import written_out
from statewise.data.horizon import Horizon
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ope.evaluate import prepare
from statewise.ope.features import FEW, relevance_of, time_knots


def each_row(part):
    """Each of 3,000 rows is independent of all others."""
    return np.arange(3000)[part]


def test_the_two_columns_of_twenty_that_matter_are_found():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(3000, 20))
    to_come = states[:, 3] + 0.5 * states[:, 11] ** 2 + rng.normal(size=3000)
    relevance = relevance_of(states, to_come, np.ones(3000), each_row)
    assert set(np.flatnonzero(relevance > 0.5)) == {3, 11}
    assert relevance[3] == 1.0  # of all variance, 1/2.5 and .5/2.5
    assert relevance[11] == pytest.approx(np.sqrt(0.5), abs=0.08)
    others = np.delete(relevance, [3, 11])
    np.testing.assert_allclose(others, (FEW / 20) ** 1.5)


def test_rows_that_do_not_count_tell_nothing():
    rng = np.random.default_rng(0)
    states, counts = rng.normal(size=(3000, 20)), np.arange(3000) % 2
    to_come = np.where(counts, states[:, 0], 100 * states[:, 1]) + rng.normal(size=3000)
    relevance = relevance_of(states, to_come, counts.astype(float), each_row)
    assert relevance[0] == 1.0
    assert relevance[1] == pytest.approx((FEW / 20) ** 1.5)


def test_what_chance_tells_of_episodes_is_taken_off():
    """Columns that stay the same in an episode tell by chance as the number of episodes allows, not that of rows."""
    rng, episode, least = np.random.default_rng(0), np.repeat(np.arange(100), 30), (FEW / 20) ** 1.5 + 1e-9
    told = {"by episodes": [], "by rows": []}
    for _ in range(20):
        states = np.append(rng.normal(size=(3000, 1)), rng.normal(size=(100, 19))[episode], axis=1)
        to_come = states[:, 0] + rng.normal(size=100)[episode] + rng.normal(size=3000)
        for name, group in (("by episodes", lambda part: episode[part]), ("by rows", each_row)):
            relevance = relevance_of(states, to_come, np.ones(3000), group)
            assert relevance[0] == 1.0
            told[name].append((relevance[1:] > least).mean())
    assert np.mean(told["by episodes"]) < 0.15  # two standard errors, of a column or of its square: one in eleven
    assert np.mean(told["by rows"]) > 3 * np.mean(told["by episodes"])


@pytest.mark.parametrize("columns", [2, FEW])
def test_few_columns_all_count_alike(columns):
    rng = np.random.default_rng(0)
    states = rng.normal(size=(500, columns))
    np.testing.assert_array_equal(
        relevance_of(states, states[:, 0], np.ones(500), lambda part: np.arange(500)[part]), 1.0
    )


def test_where_no_column_tells_anything_all_count_alike():
    rng = np.random.default_rng(1)
    states = rng.normal(size=(400, 20))
    np.testing.assert_array_equal(
        relevance_of(states, np.ones(400), np.ones(400), lambda part: np.arange(400)[part]), 1.0
    )


@pytest.mark.parametrize(("steps", "discount"), [(6, 1.0), (40, 0.98), (40, 0.5)])
def test_features_are_white_on_the_log_and_span_the_constant(steps, discount):
    mdp = TabularMDP.random(4, 2, seed=3)
    data = collect_tabular(mdp, np.full((4, 2), 0.5), 300, steps, seed=0)
    data = replace(data, ends=Horizon("continuing") if discount == 0.5 else None)
    log = prepare(data, discount=discount)
    equations, clock = log.horizon_equations, time_knots(data, discount)
    assert (clock is None) == (discount == 0.5)  # next to nothing lies beyond
    assert clock is None or (clock.tolist() == list(range(6)) if steps == 6 else clock[-1] == 39)
    here, weight = written_out(equations), equations.weights[equations.order] / equations.total
    assert weight.sum() == pytest.approx(1)
    exact = 1e-3 if clock is not None else 0.05  # without a clock from a sample of rows
    np.testing.assert_allclose(here.T @ (weight[:, None] * here), np.eye(here.shape[1]), atol=exact)
    constant, *_ = np.linalg.lstsq(here, np.ones(len(here)), rcond=None)
    np.testing.assert_allclose(here @ constant, 1.0, atol=1e-4)
