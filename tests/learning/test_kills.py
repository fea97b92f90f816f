"""A run that is killed again and again ends with the bytes of one that never was."""

import random
import signal
import subprocess
import sys
import time

import pytest

from logs import make

KILLS = 20


def contents(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.long
def test_fit_survives_20_kills(tmp_path):
    """Each after a random part of the time in which it writes its checkpoints."""
    make([5] * 12).save(tmp_path / "log.parquet")
    options = ("--algorithm", "behaviour-cloning", "--seeds", "2", "--updates", "200", "--checkpoint-every", "2")
    command = [sys.executable, "-m", "statewise", "fit", str(tmp_path / "log.parquet"), *options, "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    expected, luck, killed = contents(tmp_path / "whole"), random.Random(0), 0
    out = tmp_path / "killed"
    while killed < KILLS:
        begun = len(list(out.rglob("*"))) if out.exists() else 0
        process = subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and (not out.exists() or len(list(out.rglob("*"))) <= begun):
            time.sleep(0.01)  # until it writes
        time.sleep(luck.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        assert process.returncode in (0, -signal.SIGKILL)
        if process.returncode == 0:
            break
    subprocess.run([*command, str(out)], check=True, capture_output=True)
    assert killed == KILLS
    assert contents(out) == expected
