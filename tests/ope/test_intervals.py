"""Student's quantiles, the degrees of freedom that a standard error has, and intervals that know of both."""

import numpy as np
import pytest
from scipy import stats

from statewise.ope.intervals import bootstrap, cautious, freedom, seldomer, student
from statewise.ope.quotient import Quotient


def mean_of(values):
    return Quotient(values, *[np.ones(len(values))] * 3)


def interval(values, level=0.95, draws=500):
    return bootstrap([mean_of(values)], np.arange(len(values)), level, draws, 0)[0]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99, 0.999])
def test_students_quantiles(level):
    for degrees in [1.0, 2.0, 2.5, 3.0, 4.7, 8.0, 15.0, 29.9, 30.0, 31.0, 100.0, 1e4]:
        exact = stats.t.ppf((1 + level) / 2, degrees)
        assert student(level, degrees) == pytest.approx(exact, rel=1e-4), degrees


def test_normal_values_give_as_many_degrees_as_there_are():
    values = np.random.default_rng(0).normal(size=20_000)
    assert freedom(values - values.mean(), np.arange(20_000)) == pytest.approx(20_000, rel=0.03)
    assert freedom(np.tile([1.0, -1.0], 10), np.arange(20)) == 19  # whose squares do not vary at all


def test_two_episodes_that_make_up_the_error_give_four_degrees():
    """κ = G/2, and so 2G/(G/2 − 1)."""
    values = np.zeros(400)
    values[:2] = 5.0, -5.0
    assert freedom(values, np.arange(400)) == pytest.approx(800 / 199)
    assert freedom(values, np.arange(400) // 2) == 199  # two episodes of one unit that cancel: nothing varies


def test_degrees_are_those_by_which_the_variance_varies():
    """Var(s²) = 2σ⁴/ν, over many samples of values with heavy tails."""
    rng = np.random.default_rng(3)
    samples = rng.normal(size=(4000, 300)) * np.where(rng.random((4000, 300)) < 0.1, 3.0, 1.0)
    variances = samples.var(axis=1, ddof=1)
    expected = 2 * variances.mean() ** 2 / variances.var()
    known = np.median([freedom(sample - sample.mean(), np.arange(300)) for sample in samples[:300]])
    assert known == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize("groups", [5, 12, 60, 400])
def test_intervals_are_no_narrower_than_students_on_either_side(groups):
    generator = np.random.default_rng(0)
    for draw in (generator.normal, generator.exponential):
        values = draw(size=groups)
        low, high = interval(values)
        least = student(0.95, freedom(values - values.mean(), np.arange(groups))) * stats.sem(values)
        assert low <= values.mean() - least * (1 - 1e-9)
        assert high >= values.mean() + least * (1 - 1e-9)


def test_few_groups_are_covered_as_often_as_it_says():
    generator = np.random.default_rng(1)
    covered = [low <= 0 <= high for low, high in (interval(generator.normal(size=8), 0.9, 100) for _ in range(400))]
    assert 0.88 <= np.mean(covered) <= 0.99


def test_rare_heavy_values_are_covered_as_often_as_it_says():
    """±50 in one of a hundred and noise else: a plain studentised bootstrap of these covers 0 in 87 %."""
    rng, covered = np.random.default_rng(2), []
    for _ in range(300):
        heavy = (rng.random(300) < 0.01) * rng.choice([-50.0, 50.0], size=300)
        low, high = interval(heavy + rng.normal(size=300), draws=200)
        covered.append(low <= 0 <= high)
    assert np.mean(covered) >= 0.93


@pytest.mark.parametrize("spread", [1.0, 1e6])
def test_a_cautious_interval_misses_five_times_less_often(spread):
    assert seldomer(0.95) == pytest.approx(0.99)
    values = spread * np.random.default_rng(4).normal(size=1000)
    one, groups = mean_of(values), np.arange(1000)
    bound = interval(values)
    low, high = cautious(bound, one, groups, 0.95)
    degrees = freedom(one.influence(), groups)
    factor = stats.t.ppf(0.995, degrees) / stats.t.ppf(0.975, degrees)
    assert low == pytest.approx(one.value + factor * (bound[0] - one.value))
    assert high == pytest.approx(one.value + factor * (bound[1] - one.value))
    assert cautious((-np.inf, np.inf), one, groups, 0.95) == (-np.inf, np.inf)
