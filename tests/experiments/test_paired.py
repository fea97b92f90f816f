"""Paired intervals against SciPy's own."""

import numpy as np
import pytest
from scipy import stats

from statewise.experiments.paired import difference


@pytest.mark.parametrize("count", [2, 3, 10])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_is_that_of_the_paired_t_test(count, level):
    rng = np.random.default_rng(count)
    first, second = rng.normal(1, 2, count), rng.normal(0, 1, count)
    paired = difference(first, second, level)
    expected = stats.ttest_rel(first, second).confidence_interval(level)
    np.testing.assert_allclose([paired.low, paired.high], [expected.low, expected.high], rtol=1e-12)
    assert paired.mean == pytest.approx(np.mean(first - second))
    assert (paired.pairs, paired.more) == (count, np.sum(first > second))


def test_pairs_with_a_failed_run_are_left_out_and_one_pair_decides_nothing():
    paired = difference(np.array([1.0, np.nan, 3.0]), np.array([0.0, 0.0, np.nan]))
    assert (paired.pairs, paired.mean, paired.low, paired.high) == (1, 1.0, -np.inf, np.inf)
    assert difference(np.array([np.nan]), np.array([1.0])).pairs == 0
