"""Jobs that learn together: each gets what it would have learned alone, wherever the others are."""

import os
import subprocess
import threading
from dataclasses import replace

import numpy as np
import pytest

from chain import chain
from statewise.algorithms.behaviour_cloning import BehaviourCloning
from statewise.experiments import together as module
from statewise.experiments.processes import side_by_side
from statewise.experiments.together import Asked, apart, each_apart, in_this_process, learned, together
from statewise.learning.fit import fit
from statewise.learning.program import NotFinite

SOURCE = chain()
LOGS = {seed: SOURCE.collect(30, seed) for seed in (1, 2, 3)}
LONGER = SOURCE.collect(40, 4)
CLONING = BehaviourCloning(discount=1.0, updates=3)


@pytest.fixture
def calls(monkeypatch):
    """What was asked for at a time."""
    made, whole = [], module.learn_all

    def counting(asked, notify):
        made.append([one.seed for one in asked])
        return whole(asked, notify)

    monkeypatch.setattr(module, "learn_all", counting)
    return made


def alone(log, config, seed):
    return fit(log, config, seeds=[seed]).policies[0].probabilities(SOURCE.seen)


def seen(one):
    return one.policy.probabilities(SOURCE.seen)


def test_without_others_each_is_what_fit_learns():
    asked = [Asked(LOGS[1], CLONING, 1), Asked(LONGER, CLONING, 4), Asked(LOGS[2], CLONING, 2)]
    for one, found in zip(asked, learned(asked), strict=True):
        np.testing.assert_allclose(seen(found), alone(*one), atol=1e-5)
        assert found.seconds > 0


def test_jobs_that_wait_are_learned_at_a_time_and_get_their_own(calls):
    def job(seed):
        (first,) = learned([Asked(LOGS[seed], CLONING, seed)])
        if seed == 3:  # the others go on without it
            return seed, [seen(first)]
        second = learned([Asked(LOGS[seed], CLONING, 10 + seed), Asked(LONGER, CLONING, 20 + seed)])
        return seed, [seen(one) for one in (first, *second)]

    said = []
    found = dict(together(job, [1, 2, 3], processes=1, notify=said.append))
    assert said[0].startswith("BehaviourCloning learned from 3 logs together, in ")
    assert [sorted(seeds) for seeds in calls] == [[1, 2, 3], [11, 12, 21, 22]]
    for seed, policies in found.items():
        np.testing.assert_allclose(policies[0], alone(LOGS[seed], CLONING, seed), atol=1e-5)
        for more, policy in zip((10, 20), policies[1:], strict=False):
            log = LOGS[seed] if more == 10 else LONGER
            np.testing.assert_allclose(policy, alone(log, CLONING, more + seed), atol=1e-5)


def test_one_job_works_at_a_time_and_what_is_apart_is_done_by_another_process():
    working, most = [], []

    def job(number):
        working.append(number)
        most.append(len(working))
        working.remove(number)
        return apart(os.getpid)

    processes = list(together(job, range(4), processes=1))
    assert max(most) == 1
    assert len(set(processes)) == 1
    assert processes[0] != os.getpid()
    assert apart(os.getpid) == os.getpid()
    assert apart(int, "11", 2) == 3
    assert each_apart(int, [("11", 2), ("12", 3)]) == [3, 5]


def test_what_fails_reaches_every_job_that_waits_for_it(monkeypatch):
    def broken(asked, notify):
        raise ArithmeticError("no number")

    monkeypatch.setattr(module, "learn_all", broken)

    def job(seed):
        with pytest.raises(ArithmeticError, match="no number"):
            learned([Asked(LOGS[seed], CLONING, seed)])
        return threading.get_ident()

    assert len(set(together(job, [1, 2], processes=1))) == 2


def test_settings_that_differ_are_programs_of_their_own():
    other = BehaviourCloning(discount=1.0, updates=2)
    first, second = learned([Asked(LOGS[1], CLONING, 1), Asked(LOGS[1], other, 1)])
    np.testing.assert_allclose(seen(first), alone(LOGS[1], CLONING, 1), atol=1e-5)
    np.testing.assert_allclose(seen(second), alone(LOGS[1], other, 1), atol=1e-5)
    assert np.abs(seen(first) - seen(second)).max() > 1e-5


def test_logs_of_other_observations_are_programs_of_their_own():
    log = LOGS[2]
    seen_by = {"observation_names": log.observation_names[:2], "final_observations": log.final_observations[:, :2]}
    fewer = replace(log, observations=log.observations[:, :2], **seen_by)
    first, second = learned([Asked(LOGS[1], CLONING, 1), Asked(fewer, CLONING, 2)])
    np.testing.assert_allclose(seen(first), alone(LOGS[1], CLONING, 1), atol=1e-5)
    assert second.policy.observation_names == log.observation_names[:2]


def test_in_this_process_jobs_learn_together_too_and_nothing_is_apart(calls):
    def job(seed):
        (one,) = learned([Asked(LOGS[seed], CLONING, seed)])
        return seed, seen(one), apart(os.getpid)

    for place, (seed, policy, process) in enumerate(in_this_process(job, [2, 1])):
        assert (seed, process) == ((2, 1)[place], os.getpid())
        np.testing.assert_allclose(policy, alone(LOGS[seed], CLONING, seed), atol=1e-5)
    assert [sorted(seeds) for seeds in calls] == [[1, 2]]


def test_a_policy_that_is_no_number_is_refused():
    steep = replace(CLONING, learning_rate=1e38)
    with pytest.raises(NotFinite, match=r"became infinite or not a number at update .* of seed 7"):
        learned([Asked(LOGS[1], steep, 7)])


def test_after_a_failure_no_other_job_is_begun(tmp_path):
    others = [["sh", "-c", f"sleep 0.05; touch {tmp_path / str(number)}"] for number in range(40)]
    with pytest.raises(subprocess.CalledProcessError, match="false"):
        list(side_by_side(subprocess.check_call, [["false"], *others], processes=1))
    assert len(list(tmp_path.iterdir())) < 10
