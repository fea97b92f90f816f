"""No half-written file ever replaces a good one."""

import os
import resource
from contextlib import contextmanager

import numpy as np
import pytest

from logs import make
from statewise.base import files
from statewise.base.files import write_text, written_whole
from statewise.data.observations import write_table
from statewise.learning.runs import RunFolder


@contextmanager
def full_disk():
    """A limit on the size of files simulates a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def write_run(path):
    RunFolder(path.parent).write_metrics({"value": np.zeros((2, 1000))})


WRITERS = {
    "log.parquet": make([100] * 20).save,
    "log.csv": make([100] * 20).save,
    "table.json": lambda path: write_table({"a": np.arange(1000)}, path),
    "metrics.npz": write_run,
    "page.html": lambda path: write_text(path, "x" * 1000),
}


@pytest.mark.parametrize("name", [*WRITERS, "p.safetensors"])
def test_a_full_disk_leaves_what_was_there(name, tmp_path, policy):
    path, write = tmp_path / name, (WRITERS | {"p.safetensors": policy.save})[name]
    path.write_text("a good file")
    with full_disk(), pytest.raises(OSError, match="it could not be written") as caught:
        write(path)
    assert caught.value.filename == str(path)
    assert path.read_text() == "a good file"
    assert list(tmp_path.iterdir()) == [path]
    write(path)
    assert path.read_bytes() != b"a good file"


def test_an_interrupted_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("a good file")

    def interrupted():
        with written_whole(path) as part:
            part.write_text("half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "a good file"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OSError, match="it could not be written") as caught:
        write_text(tmp_path / "absent" / "page.html", "x")
    assert caught.value.filename == str(tmp_path / "absent" / "page.html")


def test_a_link_in_the_temporary_file_s_place_is_not_followed(tmp_path, monkeypatch):
    """Whoever can write to the folder must not make us write elsewhere, even if the name could be guessed."""
    outside = tmp_path / "outside.txt"
    outside.write_text("someone's letters")
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "0" * 2 * size)
    for name in (".page.html.part", f".page.html.{'0' * 16}.part"):
        (folder / name).symlink_to(outside)
    with pytest.raises(OSError, match=r"it could not be written \(File exists\)"):
        write_text(folder / "page.html", "x")
    assert outside.read_text() == "someone's letters"
    assert not (folder / "page.html").exists()
    monkeypatch.undo()
    write_text(folder / "page.html", "x")
    assert outside.read_text() == "someone's letters"


def test_two_writers_do_not_tear_each_other_s_file(tmp_path):
    path = tmp_path / "page.html"
    with written_whole(path) as one, written_whole(path) as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"  # who ends last
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_behind_goes_and_what_a_living_one_writes_stays(tmp_path):
    path = tmp_path / "page.html"
    left = tmp_path / f".page.html.{'a' * 16}.part"
    other = tmp_path / f".other.html.{'a' * 16}.part"
    left.write_text("half of")
    other.write_text("half of")
    (tmp_path / f".page.html.{'b' * 16}.part").symlink_to(other)
    with written_whole(path) as living:
        living.write_text("whole")
        write_text(path, "another's")
        assert living.exists()
        assert not left.exists()
    assert path.read_text() == "whole"
    assert other.exists()


def test_contents_reach_the_disk_before_the_name_and_the_name_before_the_end(tmp_path, monkeypatch):
    done = []
    real = {name: getattr(files.os, name) for name in ("fsync", "replace")}

    def fsync(handle):
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        real["fsync"](handle)

    def replace(*paths):
        done.append("name")
        real["replace"](*paths)

    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr(files.os, "replace", replace)
    write_text(tmp_path / "page.html", "x")
    assert done == ["file", "name", "folder"]


def test_a_device_is_not_replaced_by_a_file(tmp_path):
    """As it would be for a superuser, whom nothing else stops."""
    pipe, out = tmp_path / "pipe", tmp_path / "stdout"
    os.mkfifo(pipe)
    out.symlink_to("/proc/self/fd/1")
    for path in (pipe, out):
        with pytest.raises(OSError, match="it is a device or a pipe, expected a file") as caught:
            write_text(path, "text")
        assert caught.value.filename == str(path)
        with pytest.raises(OSError, match="it is a device or a pipe"):
            files.check_writable(path)
    assert pipe.is_fifo()
    assert out.is_symlink()
    linked = tmp_path / "linked.txt"
    linked.symlink_to(tmp_path / "elsewhere.txt")
    write_text(linked, "text")
    assert linked.read_text() == "text"
