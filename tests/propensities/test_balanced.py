"""The mixture of several loggers: its probabilities, and importance weights by them."""

import numpy as np
import pytest

from statewise.data.concat import concat
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.propensities.balanced import balanced, effective_share, together

STATES, ACTIONS, HORIZON = 4, 3, 5
WORLD = TabularMDP.random(STATES, ACTIONS, seed=0)
RNG = np.random.default_rng(1)
TABLES = [RNG.dirichlet(np.ones(ACTIONS), size=STATES) for _ in range(3)]
ONE, TWO, TARGET = TABLES


class Table:
    def __init__(self, table):
        self.table = table

    def probabilities(self, observations, legal=None):
        return self.table[np.asarray(observations).argmax(axis=1)]


def logs(first: int, second: int, seed: int = 0):
    return concat(
        [collect_tabular(WORLD, ONE, first, HORIZON, seed), collect_tabular(WORLD, TWO, second, HORIZON, seed + 1)]
    )


def test_the_product_over_an_episode_is_the_mixtures_probability_of_it():
    both = logs(30, 70)
    mixed = balanced(both, [Table(ONE), Table(TWO)])
    states = both.observations.argmax(axis=1)
    for e in range(both.episodes):
        rows = range(both.starts[e], both.starts[e + 1])
        own = [np.prod([table[states[i], both.actions[i]] for i in rows]) for table in (ONE, TWO)]
        expected = 0.3 * own[0] + 0.7 * own[1]
        assert np.prod(mixed.propensities[list(rows)]) == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(mixed.distributions.sum(axis=1), 1.0, atol=1e-12)


def test_importance_sampling_is_unbiased_and_varies_less():
    exact = 0.0
    distribution = WORLD.initial
    for _ in range(HORIZON):
        exact += float(distribution @ (TARGET * WORLD.rewards).sum(axis=1))
        distribution = distribution @ WORLD.chain(TARGET)
    found = {"own": [], "balanced": []}
    for seed in range(0, 600, 2):
        both = logs(20, 20, seed)
        for name, one in (("own", both), ("balanced", balanced(both, [Table(ONE), Table(TWO)]))):
            states = one.observations.argmax(axis=1)
            ratio = np.log(TARGET[states, one.actions] / one.propensities)
            weights = np.exp(np.add.reduceat(ratio, one.starts[:-1]))
            found[name].append(np.mean(weights * one.returns()))
    for values in found.values():
        assert np.mean(values) == pytest.approx(exact, abs=4 * np.std(values) / np.sqrt(len(values)))
    assert np.var(found["balanced"]) < 0.8 * np.var(found["own"])


def test_what_none_of_the_policies_does_is_refused():
    both = logs(5, 5)
    with pytest.raises(ValueError, match="none of the loggers' policies takes action"):
        balanced(both, [Table(np.eye(ACTIONS)[[0] * STATES])] * 2)
    with pytest.raises(ValueError, match="expected one for each of the 2 loggers, got 1"):
        balanced(both, [Table(ONE)])


def test_logs_are_weighed_together_where_the_newest_policy_then_weighs_rows_more_evenly():
    first, second = (collect_tabular(WORLD, table, 200, HORIZON, seed) for seed, table in enumerate((ONE, TWO)))
    both, policies = concat([first, second]), [Table(ONE), Table(TWO)]

    def share(data):
        states = data.observations.argmax(axis=1)
        return effective_share(TWO[states, data.actions] / data.propensities)

    found = together([first, second], policies)
    assert share(found) == max(share(both), share(balanced(both, policies))) > share(both)
    np.testing.assert_array_equal(found.propensities, balanced(both, policies).propensities)
    # one policy wrote both: nothing to gain, and rows keep what was logged
    same = together([first, collect_tabular(WORLD, ONE, 200, HORIZON, 7)], [Table(ONE), Table(ONE)])
    np.testing.assert_allclose(same.propensities, ONE[same.observations.argmax(axis=1), same.actions], rtol=1e-6)
    assert effective_share(np.array([3.0, 1.0])) == pytest.approx(16 / 20)
