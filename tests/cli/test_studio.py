"""`statewise studio` as a command: its mistakes are sentences."""

import socket
import subprocess
import sys

from statewise.base.lock import locked
from statewise.studio.folder import StudioFolder


def test_a_port_that_is_taken(statewise, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, said = statewise("studio", "--folder", tmp_path / "s", "--port", port, "--no-open")
    assert code != 0
    assert f"cannot listen on port {port}" in said
    assert "choose another --port" in said


def test_a_folder_that_another_studio_has(statewise, tmp_path):
    place = StudioFolder.create(tmp_path / "s").path
    holder = "import sys, time; from statewise.base.lock import locked\n"
    holder += "with locked(sys.argv[1]): print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", holder, str(place)], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        code, _, said = statewise("studio", "--folder", place, "--port", "0", "--no-open")
        other.kill()
    assert code != 0
    assert "another studio is open on this folder" in said
    with locked(place):
        pass  # and it is free again


def test_settings_that_are_none(statewise, tmp_path):
    (tmp_path / "odd.toml").write_text("[")
    code, _, said = statewise("studio", "--folder", tmp_path / "s", "--config", tmp_path / "odd.toml", "--no-open")
    assert code == 2
    assert "not a TOML file" in said
