"""Rows are drawn as often as d̂_γ says."""

import jax
import numpy as np
import pytest

from logs import make
from statewise.data.sampling import row_sampler


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
