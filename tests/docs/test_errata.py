"""Each slip's proof or counter-example runs as it stands in docs/errata.md."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "errata.md").read_text(encoding="utf-8")
BEGINNING, *SECTIONS = re.split(r"^## ", TEXT, flags=re.M)


def snippets(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


def test_sections_are_numbered_without_gaps():
    assert [section.split(".")[0] for section in SECTIONS] == [str(n + 1) for n in range(len(SECTIONS))]
    assert len(SECTIONS) == 14


def test_every_proof_runs():
    """From top to bottom, as a reader would type them."""
    names = {}
    exec("".join(snippets(BEGINNING)), names)
    for section in SECTIONS:
        (code,) = snippets(section)
        assert "assert" in code
        title = section.split("\n")[0]
        try:
            exec(compile(code, f"docs/errata.md, {title}", "exec"), names)
        except AssertionError as error:
            raise AssertionError(f"docs/errata.md, {title}: {error}") from error
