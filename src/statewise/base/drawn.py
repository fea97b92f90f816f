"""Methods that draw: their pictures and pages are made in `report`, far above, and imported when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def drawn(by: str, doc: str = "The same as HTML, for notebooks.") -> Callable[..., Any]:
    """A method that is the function at `module:name`, given the object.

    >>> class Name(str):
    ...     shout = drawn("builtins:ascii", "In letters that every terminal has.")
    >>> Name("é").shout()
    "'\\\\xe9'"
    """
    module, _, name = by.partition(":")

    def method(self, *given: Any, **named: Any) -> Any:
        return getattr(import_module(module), name)(self, *given, **named)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return method
