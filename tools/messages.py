"""Prints every sentence that a user can meet, by file: messages, help texts, reports, templates. For proofreading.

python tools/messages.py [PART-OF-A-PATH]
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "statewise"
WORDS = re.compile(r"[A-Za-z]{2,}[^A-Za-z]+[a-z]{2,}|[a-z]{2,} \{")  # two words, or one before a value
MARKUP = re.compile(r"\{%.*?%\}|\{#.*?#\}|<[^>]+>", flags=re.S)


def everything(part: str = "") -> dict[Path, list[tuple[int, str]]]:
    paths = sorted(path for kind in ("*.py", "*.html") for path in SOURCE.rglob(kind) if part in str(path))
    return {path.relative_to(SOURCE): found for path in paths if (found := sorted(messages(path)))}


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every literal of at least two words, with the code of values in braces."""
    text = path.read_text(encoding="utf-8")
    for line, literal in _of_template(text) if path.suffix == ".html" else _of_code(ast.parse(text)):
        if WORDS.search(literal):
            yield line, " ".join(literal.split())


def _of_template(text: str) -> Iterator[tuple[int, str]]:
    bare = MARKUP.sub(lambda found: "\n" * found[0].count("\n"), text)
    yield from enumerate(bare.splitlines(), 1)


def _of_code(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Literals within the node, those that are put together as one."""
    if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) and (text := _text(node)):
        yield node.lineno, text
        return
    for child in ast.iter_child_nodes(node):
        hidden = isinstance(node, ast.Subscript) and isinstance(child, ast.Tuple)  # the shape of an array
        if not hidden and not (isinstance(child, ast.Expr) and not _is_help(node) and _text(child.value)):
            yield from _of_code(child)


def _text(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(map(_text, values))
        case ast.FormattedValue(value=value):
            return "{" + ast.unparse(value) + "}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
    return ""


def _is_help(node: ast.AST) -> bool:
    """Whether it is a command, whose docstring is what `--help` shows."""
    return isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(one) for one in node.decorator_list)


if __name__ == "__main__":
    for path, lines in everything(*sys.argv[1:]).items():
        print(f"\n{path}", *(f"  {number}: {text}" for number, text in lines), sep="\n")
