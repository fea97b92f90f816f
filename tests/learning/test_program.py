"""Runs side by side on separate cores are those that go one after another."""

import jax
import numpy as np

from logs import make
from statewise.algorithms.behaviour_cloning import BehaviourCloning
from statewise.learning import program as programs
from statewise.learning.fit import keys_of, prepare
from statewise.learning.program import program


def test_runs_on_separate_cores_equal_runs_one_after_another(monkeypatch):
    config = BehaviourCloning(discount=1.0, hidden=(4,), batch=20, updates=6)
    data = prepare(config, make([3, 5, 4, 6]))[0]
    reached = []
    for cores in (1, 2):
        monkeypatch.setattr(programs, "threads", lambda cores=cores: cores)
        running = program(config, data, keys_of([0, 4, 7]))
        states, first = running.advance(running.begin(), 0, 2)
        states, last = running.advance(states, 2, 4)
        reached.append((states, first, last))
        assert sorted(map(str, running.programs)) == ([] if cores == 1 else ["2", "4", "begin"])
    for one, other in zip(*map(jax.tree.leaves, reached), strict=True):
        assert one.shape[0] == 3
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
