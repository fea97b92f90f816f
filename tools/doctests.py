"""For the site's Python reference: examples in docstrings become blocks of code, without the flags for doctest."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", flags=re.M)  # up to the next empty line
FLAG = re.compile(r" +# doctest: .*$", flags=re.M)


class Doctests(Extension):
    """Markdown would take `>>>` for three nested quotations."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_code(obj.docstring.value)


def as_code(docstring: str) -> str:
    return EXAMPLE.sub(lambda example: f"```pycon\n{FLAG.sub('', example[0])}\n```", docstring)
