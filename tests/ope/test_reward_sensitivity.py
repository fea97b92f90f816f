"""How far a reward's weights may be wrong: against judging again, and against a formula where there is one."""

from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ope.reward_sensitivity import EXACT, MOST

MDP = TabularMDP.random(4, 2, seed=3, termination=0.3)
BEHAVIOUR = np.random.default_rng(0).dirichlet([4.0, 4.0], size=4)
GREEDY = np.eye(2)[MDP.action_values(BEHAVIOUR, 1.0).argmax(axis=1)]
BETTER = 0.6 * BEHAVIOUR + 0.4 * GREEDY


def better(seen):
    return seen @ BETTER


@pytest.fixture(scope="module")
def log():
    """What it pays, and a cost of the actions that the better policy takes oftener."""
    data = collect_tabular(MDP, BEHAVIOUR, 800, 10, seed=0)
    cost = (data.actions == GREEDY[data.observations.argmax(axis=1)].argmax(axis=1)).astype(float)
    return data, {"paid": (1.0, data.rewards + 0.05 * cost), "cost": (-0.05, cost)}


def again(data, parts, name, weight, **options):
    """The decision with one weight in the place of its own."""
    own, rows = parts[name]
    return sw.gate(better, replace(data, rewards=data.rewards + (weight - own) * rows), **options)


@pytest.mark.parametrize("estimator", ["doubly-robust-state-ratio", "per-decision"])
def test_judged_again_at_the_ends_nothing_is_left_of_the_gain_and_within_there_is(log, estimator):
    data, parts = log
    now = sw.gate(better, data, estimator=estimator)
    assert now.answer == "deploy"
    found = {one.name: one for one in sw.reward_sensitivity(better, data, parts, estimator=estimator)}
    assert list(found) == ["paid", "cost"]
    assert (found["paid"].upper, found["cost"].upper) == (None, None)  # more pay and less cost speak for it
    for name in parts:
        end, weight = found[name].lower, parts[name][0]
        assert weight * (1 - MOST if weight > 0 else 1 + MOST) < end < weight
        assert again(data, parts, name, end, estimator=estimator).low == pytest.approx(0, abs=0.01 * now.low)
        assert again(data, parts, name, 0.9 * end + 0.1 * weight, estimator=estimator).answer == "deploy"
        assert again(data, parts, name, 1.1 * end - 0.1 * weight, estimator=estimator).answer != "deploy"
        assert found[name].least_change == pytest.approx(abs(end - weight) / abs(weight))


def test_of_single_decisions_the_end_is_where_the_means_say():
    """Action 1 pays 1 more and costs 1 more, without noise: worth it while the weight of the cost is above −1."""
    rng, n = np.random.default_rng(1), 400
    action = rng.integers(2, size=n)
    paid, cost = action.astype(float), action.astype(float)
    data = sw.Dataset.from_episodes(
        observations=[np.ones((1, 1))] * n,
        actions=list(action[:, None]),
        rewards=list((paid - 0.25 * cost)[:, None]),
        distributions=[np.full((1, 2), 0.5)] * n,
        terminated=[True] * n,
    )
    always = lambda seen: np.tile([0.0, 1.0], (len(seen), 1))  # noqa: E731
    paid_part, cost_part = sw.reward_sensitivity(always, data, {"paid": (1.0, paid), "cost": (-0.25, cost)})
    assert cost_part.lower == pytest.approx(-1.0, abs=0.01)
    assert cost_part.upper is None
    assert paid_part.lower == pytest.approx(0.25, abs=0.01)
    assert cost_part.least_change == pytest.approx(3.0, abs=0.04)
    assert str(cost_part).startswith("A weight of cost below -1 would overturn this: it is -0.25, so that the least")


def test_where_no_change_of_a_weight_would_it_says_so(log):
    data, _ = log
    nothing = np.zeros(len(data))
    (paid, other) = sw.reward_sensitivity(
        better, data, {"paid": (1.0, data.rewards), "other": (3.0, nothing)}, estimator="per-decision"
    )
    assert paid.lower == pytest.approx(0, abs=EXACT)  # half the reward is half the gain, and half its noise
    assert (other.lower, other.upper, other.least_change) == (None, None, None)
    assert str(other) == "No change of the weight of other (3) up to 10 times would overturn this."


def test_where_the_answer_is_not_deploy_there_is_nothing_to_turn_over(log):
    data, parts = log
    worse = 0.6 * BEHAVIOUR + 0.4 * (1 - GREEDY)
    assert sw.reward_sensitivity(lambda seen: seen @ worse, data, parts, estimator="per-decision") == ()


def test_parts_that_are_not_the_reward_are_refused(log):
    data, parts = log
    with pytest.raises(
        ValueError, match=r"parts: their weighted sum differs from the reward by up to 0\.05 \(decision"
    ):
        sw.reward_sensitivity(better, data, {"paid": parts["paid"]})
    with pytest.raises(ValueError, match="parts: expected a weight of 'paid' other than 0, got 0"):
        sw.reward_sensitivity(better, data, {"paid": (0.0, data.rewards)})
    with pytest.raises(ValueError, match="parts: 'paid' has 3 rows, the log"):
        sw.reward_sensitivity(better, data, {"paid": (1.0, np.ones(3))})
    with pytest.raises(ValueError, match="parts: expected at least one part"):
        sw.reward_sensitivity(better, data, {})
