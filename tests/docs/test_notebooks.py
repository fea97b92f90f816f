"""The notebooks of the documentation run from top to bottom, and show what their readers are told they show."""

from importlib.util import find_spec
from pathlib import Path

import pytest

needed = [name for name in ("nbclient", "ipykernel") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(needed), reason="notebooks need pip install 'statewise[dev]'")
NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"


def shown(name: str, folder: Path) -> list[dict]:
    """Every output of a run in an empty folder, by its kinds."""
    from notebooks import run

    outputs = [output for cell in run(NOTEBOOKS / name, folder).cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    return [output.get("data", {}) for output in outputs]


def pictures(outputs: list[dict]) -> int:
    return sum("<svg" in data.get("text/html", "") for data in outputs)


@pytest.mark.filterwarnings("ignore")  # of the kernel's own sockets
def test_from_a_first_log_to_a_decision(tmp_path):
    outputs = shown("first-log.ipynb", tmp_path)
    assert pictures(outputs) == 3
    assert sum("image/png" in data for data in outputs) == 1
    assert (tmp_path / "clinic" / "policy.safetensors").is_file()  # a step passed, as the text takes for granted


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "svgs"), [("rounds.ipynb", 4), ("icu-sepsis.ipynb", 5)])
def test_the_others_run(name, svgs, tmp_path):
    if name == "icu-sepsis.ipynb":
        pytest.importorskip("icu_sepsis")
    assert pictures(shown(name, tmp_path)) >= svgs - 1  # a certificate without a step that is identified has no picture


def test_every_notebook_is_run_here_and_kept_with_what_it_shows():
    import nbformat

    names = {path.name for path in NOTEBOOKS.glob("*.ipynb")}
    assert names == {"first-log.ipynb", "rounds.ipynb", "icu-sepsis.ipynb"}
    for name in names:
        cells = [cell for cell in nbformat.read(NOTEBOOKS / name, as_version=4).cells if cell.cell_type == "code"]
        assert all(cell.execution_count for cell in cells), f"{name}: run tools/notebooks.py"
