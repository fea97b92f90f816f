"""Examples in docstrings as the site shows them."""

from doctests import as_code

DOCSTRING = """One line.

>>> one = 1  # doctest: +SKIP
>>> one
1

More, and `>>>` within a line."""


def test_examples_become_blocks_of_code():
    assert as_code(DOCSTRING) == (
        "One line.\n\n```pycon\n>>> one = 1\n>>> one\n1\n```\n\nMore, and `>>>` within a line."
    )


def test_other_text_stays():
    assert as_code("V = Σₜ γᵗ rₜ\n\n    indented") == "V = Σₜ γᵗ rₜ\n\n    indented"
