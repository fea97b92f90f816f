"""Two processes never write to one folder, and a killed one leaves nothing to clean up."""

import subprocess
import sys
import threading

import pytest

from statewise.base.lock import FolderInUse, locked

HOLD = """
import sys
from statewise.base.lock import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def enter(folder):
    with locked(folder):
        pass


def test_the_second_process_learns_who_is_writing(other, tmp_path):
    expected = rf"process {other.pid} on .+ is writing to it; wait until it has finished, or choose another folder"
    with pytest.raises(FolderInUse, match=expected):
        enter(tmp_path)
    (tmp_path / ".lock").write_text("\x1b[2Jnonsense")  # whatever stands there is not repeated
    with pytest.raises(FolderInUse, match="another process is writing to it"):
        enter(tmp_path)


@pytest.mark.parametrize("end", ["kill", "communicate"])
def test_the_lock_ends_with_its_process(other, tmp_path, end):
    getattr(other, end)()
    other.wait()
    enter(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_same_thread_enters_again_and_another_does_not(tmp_path):
    refused = []

    def try_it():
        try:
            enter(tmp_path)
        except FolderInUse as error:
            refused.append(str(error))

    with locked(tmp_path):
        enter(tmp_path)
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert "another thread of this process is writing to it" in refused[0]
    enter(tmp_path)


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "outside").write_text("someone's letters")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="symbolic link"):
        enter(tmp_path / "run")
    assert (tmp_path / "outside").read_text() == "someone's letters"
