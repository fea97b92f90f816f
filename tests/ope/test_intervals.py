"""Student's quantiles, where groups are few."""

import numpy as np
import pytest
from scipy import stats

from statewise.ope.intervals import bootstrap, student
from statewise.ope.quotient import Quotient


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95, 0.99])
def test_students_quantiles(level):
    """To .1 % from four degrees on at usual levels; far out in the tail a few degrees more are needed."""
    for freedom in range(4 if level < 0.99 else 7, 201):
        exact = stats.t.ppf((1 + level) / 2, freedom)
        assert student(level, freedom) == pytest.approx(exact, rel=1e-3), freedom


@pytest.mark.parametrize("groups", [5, 12, 60])
def test_intervals_of_few_groups_are_no_narrower_than_students(groups):
    generator = np.random.default_rng(0)
    for _ in range(5):
        values = generator.normal(size=groups)
        one = Quotient(values, *[np.ones(groups)] * 3)
        ((low, high),) = bootstrap([one], np.arange(groups), 0.95, 500, 0)
        exact = stats.t.interval(0.95, groups - 1, loc=values.mean(), scale=stats.sem(values))
        slack = 2e-3 * (exact[1] - exact[0])
        assert low <= exact[0] + slack
        assert high >= exact[1] - slack


def test_few_groups_are_covered_as_often_as_it_says():
    generator, covered = np.random.default_rng(1), []
    for _ in range(400):
        values = generator.normal(size=8)
        ((low, high),) = bootstrap([Quotient(values, *[np.ones(8)] * 3)], np.arange(8), 0.9, 100, 0)
        covered.append(low <= 0 <= high)
    assert 0.88 <= np.mean(covered) <= 0.99
