"""Values as JSON can hold them."""

import json
import math
from dataclasses import dataclass

from statewise.base.jsonable import jsonable


@dataclass(frozen=True)
class Point:
    x: float
    tags: tuple[str, ...] = ()


def test_numbers_that_are_not_finite_become_null_however_deep():
    value = {"a": [1, math.nan, (math.inf, {"b": -math.inf})], 3: Point(math.nan, ("u", "v")), "c": True}
    expected = {"a": [1, None, [None, {"b": None}]], "3": {"x": None, "tags": ["u", "v"]}, "c": True}
    assert jsonable(value) == expected
    assert json.loads(json.dumps(jsonable(value), allow_nan=False)) == expected


def test_everything_else_is_left_as_it_is():
    value = {"text": "nan", "none": None, "number": 1e308, "whole": 10**30, "flag": False}
    assert jsonable(value) == value
