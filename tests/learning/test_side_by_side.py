"""Seeds that are learned side by side, by processes of one thread: the same runs, and nothing left over."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

from logs import make
from statewise.algorithms.fitted_q import FittedQ
from statewise.algorithms.opposd import OPPOSD
from statewise.base.tasks import using
from statewise.learning import side_by_side
from statewise.learning.fit import fit, keys_of, prepare
from statewise.learning.program import NotFinite, program
from statewise.learning.runs import RunFolder
from statewise.learning.side_by_side import SideBySide, WorkerEnded, processes_for
from statewise.parts.actor import Actor
from statewise.parts.critic import Critic
from statewise.parts.ratio import ClosedForm

CONFIG = OPPOSD(
    discount=0.9,
    critic=Critic(hidden=(4,), batch=50, steps=2, warm_steps=10),
    actor=Actor(hidden=(4,), batch=50, clone_steps=10, clone_batch=50),
    ratio=ClosedForm(features=16, rank=8),
    updates=20,
)
SEEDS = (3, 5, 4)
RUN = {"config": CONFIG, "seeds": SEEDS, "checkpoint_every": 10, "processes": 2}


@pytest.fixture(scope="module")
def log():
    return make([3, 6, 1, 5, 8, 8, 7])


@pytest.fixture(scope="module")
def whole(log):
    return fit(log, **RUN)


@pytest.fixture
def running(log):
    """Two processes, and the states that they began with."""
    two = SideBySide(program(CONFIG, prepare(CONFIG, log)[0], keys_of(SEEDS)), SEEDS, 2)
    yield two, two.begin()
    two.close()


def gone(pids):
    for _ in range(100):
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return True
        time.sleep(0.1)
    return False


def leaves(result):
    return [leaf for policy in result.policies for leaf in (*policy.weights, *policy.biases)]


def assert_same(one, other):
    for left, right in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_array_equal(left, right)
    for name, values in one.metrics.items():
        np.testing.assert_array_equal(values, other.metrics[name])


# The same runs


def test_they_learn_what_seeds_in_turn_learn(log, whole):
    """Up to the order of sums, which several threads share."""
    in_turn = fit(log, **RUN | {"processes": 1})
    for one, other in zip(leaves(in_turn), leaves(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    assert in_turn.checkpoints.keys() == whole.checkpoints.keys()
    assert [values.shape for values in whole.metrics.values()] == [v.shape for v in in_turn.metrics.values()]
    assert np.abs(leaves(whole)[0] - whole.policies[1].weights[0]).max() > 1e-3


def test_they_learn_what_one_process_of_one_thread_learns_bit_for_bit(running):
    two, states = running
    one = SideBySide(two.alone, SEEDS, 1)
    try:
        for got, expected in zip(jax.tree.leaves(one.begin()), jax.tree.leaves(states), strict=True):
            np.testing.assert_array_equal(got, expected)
        results = [by.advance(states, 0, 5) for by in (one, two)]
        for got, expected in zip(*map(jax.tree.leaves, results), strict=True):
            np.testing.assert_array_equal(got, expected)
    finally:
        one.close()


class Stop(Exception):
    pass


def test_a_resumed_run_ends_like_one_that_was_never_interrupted(log, whole, tmp_path, monkeypatch):
    def stop(progress):
        raise Stop

    started = []
    begin = side_by_side._Worker.__init__
    monkeypatch.setattr(
        side_by_side._Worker, "__init__", lambda self, seeds: begin(self, seeds) or started.append(self)
    )
    with pytest.raises(Stop):
        fit(log, **RUN, out=tmp_path, progress=stop)
    assert len(started) == 2
    assert gone([worker.process.pid for worker in started])
    assert RunFolder.open(tmp_path).manifest()["threads"] == 1
    assert_same(whole, fit(log, **RUN, out=tmp_path))
    assert len(started) == 4
    assert_same(whole, fit(log, **RUN, out=tmp_path))
    assert len(started) == 4  # a finished run starts none


def test_numbers_that_are_not_finite_are_named(log):
    runaway = replace(CONFIG, actor=replace(CONFIG.actor, learning_rate=1e38))
    with pytest.raises(NotFinite, match=r"^the actor became infinite or not a number at update [23] of seed 3"):
        fit(log, **RUN | {"config": runaway})


def test_what_goes_wrong_there_is_raised_here(log):
    blind = replace(CONFIG, actor=replace(CONFIG.actor, features=(9,)))
    with pytest.raises(ValueError, match=r"^actor\.features: expected columns from 0 to"):
        fit(log, **RUN | {"config": blind})


# Processes that end


def test_a_process_that_is_killed_is_named(running):
    two, states = running
    two.workers[1].process.kill()
    with pytest.raises(WorkerEnded, match=r"learned seed 4 has ended with code -9, perhaps .* processes=1"):
        two.advance(states, 0, 5)


def test_where_none_can_be_started_seeds_are_learned_in_turn(log, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.warns(UserWarning, match="seeds are learned in turn, since other processes cannot be started"):
        result = fit(log, **RUN)
    assert_same(result, fit(log, **RUN | {"processes": 1}))


def test_settings_that_cannot_be_sent_are_learned_in_turn(log):
    class Own(type(CONFIG.actor)):  # other processes do not find it
        pass

    config = replace(CONFIG, actor=Own(**vars(CONFIG.actor)))
    with pytest.warns(UserWarning, match="seeds are learned in turn, since other processes cannot be started"):
        result = fit(log, **RUN | {"config": config})
    assert_same(result, fit(log, **RUN | {"processes": 1}))


SCRIPT = """
import sys
from statewise.learning import side_by_side
from statewise.learning.fit import fit
sys.path.append({tests!r})
from learning.test_side_by_side import CONFIG, RUN, make, replace

def told(progress):
    print(*(worker.process.pid for worker in known), flush=True)

known, begin = [], side_by_side._Worker.__init__
side_by_side._Worker.__init__ = lambda self, seeds: begin(self, seeds) or known.append(self)
config = replace(CONFIG, updates=10_000_000)
fit(make([3, 6, 1, 5, 8, 8, 7]), **RUN | {{"config": config, "checkpoint_every": 2000}}, progress=told)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="asks the system which processes there are")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_none_is_left_when_the_run_is_stopped(by):
    """Of a script without a file and without a guard of its main part."""
    script = SCRIPT.format(tests=os.path.dirname(os.path.dirname(__file__)))
    with subprocess.Popen(
        [sys.executable, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write(script)
        process.stdin.close()
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.send_signal(by)
        words = process.stderr.read()
    assert len(pids) == 2, words
    assert gone(pids)
    assert words.count("KeyboardInterrupt") == (by == signal.SIGINT)


# Where it pays


LONG = replace(CONFIG, updates=2000)


def asked(monkeypatch, seeds=8, cores=4, config=LONG, said="", memory=10**11, backend="cpu", data=None, processes=None):
    monkeypatch.setattr(side_by_side, "threads", lambda: cores)
    monkeypatch.setattr(side_by_side, "memory_of_machine", lambda: memory)
    monkeypatch.setattr(side_by_side.jax, "default_backend", lambda: backend)
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    return processes_for(config, data, seeds, processes)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({}, 4),
        ({"seeds": 5}, 3),  # 2, 2 and 1: a fourth would not make it faster
        ({"seeds": 3}, 3),
        ({"seeds": 2, "cores": 2}, 2),
        ({"seeds": 3, "cores": 2}, 1),  # 2 by one thread take longer than 3 by two
        ({"seeds": 1}, 1),
        ({"cores": 1}, 1),
        ({"said": "1"}, 1),
        ({"said": "2"}, 2),
        ({"backend": "gpu"}, 1),
        ({"backend": "gpu", "processes": 4}, 1),
        ({"config": replace(LONG, updates=50)}, 1),
        ({"config": replace(LONG, updates=50), "processes": 3}, 3),
        ({"processes": 9}, 8),
        ({"processes": 1}, 1),
        ({"config": FittedQ()}, 1),
        ({"memory": 3_000_000_000}, 1),
        ({"memory": 8_000_000_000}, 3),
    ],
)
def test_as_many_as_pay(monkeypatch, case, expected):
    assert asked(monkeypatch, **case) == expected


def test_a_long_log_is_not_copied_for_each(monkeypatch):
    data = {"rows": jax.numpy.zeros((1000, 1000))}
    alone = 4 * side_by_side.EACH
    assert asked(monkeypatch, memory=2 * alone, data=data) == 1
    assert asked(monkeypatch, memory=2 * alone + 8 * 3 * 4_000_000, data=data) == 2


def test_nobody_else_spreads_work_over_the_cores(monkeypatch):
    class Elsewhere:
        def mapped(self, compute, parts):
            return map(compute, parts)

    with using(Elsewhere()):
        assert asked(monkeypatch) == 1
    monkeypatch.setattr(side_by_side.multiprocessing, "parent_process", lambda: object())
    assert asked(monkeypatch) == 1


def test_only_a_python_that_is_known_can_be_started_again(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    assert asked(monkeypatch) == 1


def test_at_least_one_process(log):
    with pytest.raises(ValueError, match="processes: expected 1 or more, got 0"):
        fit(log, **RUN | {"processes": 0})
