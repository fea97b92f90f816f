"""What Ray computes; the cases are in `two_nodes.py`."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from processes import statewise_here

HERE = Path(__file__).parent


@pytest.mark.long
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
def test_on_two_nodes():
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", str(HERE / "two_nodes.py")]
    ended = subprocess.run(command, env=os.environ | {"STATEWISE_UNCHECKED": "1"}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-5000:]


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_the_command_says_what_to_install(tmp_path):
    ended = statewise_here("evaluate", "log.parquet", "--backend", "ray", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (2, "Error: this needs ray: pip install 'statewise[ray]'\n")


def test_an_address_needs_a_backend(tmp_path):
    ended = statewise_here("evaluate", "log.parquet", "--address", "auto", cwd=tmp_path)
    assert ended.returncode == 2
    assert "--address needs --backend ray" in ended.stderr
