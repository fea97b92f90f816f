"""Loops of small steps, as they suit the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax

T = TypeVar("T")

# Steps compiled as one piece, by backend.
AT_ONCE = {"cpu": 1, "gpu": 1}


def in_turn(step: Callable[[T, Any], tuple[T, Any]], state: T, each: Any) -> tuple[T, Any]:
    """`jax.lax.scan` with as many steps at once as the backend likes."""
    return jax.lax.scan(step, state, each, unroll=AT_ONCE.get(jax.default_backend(), 1))
