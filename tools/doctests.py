"""For the site's Python reference: examples in docstrings become blocks of code that can be copied and pasted."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", flags=re.M)  # up to the next empty line
FLAG = re.compile(r" +# doctest: .*$", flags=re.M)
PROMPT = re.compile(r"^(?:>>>|\.\.\.)(?: |$)")


class Doctests(Extension):
    """Markdown would take `>>>` for three nested quotations."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_code(obj.docstring.value)


def as_code(docstring: str) -> str:
    return EXAMPLE.sub(lambda example: _blocks(example[0]), docstring)


def _blocks(example: str) -> str:
    """What is typed and what it prints, each in blocks of their own and without prompts."""
    blocks = []
    for typed, lines in groupby(FLAG.sub("", example).split("\n"), lambda line: PROMPT.match(line) is not None):
        text = "\n".join(PROMPT.sub("", line) for line in lines)
        blocks.append(f"```{'python' if typed else 'text'}\n{text}\n```")
    return "\n\n".join(blocks)
