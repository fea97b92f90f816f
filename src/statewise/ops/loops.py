"""Loops of small steps, as they suit the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax

T = TypeVar("T")

AT_ONCE = {"cpu": 1, "gpu": 1}  # steps that are compiled as one piece


def in_turn(step: Callable[[T, Any], tuple[T, Any]], state: T, each: Any) -> tuple[T, Any]:
    """`jax.lax.scan` with as many steps at once as suits the device."""
    return jax.lax.scan(step, state, each, unroll=AT_ONCE.get(jax.default_backend(), 1))


def gathers_ahead() -> bool:
    """Whether what all steps need is gathered before the loop: fewer and larger launches, where these cost most.

    On a CPU a step gathers for itself, and its rows are still in the cache when they are used.
    """
    return jax.default_backend() != "cpu"
