"""No half-written file ever replaces a good one."""

import resource
from contextlib import contextmanager

import numpy as np
import pytest

from logs import make
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
