"""Rows are drawn as often as d̂_γ says."""

import jax
import numpy as np
import pytest

from logs import make
from statewise.data.sampling import random_below, row_sampler


@pytest.mark.parametrize("discount", [1.0, 0.98, 0.5])
def test_rows_are_drawn_in_proportion_to_the_discount(discount):
    data = make([1, 5, 2, 7])
    draws = np.asarray(row_sampler(data, discount).draw(jax.random.key(0), 200_000))
    weight = discount**data.time
    expected = weight / weight.sum()
    shares = np.bincount(draws, minlength=len(data)) / len(draws)
    assert draws.max() < len(data)
    deviation = np.sqrt(expected * (1 - expected) / len(draws))
    assert (np.abs(shares - expected) < 4.5 * deviation).all()


def test_long_episodes_keep_their_tail():
    data = make([3000, 1])
    draws = np.asarray(row_sampler(data, 0.999).draw(jax.random.key(1), 100_000))
    weight = 0.999**data.time
    assert abs(data.time[draws].mean() - (weight * data.time).sum() / weight.sum()) < 12


@pytest.mark.parametrize("limit", [1, 3, 70_001, 10**7, 2**31 - 1])
def test_numbers_below_a_limit_are_the_upper_half_of_a_product(limit):
    key = jax.random.key(2)
    bits = np.asarray(jax.random.bits(key, (1000,)), np.uint64)
    expected = (bits * np.uint64(limit)) >> np.uint64(32)
    np.testing.assert_array_equal(random_below(key, 1000, limit), expected.astype(np.int64))
