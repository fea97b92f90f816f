"""Runs that are learned elsewhere leave the files of those that are learned here."""

import pytest

from logs import make
from scattered import Scattered
from statewise.algorithms.behaviour_cloning import BehaviourCloning
from statewise.base.tasks import using
from statewise.learning.apart import Run, learn_apart
from statewise.learning.fit import fit

CONFIG = BehaviourCloning(hidden=(8,), batch=20, updates=40)


def contents(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture
def data():
    return make([5] * 12)


def test_files_are_those_of_a_run_here(data, tmp_path):
    fit(data, CONFIG, seeds=(3, 4), out=tmp_path / "here")
    with using(Scattered()):
        stopped = list(learn_apart(data, [Run(CONFIG, (3, 4), None, tmp_path / f"apart {i}") for i in range(2)]))
    assert stopped == [None, None]
    assert contents(tmp_path / "apart 0") == contents(tmp_path / "apart 1") == contents(tmp_path / "here")


def test_a_run_that_was_begun_is_resumed_elsewhere(data, tmp_path):
    fit(data, CONFIG, seeds=(3,), out=tmp_path / "here")
    late = Run(CONFIG, (3,), None, tmp_path / "apart", seconds=0.0)
    assert list(learn_apart(data, [late])) == ["4 of 40 updates"]
    assert (tmp_path / "apart" / "checkpoints" / "state-4.npz").is_file()
    assert list(learn_apart(data, [Run(CONFIG, (3,), None, tmp_path / "apart")])) == [None]
    assert contents(tmp_path / "apart").keys() == contents(tmp_path / "here").keys()
    assert contents(tmp_path / "apart")["metrics.npz"] == contents(tmp_path / "here")["metrics.npz"]
