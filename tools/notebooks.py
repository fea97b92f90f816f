"""Runs the notebooks of the documentation, each in a folder of its own, and writes what they show into them.

python tools/notebooks.py [docs/notebooks/first-log.ipynb …]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
PATIENCE = 600  # seconds for a cell


def run(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs; a cell that fails raises its error."""
    notebook = nbformat.read(path, as_version=4)
    context = {"metadata": {"path": str(folder)}}
    made = NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3", resources=context).execute()
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # the times of this run
        if "outputs" in cell:
            cell["outputs"] = [output for output in cell["outputs"] if output.get("name") != "stderr"]
    return made


def main() -> None:
    for path in [Path(name) for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(run(path, Path(folder)), path)


if __name__ == "__main__":
    main()
