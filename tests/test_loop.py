"""Rounds of logging, improving and deploying, in a problem whose every value is known exactly."""

from dataclasses import replace

import numpy as np
import pytest

import small
from chain import BEHAVIOUR, chain
from statewise import loop
from statewise.improvement import Plan
from statewise.loop import Round, rounds

PLAN = Plan(discount=1.0, beside=(), updates=2)
EPISODES = 300


@pytest.fixture
def played(monkeypatch):
    """Plays rounds with small networks; and the logs and the practice that `improve` was given in each."""
    small.defaults(monkeypatch)
    small.few_steps(monkeypatch)
    given, improve = [], loop.improve

    def spied(logs, *arguments, **named):
        given.append((list(logs), named["today"]))
        return improve(logs, *arguments, **named)

    monkeypatch.setattr(loop, "improve", spied)
    monkeypatch.setattr("statewise.improvement.write_report", lambda *_: None)  # its figures take seconds

    def play(source, **options):
        options = {"rounds": 2, "episodes": EPISODES, "config": "behaviour-cloning", "plan": PLAN} | options
        return rounds(source, **options), given

    return play


def test_each_round_deploys_what_it_can_certify_and_logs_that(played, tmp_path):
    source, stages = chain(), []
    done, given = played(source, out=tmp_path, progress=lambda number, stage: stages.append(number))
    assert [one.number for one in done] == [1, 2]
    assert [one.episodes for one in done] == [EPISODES, EPISODES]
    first, second = done
    assert first.deployed
    assert first.algorithm == "always 1"
    assert first.today == pytest.approx(source.problem.value(BEHAVIOUR, 1.0))
    assert first.goal == pytest.approx(1.5)
    mixed = (1 - first.step) * BEHAVIOUR + first.step * np.array([0, 1])
    assert first.value == pytest.approx(source.problem.value(mixed, 1.0), abs=1e-6)
    assert first.held
    assert first.gain_at_least > 0
    assert first.value - first.today == pytest.approx(first.gain_at_least)  # a log without noise tells it exactly
    assert second.today == first.value
    (logs, today), (later, deployed) = given
    assert today is None
    assert first.least == pytest.approx(
        logs[0].split(0.5, seed=0)[1].returns(1.0).mean() + first.gain_at_least, abs=1e-6
    )
    assert [log.fingerprint for log in later[:-1]] == [log.fingerprint for log in logs]
    np.testing.assert_allclose(deployed.probabilities(source.seen), mixed, atol=1e-6)
    # the second log is of what was deployed, with its probabilities
    np.testing.assert_allclose(later[1].propensities, mixed[0, later[1].actions], atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-1", "round-2"]
    assert set(stages) == {1, 2}


def test_where_nothing_is_certified_the_next_round_adds_to_the_log(played):
    """Both actions pay the same: there is nothing to gain."""
    source = chain(better=0.0)
    done, given = played(source)
    assert [(one.deployed, one.step, one.gain_at_least, one.held) for one in done] == [(False, 0.0, 0.0, True)] * 2
    assert [one.value for one in done] == [one.today for one in done] == pytest.approx([0.5, 0.5])
    assert [[log.episodes for log in logs] for logs, _ in given] == [[EPISODES], [2 * EPISODES]]
    assert [today for _, today in given] == [None, None]


def test_every_seed_has_logs_of_its_own(monkeypatch):
    given = []
    monkeypatch.setattr(loop, "improve", lambda logs, *_, **__: given.append(logs[0].fingerprint) or 1 / 0)
    for seed in (0, 0, 1):
        with pytest.raises(ZeroDivisionError):
            rounds(chain(), episodes=30, seed=seed)
    first, same, other = given
    assert first == same != other


def test_a_round_holds_where_the_gain_is_there():
    one = Round(
        1, 100, today=1.0, deployed=True, step=0.2, least=1.1, gain_at_least=0.1, value=1.1, goal=2.0, algorithm="x"
    )
    assert replace(one, value=1.2).held
    assert not replace(one, value=1.05).held
    assert replace(one, value=1.05, deployed=False).held
