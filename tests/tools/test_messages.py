"""Every sentence that a user can meet, read for what gives a translation away."""

import re

from messages import everything, messages

# what a native speaker would not write, and what the messages say instead
STILTED = {
    r"\bturn (this|it) over\b": "overturn",
    r"\bmend": "fix",
    r"\bWhat would help are\b": "… would help",
    r"\botherwise than\b": "differently from",
    r"\bof that name\b": "with that name",
    r"\bspeaks of\b": "suggests",
    r"\bno whole number": "not a whole number",
    r"\bnothing here asks\b": "there is no …",
    r"\bholds? not\b": "is not",
    r"\bcame; give\b": "expected …, got …",
}
CODE = '''
def refuse(name, count):
    """A docstring is not shown."""
    raise ValueError(f"there is no {name}; " + "choose one of " f"{count:,} others")

@click.command
def inspect():
    """A command's docstring is shown."""

SIZE: Float[Array, "rows columns"] = 1
'''


def test_literals_are_collected_whole(tmp_path):
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "page.html").write_text("<p>Two {% if one %}words{% endif %}\n{{ name }}</p>")
    assert list(messages(tmp_path / "code.py")) == [
        (4, "there is no {name}; choose one of {count} others"),
        (8, "A command's docstring is shown."),
    ]
    assert list(messages(tmp_path / "page.html")) == [(1, "Two words")]


def test_messages_read_as_a_native_engineer_writes():
    found = [
        f"{path}:{line}: {text}; better: {better}"
        for path, lines in everything().items()
        for line, text in lines
        for pattern, better in STILTED.items()
        if re.search(pattern, text)
    ]
    assert found == []
