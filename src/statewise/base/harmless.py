"""Text from elsewhere, such as names in a log, that commands nothing: neither a terminal nor a page obeys it."""

from __future__ import annotations

import re

# Controls but for tab and line feed, and marks that turn the direction of what follows.
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    r"""The text with every control written as Python would.

    >>> harmless("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return COMMANDS.sub(lambda found: repr(found[0])[1:-1], text)
