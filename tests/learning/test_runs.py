"""The run folder: its last two states, and what happens if one is damaged."""

import threading
import warnings

import numpy as np
import pytest

import small
from logs import make
from processes import statewise_here
from statewise.algorithms.behaviour_cloning import BehaviourCloning
from statewise.base.lock import FolderInUse, locked
from statewise.learning.fit import fit
from statewise.learning.runs import RunFolder, RunWarning

RUN = {"config": BehaviourCloning(hidden=(8,), batch=20, discount=0.9), "updates": 6, "checkpoint_every": 2}


def states(folder):
    return sorted(path.name for path in (folder / "checkpoints").glob("state-*"))


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def data():
    return make([5] * 12)


def test_the_last_two_states_are_kept(data, tmp_path):
    seen = []
    fit(data, **RUN, out=tmp_path, progress=lambda progress: seen.append(states(tmp_path)))
    assert seen == [["state-2.npz"], ["state-2.npz", "state-4.npz"], ["state-4.npz", "state-6.npz"]]


def cut(path):
    path.write_bytes(path.read_bytes()[:-40])


def flip(path):
    """One bit in the middle of an array."""
    held = bytearray(path.read_bytes())
    with np.load(path) as file:
        largest = max(file.files, key=lambda name: file[name].nbytes)
        place = held.index(file[largest].tobytes())
    held[place + 3] ^= 4
    path.write_bytes(held)


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, flip, empty])
def test_a_damaged_newest_state_falls_back_to_the_one_before_and_says_so(data, tmp_path, damage):
    fit(data, **RUN, out=tmp_path)
    before = contents(tmp_path)
    newest = tmp_path / "checkpoints" / "state-6.npz"
    damage(newest)
    steps = []
    with pytest.warns(RunWarning, match=r"state-6\.npz: it is damaged \(.*\); learning resumes after update 4"):
        fit(data, **RUN, out=tmp_path, progress=lambda progress: steps.append(progress.update))
    assert steps == [6]
    assert contents(tmp_path) == before


def test_with_both_states_damaged_it_starts_again_and_says_so(data, tmp_path):
    fit(data, **RUN, out=tmp_path)
    whole = contents(tmp_path)
    for path in (tmp_path / "checkpoints").glob("state-*"):
        cut(path)
    with pytest.warns(RunWarning) as said:
        fit(data, **RUN, out=tmp_path)
    newest, before_it = (str(warning.message) for warning in said)
    assert newest.endswith("resumes after update 4, from the one before")
    assert before_it.endswith("resumes from the start")
    assert contents(tmp_path) == whole


def test_other_files_among_the_states_are_left_alone(data, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    RunFolder(tmp_path).write_manifest({})
    (tmp_path / "checkpoints" / "state-of-the-art.npz").write_bytes(b"a thesis")
    folder = RunFolder.open(tmp_path)
    for update in (1, 2, 3):
        folder.write_state(update, [np.arange(update)])
    assert states(tmp_path) == ["state-2.npz", "state-3.npz", "state-of-the-art.npz"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert folder.read_state().update == 3


def test_a_folder_in_use_is_refused_before_anything_is_learned(data, tmp_path):
    refused = []

    def second():
        try:
            fit(data, **RUN, out=tmp_path)
        except FolderInUse as error:
            refused.append(str(error))

    with locked(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert not (tmp_path / "manifest.json").exists()
    fit(data, **RUN, out=tmp_path)


def test_the_command_line_says_it_in_a_sentence(data, tmp_path, monkeypatch):
    """And not as Python shows warnings, with a line of code."""
    small.defaults(monkeypatch)
    data.save(tmp_path / "log.parquet")
    options = ("--algorithm", "behaviour-cloning", "--updates", 4, "--checkpoint-every", 2, "--out", tmp_path / "run")
    assert statewise_here("fit", tmp_path / "log.parquet", *options).returncode == 0
    cut(tmp_path / "run" / "checkpoints" / "state-4.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("always", RunWarning)
        done = statewise_here("fit", tmp_path / "log.parquet", *options)
    assert done.returncode == 0
    said = " ".join(done.stderr.split())
    assert "note " in said
    assert "it is damaged (File is not a zip file); learning resumes after update 2, from the" in said
    assert "RunWarning" not in said
