"""Commands and snippets in the README are run as they stand; what it shows of their output is what they print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Runs the README's shell commands in order, in an empty folder."""
    folder = tmp_path_factory.mktemp("readme")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    outputs = {}
    for line in "".join(blocks("sh")).splitlines():
        done = subprocess.run(
            line, shell=True, cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        outputs[line] = done.stdout
    return folder, outputs


def test_shown_output_is_what_is_printed(session):
    _, outputs = session
    (shown,) = re.findall(r"<!-- inspect -->\n```text\n(.*?)```", README, flags=re.S)
    assert outputs["statewise inspect cartpole.parquet"].split() == shown.split()


def test_python_snippets_run(session):
    """One after the other, as a reader would type them."""
    folder, _ = session
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "".join(blocks("python"))], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Dataset: 350 episodes" in done.stdout
