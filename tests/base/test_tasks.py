"""Results come in the order of the parts, whoever computes them."""

import pytest

from scattered import Scattered
from statewise.base.tasks import elsewhere, mapped, using


def test_parts_are_computed_here_one_at_a_time_unless_a_backend_is_used():
    seen = []
    results = mapped(lambda part: seen.append(part) or 2 * part, [1, 2, 3])
    assert next(results) == 2
    assert seen == [1]
    assert not elsewhere()


def test_results_of_a_backend_come_in_the_order_of_the_parts():
    seen = []
    with using(Scattered()):
        assert elsewhere()
        assert list(mapped(lambda part: seen.append(part) or 2 * part, [1, 2, 3])) == [2, 4, 6]
    assert seen == [3, 2, 1]
    assert not elsewhere()


def test_a_backend_is_left_where_its_block_fails():
    with pytest.raises(ZeroDivisionError), using(Scattered()):
        list(mapped(lambda part: 1 / part, [0]))
    assert not elsewhere()
