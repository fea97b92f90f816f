"""Examples in docstrings as the site shows them."""

from doctests import as_code

DOCSTRING = """One line.

>>> one = [
...     1,
... ]  # doctest: +SKIP
>>> one
[1]
>>> one[0]
1

More, and `>>>` within a line."""

SHOWN = """One line.

```python
one = [
    1,
]
one
```

```text
[1]
```

```python
one[0]
```

```text
1
```

More, and `>>>` within a line."""


def test_examples_become_blocks_of_code_without_prompts():
    assert as_code(DOCSTRING) == SHOWN


def test_other_text_stays():
    assert as_code("V = Σₜ γᵗ rₜ\n\n    indented") == "V = Σₜ γᵗ rₜ\n\n    indented"
