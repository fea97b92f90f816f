"""`paper.toml`, the file of the paper's studies, as far as it can be read without JAX: the command line lists them."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Any, Literal

from statewise.learning.settings import read_settings

Preset = Literal["default", "paper"]


def paper_tables() -> dict[str, Any]:
    """The file's tables by name, not yet checked; `study.studies` makes studies of them."""
    with as_file(files("statewise.experiments") / "paper.toml") as path:
        return read_settings(path)


def study_names() -> tuple[str, ...]:
    """The paper's studies in the order of the file.

    >>> "cartpole" in study_names()
    True
    """
    return tuple(paper_tables())
