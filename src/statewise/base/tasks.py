"""Work in parts that do not depend on each other: done here one after the other, or wherever a `Backend` does it.

The results come in the order of the parts, whoever computes them, so that sums are added in the same order and have the
same digits.

>>> list(mapped(lambda part: part**2, [1, 2, 3]))
[1, 4, 9]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar, runtime_checkable

Part = TypeVar("Part")
Result = TypeVar("Result")


@runtime_checkable
class Backend(Protocol):
    """Computes parts elsewhere. What a function needs goes with it; it must not change what it was given."""

    def mapped(self, compute: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]: ...


_current: ContextVar[Backend | None] = ContextVar("backend", default=None)


def mapped(compute: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """`compute` of each part, in their order."""
    backend = _current.get()
    return map(compute, parts) if backend is None else backend.mapped(compute, parts)


def elsewhere() -> bool:
    """Whether parts are computed by other processes."""
    return _current.get() is not None


@contextmanager
def using(backend: Backend) -> Iterator[None]:
    """Lets `backend` do all work in parts."""
    token = _current.set(backend)
    try:
        yield
    finally:
        _current.reset(token)
