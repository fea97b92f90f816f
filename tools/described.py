"""For the site's Python reference: the comment beside a field of a dataclass is its description."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, Class, Docstring, Extension


class Described(Extension):
    """Adds a table of the fields to the docstring of a class, if every field has a description."""

    def on_class(self, *, cls: Class, **kwargs: Any) -> None:
        fields = {name: one for name, one in cls.attributes.items() if not name.startswith("_") and _is_field(one)}
        described = {name: description(one) for name, one in fields.items()}
        if "dataclass" not in cls.labels or not described or not all(described.values()):
            return
        section = "\n".join(["Attributes:", *(f"    {name}: {text}" for name, text in described.items())])
        before = "" if cls.docstring is None else cls.docstring.value + "\n\n"
        cls.docstring = Docstring(before + section, parent=cls)


def description(field: Attribute) -> str:
    """The comment at the end of the field's last line, as a sentence."""
    _, _, comment = field.source.splitlines()[-1].partition("  # ")
    first = comment[:1].upper() if comment[:1].isascii() else comment[:1]  # λ stays λ
    return f"{first}{comment[1:]}." if comment else ""


def _is_field(member: Attribute) -> bool:
    return member.annotation is not None and "property" not in member.labels
