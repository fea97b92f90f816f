"""Rounds in worlds: which logs a round decides by, and what is counted as the truth."""

from types import SimpleNamespace

import numpy as np
import pytest

from chain import BEHAVIOUR, chain
from statewise.domains import random_mdp
from statewise.domains.rounds import turns

OTHER, LAST = np.tile([0.3, 0.7], (3, 1)), np.tile([0.1, 0.9], (3, 1))


def run(source, policies, *, goal=LAST, done=(), seed=3, **options):
    """Rounds that deploy these policies, one after the other; and what every decision was made by."""
    given = []

    def decide(number, logs, today):
        given.append((number, [log.fingerprint for log in logs], [log.episodes for log in logs], today))
        return SimpleNamespace(policy=policies[number - 1], goal_policy=goal)

    options = {"rounds": len(policies), "episodes": 20, "played": 5} | options
    return list(turns(source, decide, seed=seed, done=done, **options)), given


def test_rounds_log_what_was_deployed_and_add_to_the_log_where_nothing_was():
    source = chain()
    done, given = run(source, [None, OTHER, LAST])
    today, other, last = (source.problem.value(one, 1.0) for one in (BEHAVIOUR, OTHER, LAST))
    np.testing.assert_allclose(
        [(one.number, one.today, one.value, one.goal) for one in done],
        [(1, today, today, last), (2, today, other, last), (3, other, last, last)],
    )
    assert [episodes for _, _, episodes, _ in given] == [[20], [40], [40, 20]]
    assert [today for *_, today in given] == [None, None, OTHER]
    third = source.collect(20, seed=30_003, act=OTHER)
    assert given[2][1][1] == third.fingerprint == done[2].log.fingerprint


@pytest.mark.parametrize("first", [None, OTHER])
def test_rounds_that_are_done_are_logged_again_and_not_decided(first):
    policies = [first, OTHER, None]
    whole, given = run(chain(), policies)
    rest, later = run(chain(), policies, done=policies[:1])
    assert later == given[1:]
    assert [(one.number, one.today, one.value) for one in rest] == [
        (one.number, one.today, one.value) for one in whole
    ][1:]


def test_all_rounds_of_a_run_are_in_the_problem_of_its_seed():
    policy = np.full((49, 4), 0.25)
    done, given = run(random_mdp.SOURCE, [policy, None], goal=policy, seed=301)
    source = random_mdp.problem(301)
    assert done[1].today == pytest.approx(source.play([policy], 1).discounted.item())
    assert given[1][1][1] == source.collect(20, seed=3_010_002, act=policy).fingerprint
