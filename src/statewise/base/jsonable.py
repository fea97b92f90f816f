"""Values as JSON can hold them."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any


def jsonable(value: Any) -> Any:
    """Dataclasses become objects, tuples lists, and numbers that are not finite null, since JSON has none.

    >>> jsonable({"low": float("-inf"), "rows": (1, 2)})
    {'low': None, 'rows': [1, 2]}
    """
    if is_dataclass(value):
        return {each.name: jsonable(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
