"""A real cluster of two nodes computes what one process does, whoever dies on the way; `test_cluster.py` runs it.

In a process of its own, where shapes are not checked: a function that checks them cannot be sent to another process.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from logs import make, simulated
from processes import statewise
from statewise import cluster as module
from statewise.algorithms.behaviour_cloning import BehaviourCloning
from statewise.base import column
from statewise.base.tasks import mapped
from statewise.experiments.run import run
from statewise.experiments.study import named
from statewise.improvement import Plan, improve
from statewise.ope import order

ray = pytest.importorskip("ray")
STUDY = """
[small]
title = "a small study"
kind = "curves"
measure = "undiscounted"
datasets = [0, 1, 2]
every = 2
reach = 0.5
pairs = []

[[small.cells]]
name = "hard example"
domain = "hard-example"
episodes = 20
settings = { actor = { features = [0, 1, 2, 3] } }

[[small.methods]]
name = "Off-PAC"
algorithm = "offpac"
[small.methods.settings]
updates = 4
critic = { hidden = [8], batch = 40, steps = 2, warm_steps = 2 }
actor = { hidden = [8], batch = 50, clone_steps = 3, clone_batch = 20 }
"""
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one core each; this process is on the first."""
    from ray.cluster_utils import Cluster

    here = os.pathsep.join(sys.path)
    os.environ["PYTHONPATH"] = here  # workers find the tests, too
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def deadly(monkeypatch, tmp_path_factory):
    """In every map, the worker that computes the second part is killed before it is done; counts the deaths."""
    folder, usual, maps = tmp_path_factory.mktemp("deaths"), module._Cluster.mapped, []

    def once(self, compute, parts):
        grave, count = folder / str(len(maps)), iter(range(10**9))
        maps.append(grave)

        def dies(numbered):
            number, part = numbered
            if number == 1 and not grave.exists():
                grave.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return compute(part)

        return usual(self, dies, ((next(count), part) for part in parts))

    monkeypatch.setattr(module._Cluster, "mapped", once)
    return lambda: sum(grave.exists() for grave in maps)


def policy(observations):
    chances = np.exp(np.asarray(observations, np.float64)[:, [1, 0, 2]])
    return chances / chances.sum(axis=1, keepdims=True)


def test_both_nodes_work(cluster):
    def node(part):
        time.sleep(0.3)
        return ray.get_runtime_context().get_node_id()

    with sw.on_ray():
        nodes = list(mapped(node, range(8)))
    assert len(set(nodes)) == 2


def test_sums_have_the_same_digits_though_a_worker_dies_in_each_phase(cluster, deadly, monkeypatch):
    monkeypatch.setattr(order, "BLOCK", 200)
    for data in (simulated(1000, 12), replace(simulated(1000, 12), terminated=np.zeros(1000, bool))):
        expected = sw.evaluate(policy, data, draws=50)
        with sw.on_ray():
            got = sw.evaluate(policy, data, draws=50)
        assert (got.value, got.low, got.high) == (expected.value, expected.low, expected.high)
        np.testing.assert_array_equal(got.influence, expected.influence)
    assert deadly() > 20


def test_a_log_in_files_has_the_same_digits(cluster, monkeypatch, tmp_path):
    monkeypatch.setattr(order, "BLOCK", 200)
    monkeypatch.setattr(column, "LONG", 4000)
    (tmp_path / "log").mkdir()
    simulated(1000, 12).save(tmp_path / "log" / "part.parquet")
    log = sw.scan(tmp_path / "log", scratch=tmp_path / "scratch")
    assert isinstance(log.rewards, column.Column)
    expected = sw.evaluate(policy, log, draws=50)
    with sw.on_ray():
        got = sw.evaluate(policy, log, draws=50)
    assert (got.value, got.low, got.high) == (expected.value, expected.low, expected.high)


def contents(folder):
    """All files but what tells the time."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    paths = [path for path in paths if path.suffix not in (".html", ".json", ".parquet")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_candidates_have_the_same_bytes_though_a_worker_dies(cluster, deadly, tmp_path):
    log, config = simulated(60, 6), BehaviourCloning(hidden=(8,), batch=50, updates=40)
    plan = Plan(seeds=2, beside=(replace(config, hidden=(4,)), "fitted-q"), updates=20)
    expected = improve(log, config, plan=plan, out=tmp_path / "here")
    with sw.on_ray():
        got = improve(log, config, plan=plan, out=tmp_path / "ray")
    assert deadly() > 0
    assert contents(tmp_path / "ray") == contents(tmp_path / "here")
    assert (got.answer, got.certificate.low) == (expected.answer, expected.certificate.low)


def test_a_command_that_is_killed_resumes(tmp_path):
    """After the first candidate was kept, with a cluster of its own, which dies with it."""
    simulated(60, 6).save(tmp_path / "log.parquet")
    (tmp_path / "plan.toml").write_text('beside = ["fitted-q", "offpac"]\n')
    given = ("improve", "log.parquet", "--algorithm", "behaviour-cloning", "--updates", "20", "--config", "plan.toml")
    assert statewise(*given, "--out", "here", cwd=tmp_path).returncode == 0
    command = [sys.executable, "-m", "statewise", *given, "--backend", "ray", "--out", "ray"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (tmp_path / "ray" / "metrics.npz").exists():
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "ray" / "report.html").exists()
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert contents(tmp_path / "ray") == contents(tmp_path / "here")


def test_a_study_has_the_same_files_though_a_worker_dies(cluster, deadly, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    study = named("small", path=tmp_path / "study.toml")
    run(study, tmp_path / "here", lambda line: None)
    with sw.on_ray():
        run(study, tmp_path / "ray", lambda line: None)
    assert deadly() > 0
    assert contents(tmp_path / "ray") == contents(tmp_path / "here")


def test_a_machine_may_leave_in_the_middle(cluster):
    node = cluster.add_node(num_cpus=2)

    def slow(part):
        time.sleep(0.2)
        return part**2

    with sw.on_ray():
        threading.Timer(1.0, lambda: cluster.remove_node(node, allow_graceful=False)).start()
        assert list(mapped(slow, range(60))) == [part**2 for part in range(60)]


def test_arrays_that_were_sent_cannot_change_until_the_block_ends(cluster):
    array = np.zeros(100_000)
    with sw.on_ray():
        assert list(mapped(lambda part: float(array[part]), [0, 1])) == [0.0, 0.0]
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    array[0] = 1.0


def test_an_array_is_sent_once(cluster, monkeypatch):
    array, sent, usual = np.zeros(100_000), [], ray.put
    monkeypatch.setattr(ray, "put", lambda value: sent.append(value) or usual(value))
    with sw.on_ray():
        for _ in range(3):
            list(mapped(lambda part: array[part], [0, 1]))
    assert sum(isinstance(one, np.ndarray) for one in sent) == 1


def test_a_mistake_of_a_worker_is_one_here(cluster):
    with sw.on_ray(), pytest.raises(ZeroDivisionError):
        list(mapped(lambda part: 1 / part, [1, 0]))


def test_the_commands_give_the_same_answer(tmp_path):
    """With a cluster of their own."""
    make([5] * 40).save(tmp_path / "log.parquet")
    learn = ("--algorithm", "behaviour-cloning", "--updates", "20", "--out", "run")
    assert statewise("fit", "log.parquet", *learn, cwd=tmp_path).returncode == 0
    ask = ("evaluate", "run", "log.parquet", "--json", "--estimator", "doubly-robust-state-ratio")
    here, there = (statewise(*ask, *more, cwd=tmp_path) for more in ((), ("--backend", "ray")))
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout


def test_an_address_where_nobody_answers_is_said_so(tmp_path):
    make([5] * 40).save(tmp_path / "log.parquet")
    ended = statewise("evaluate", "log.parquet", "--backend", "ray", "--address", "127.0.0.1:9", cwd=tmp_path)
    assert ended.returncode == 2
    assert re.search("no Ray cluster answers at '127.0.0.1:9'", ended.stderr), ended.stderr
