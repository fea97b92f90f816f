"""The gain over today, with what both estimates share taken out."""

from __future__ import annotations

import numpy as np
import pytest

import statewise as sw
from statewise.domains import DOMAINS
from statewise.domains.source import Family
from statewise.ope.clone import by_the_judge
from statewise.ope.estimators.behaviour_return import behaviour_return
from statewise.ope.estimators.doubly_robust_state_ratio import OVERSHOT, doubly_robust_state_ratio
from statewise.ope.evaluate import prepare
from statewise.ope.gate import compare
from statewise.ope.paired import near_today
from statewise.ope.prepared import Case
from statewise.ope.quotient import Allowance
from statewise.ope.walk import OnRows


@pytest.fixture(scope="module")
def log(by_features):
    family = DOMAINS["random-mdp"]
    assert isinstance(family, Family)
    source = family.problem(50_008)
    data = source.collect(60, 50_008)
    assert isinstance(data, sw.Dataset)
    return prepare(data, discount=source.discount)


def test_what_both_have_is_taken_from_either_side():
    own, shared = Allowance(3.0, 5.0), Allowance(1.0, 8.0)
    assert own.less(shared, 0.5) == (2.5, 1.0)
    assert own.less(shared, 1.0) == (2.0, 0.0)


def test_doing_as_today_gains_exactly_nothing_and_rests_on_nothing(log):
    behaviour = log.dataset.distributions
    case = Case(log, behaviour)
    same = near_today(by_the_judge(log, behaviour), behaviour_return(case, log.dataset.rewards), log)
    assert same.value == pytest.approx(0.0, abs=1e-12)
    assert (same.imbalance, same.unseen, same.allowance) == (0.0, 0.0, (0.0, 0.0))


def test_a_small_step_misses_only_what_it_misses_beyond_today(log):
    """The ratio of a step of 2 % misses its equations as today's does: that says nothing against the gain."""
    behaviour = log.dataset.distributions
    step = 0.98 * behaviour + 0.02 * np.eye(behaviour.shape[1])[behaviour.argmax(axis=1)]
    own, today = (
        doubly_robust_state_ratio(Case(log, chances), log.dataset.rewards).imbalance for chances in (step, behaviour)
    )
    alone, _ = compare(OnRows(step), log)
    paired, _ = compare(OnRows(step), log, near=True)
    of_value, of_gain = (
        next(one.value for one in decision.measures if one.name == "visited-states") for decision in (alone, paired)
    )
    assert own > 0.02 < today
    assert of_value == pytest.approx(own, rel=0.2)  # but for what lies in situations seen once
    assert of_gain <= np.sqrt(max(own**2 - today**2, 0.0)) + 1e-9 < of_value / 2


def test_the_interval_is_wider_where_something_is_missing_than_where_too_much_may_be(log):
    behaviour = log.dataset.distributions
    goal = np.roll(behaviour, 1, axis=1)
    found = doubly_robust_state_ratio(Case(log, goal), log.dataset.rewards)
    below, above = found.allowance
    assert 0 < below != above > 0
    assert OVERSHOT - 1e-9 <= min(below, above) / max(below, above) < 1
