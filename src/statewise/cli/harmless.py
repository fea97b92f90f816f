"""Text that no terminal stumbles over: escapes in names are shown, not obeyed, and ASCII consoles get ASCII."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderHook
from rich.segment import Segment

from statewise.base.harmless import harmless

PLAIN = {
    "✓": "ok", "✗": "x", "…": "...", "–": "-", "—": "-", "−": "-", "×": "x", "·": "*", "±": "+-", "√": "sqrt ",
    "≤": "<=", "≥": ">=", "≠": "!=", "≡": "=", "→": "->", "∞": "inf", "█": "#", "━": "-", "╸": "-", "╺": "-",
    "γ": "gamma", "λ": "lambda", "π": "pi", "μ": "mu", "ρ": "rho", "Γ": "Gamma", "ε": "epsilon", "δ": "delta",
    "Σ": "sum", "’": "'", "‘": "'", "“": '"', "”": '"', "\N{COMBINING CIRCUMFLEX ACCENT}": "^", "₀": "0", "\xa0": " ",
    "é": "e", "ö": "oe", "ü": "ue", "ä": "ae", "•": "*", "⁻": "-", "²": "2", "°": " degrees",
}  # fmt: skip
ASCII = "statewise-ascii"


class Harmless(RenderHook):
    """A console's renderables, with harmless text."""

    def process_renderables(self, renderables: list[Any]) -> list[Any]:
        return [_Shown(renderable) for renderable in renderables]


class _Shown:
    def __init__(self, inner: Any):
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        for segment in console.render(self.inner, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)


def speak_plainly() -> None:
    """Lets consoles that do not know all letters have others in their place, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        encoding, reconfigure = getattr(stream, "encoding", None) or "utf-8", getattr(stream, "reconfigure", None)
        if reconfigure is None or encoding.lower().replace("-", "").startswith("utf"):
            continue
        # click takes a stream in ASCII for a mistake and writes UTF-8 to it, unless the encoding has another name
        ascii_alone = codecs.lookup(encoding).name == "ascii"
        reconfigure(encoding=ASCII if ascii_alone else encoding, errors=ASCII)


def _instead(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    cut = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter) or ascii(letter)[1:-1] for letter in cut), error.end


class _Encoder(codecs.IncrementalEncoder):
    def encode(self, input: str, final: bool = False) -> bytes:
        return input.encode("ascii", ASCII)


def _codec(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != ASCII:
        return None

    def encode(text: str, errors: str = "strict") -> tuple[bytes, int]:
        return text.encode("ascii", ASCII), len(text)

    return codecs.CodecInfo(encode, codecs.lookup("ascii").decode, incrementalencoder=_Encoder, name=ASCII)


codecs.register_error(ASCII, _instead)
codecs.register(_codec)
