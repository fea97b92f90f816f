"""The gate's difference against exact ones of finite problems, its three answers, and how many episodes it asks for."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import statewise as sw
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ope import evaluate as evaluate_module
from statewise.ope import gate as gate_module
from statewise.ope.gate import episodes_needed, rounded
from statewise.ope.intervals import seldomer

STATES, ACTIONS, HORIZON = 4, 2, 40
MDP = TabularMDP.random(STATES, ACTIONS, seed=3, termination=0.3)
RNG = np.random.default_rng(0)
BEHAVIOUR = RNG.dirichlet([4.0, 4.0], size=STATES)
GREEDY = np.eye(ACTIONS)[MDP.action_values(BEHAVIOUR, 1.0).argmax(axis=1)]
BETTER, WORSE = 0.6 * BEHAVIOUR + 0.4 * GREEDY, 0.6 * BEHAVIOUR + 0.4 * (1 - GREEDY)


def of(table):
    """The policy of a table, for states seen one-hot."""
    return lambda seen: seen @ table


@cache
def log(episodes, seed=0):
    return collect_tabular(MDP, BEHAVIOUR, episodes, HORIZON, seed)


def truth(table):
    return MDP.value(table, 1.0) - MDP.value(BEHAVIOUR, 1.0)


@pytest.mark.parametrize("estimator", ["state-ratio", "per-decision"])
def test_the_difference_is_the_exact_one(estimator):
    """Within 3.5 of its standard errors, which are small enough to tell it from 0."""
    for table in (BETTER, WORSE):
        decision = sw.gate(of(table), log(900), estimator=estimator)
        assert decision.standard_error < abs(truth(table)) / 2.5
        assert abs(decision.difference - truth(table)) < 3.5 * decision.standard_error
        assert decision.low < decision.difference < decision.high


def test_the_interval_covers_the_exact_difference_as_often_as_it_says():
    covered = []
    near = 0.7 * BEHAVIOUR + 0.3 * BETTER  # weights with short tails
    for seed in range(100):
        decision = sw.gate(of(near), log(150, seed), estimator="per-decision", draws=300, seed=seed)
        covered.append(decision.low <= truth(near) <= decision.high)
    assert 0.9 <= np.mean(covered) <= 0.99


def test_better_worse_and_too_close_to_call():
    assert truth(BETTER) > 0 > truth(WORSE)
    assert sw.gate(of(BETTER), log(900)).answer == "deploy"
    assert sw.gate(of(WORSE), log(900), estimator="per-decision").answer == "do not deploy"
    close = 0.97 * BEHAVIOUR + 0.03 * WORSE
    decision = sw.gate(of(close), log(30), estimator="per-decision")
    assert decision.answer == "collect more data"
    assert "may be better or worse" in decision.reason


def test_the_difference_is_paired_by_episode():
    """Per-decision importance sampling, by a loop over episodes; far more precise than two values side by side."""
    data = log(200)
    ours = sw.gate(of(BETTER), data, estimator="per-decision")
    each = []
    for e in range(data.episodes):
        weight, extra = 1.0, 0.0
        for row in range(data.starts[e], data.starts[e + 1]):
            state = data.observations[row].argmax()
            weight *= BETTER[state, data.actions[row]] / BEHAVIOUR[state, data.actions[row]]
            extra += (weight - 1) * data.rewards[row]
        each.append(extra)
    assert ours.difference == pytest.approx(np.mean(each), abs=1e-6)
    assert ours.standard_error == pytest.approx(np.std(each, ddof=1) / np.sqrt(data.episodes), rel=1e-4)
    near = sw.gate(of(0.9 * BEHAVIOUR + 0.1 * BETTER), data, estimator="per-decision")
    assert near.standard_error < 0.2 * np.hypot(near.estimate.standard_error, near.baseline.standard_error)


def test_the_behaviour_itself_is_nothing_new():
    for estimator in ("state-ratio", "per-decision"):
        decision = sw.gate(of(BEHAVIOUR), log(200), estimator=estimator)
        # a state ratio has single precision
        assert decision.difference == pytest.approx(0, abs={"state-ratio": 1e-4, "per-decision": 1e-12}[estimator])
        assert decision.answer != "deploy"
    assert "does the same as today" in decision.reason


@pytest.mark.parametrize(("estimator", "logs"), [("state-ratio", 2), ("doubly-robust-state-ratio", 8)])
def test_costs_of_each_step_do_not_make_the_behaviour_look_better_than_itself(estimator, logs):
    """Folds that each counted alike would count long episodes for less, by 2 Var(T)/E[T]²/n: a gain, where all cost."""
    scores = []
    for seed in range(logs):
        data = replace(log(200, seed), rewards=-np.ones(len(log(200, seed))))
        decision = sw.gate(of(BEHAVIOUR), data, estimator=estimator, draws=100)
        assert decision.answer != "deploy"
        scores.append(decision.difference / decision.standard_error)
    assert abs(np.mean(scores)) < (0.1 if estimator == "state-ratio" else 0.5)  # they were 1.3 and .9


def test_the_behaviour_itself_is_nothing_new_where_later_rows_count_less():
    """States drift and rewards grow with time: a ratio that leaves 1 for the sake of its penalty would be far off."""
    rng, episodes, steps = np.random.default_rng(0), 60, 60
    drift = 0.1 * np.arange(steps + 1)[None, :, None] + 0.1 * rng.normal(size=(episodes, steps + 1, 2)).cumsum(axis=1)
    data = sw.Dataset.from_episodes(
        observations=list(drift),
        actions=list(rng.integers(2, size=(episodes, steps))),
        rewards=list(np.exp(0.5 * drift[:, :-1, 0])),
        distributions=[np.full((steps, 2), 0.5)] * episodes,
        terminated=[False] * episodes,
    )
    decision = sw.gate(lambda seen: np.full((len(seen), 2), 0.5), data, discount=0.95)
    assert abs(decision.difference) < 0.01 * decision.baseline.value
    assert decision.low <= 0 <= decision.high


# How many episodes


def test_so_many_episodes_settle_it_four_times_in_five():
    rng, n, difference, spread = np.random.default_rng(0), 50, 0.3, 2.0
    # what is found has the square of the difference plus the variance, on average
    needed = episodes_needed(np.hypot(difference, spread / np.sqrt(n)), spread / np.sqrt(n), n, 0.95)
    error = spread / np.sqrt(needed)
    found = rng.normal(difference, error, size=20_000)
    assert np.mean(found > 1.96 * error) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("difference", [-1.0, 0.0, 0.1])
def test_how_many_is_not_said_where_it_would_be_noise(difference):
    assert episodes_needed(difference, 0.1, 100, 0.95) is None


def test_too_few_episodes_are_told_with_about_how_many_would_do():
    asked = []
    for seed in range(20):
        decision = sw.gate(of(BETTER), log(60, seed), estimator="per-decision")
        if decision.answer == "collect more data" and decision.episodes_needed:
            assert f"about {decision.episodes_needed:,} episodes in all" in decision.reason
            asked.append(decision.episodes_needed)
    spread = sw.gate(of(BETTER), log(5000), estimator="per-decision").standard_error * np.sqrt(5000)
    needed = ((1.96 + 0.8416) * spread / truth(BETTER)) ** 2
    assert needed / 3 < np.median(asked) < 3 * needed, f"{np.median(asked)} against {needed}"


@pytest.mark.parametrize("part", [0.5, 0.25])
def test_how_many_episodes_counts_the_whole_log(part):
    whole, of_part = (sw.gate(of(BETTER), log(60, 1), estimator="per-decision", part=share) for share in (1.0, part))
    assert whole.answer == of_part.answer == "collect more data"
    assert (whole.low, whole.high, whole.difference) == (of_part.low, of_part.high, of_part.difference)
    assert whole.verdict == "weak"  # where a cautious interval counts
    needed = episodes_needed(whole.difference, whole.standard_error, 60, seldomer(0.95))
    assert whole.episodes_needed == needed
    assert of_part.episodes_needed == rounded(needed / part)
    assert f"about {of_part.episodes_needed:,} episodes in all" in of_part.reason
    assert f"the log has {60 / part:.0f}" in of_part.reason


def test_how_many_says_of_how_many_units_where_there_are_units():
    units, asked = np.repeat(np.arange(30), 2), 0
    for seed in range(20):
        decision = sw.gate(of(BETTER), replace(log(60, seed), units=units), estimator="per-decision", part=0.5)
        if decision.answer == "collect more data" and (needed := decision.episodes_needed):
            assert f"about {needed:,} episodes of {rounded(needed / 2):,} units in all" in decision.reason
            assert "the log has 120 of 60" in decision.reason
            asked += 1
    assert asked > 3


# A constant in all rewards


ENDLESS = TabularMDP.random(STATES, ACTIONS, seed=3)


@pytest.mark.parametrize(("constant", "discount"), [(7.0, 1.0), (-500.0, 1.0), (500.0, 0.9)])
def test_a_constant_in_all_rewards_of_equally_long_episodes_changes_nothing(constant, discount):
    data = collect_tabular(ENDLESS, BEHAVIOUR, 200, 6, seed=0)
    policy = of(0.7 * BEHAVIOUR + 0.3 * GREEDY)
    plain = sw.gate(policy, data, discount=discount, draws=200)
    moved = sw.gate(policy, replace(data, rewards=data.rewards + constant), discount=discount, draws=200)
    assert (moved.answer, moved.verdict, moved.episodes_needed) == (plain.answer, plain.verdict, plain.episodes_needed)
    for name in ("difference", "low", "high", "standard_error"):
        assert getattr(moved, name) == pytest.approx(getattr(plain, name), rel=1e-9), name
    worth = constant * sum(discount**t for t in range(6))
    assert moved.estimate.value == pytest.approx(plain.estimate.value + worth, rel=1e-9)
    assert moved.baseline.value == pytest.approx(plain.baseline.value + worth, rel=1e-9)
    for one, other in zip(plain.measures, moved.measures, strict=True):
        assert (one.name, one.outcome) == (other.name, other.outcome)
        assert other.value == pytest.approx(one.value, rel=1e-6, abs=1e-9), one.name


# Verdicts


def with_verdict(monkeypatch, verdict):
    for module in (evaluate_module, gate_module):
        monkeypatch.setattr(module, "verdict_of", lambda measures: (verdict, "few episodes carry it"))


def test_what_is_not_identified_is_never_deployed(monkeypatch):
    with_verdict(monkeypatch, "not identified")
    decision = sw.gate(of(BETTER), log(900))
    assert decision.low > 0
    assert decision.answer == "collect more data"
    assert decision.episodes_needed is None
    assert "few episodes carry it" in decision.reason


def test_weak_support_must_pass_the_conservative_bound(monkeypatch):
    supported = sw.gate(of(BETTER), log(300))
    with_verdict(monkeypatch, "weak")
    weak = sw.gate(of(BETTER), log(300))
    assert weak.low < supported.low
    assert weak.high > supported.high
    assert "the conservative bound counts" in weak.reason


# Estimated propensities


def moved_by(refits, value):
    """How far refits lie from the estimate itself: they may all move it the same way."""
    return np.sqrt(sum((refit - value) ** 2 for refit in refits) / (len(refits) - 1))


def test_estimated_propensities_widen_the_interval_and_leave_the_answer():
    data = log(400)
    bare = replace(data, propensities=None, distributions=None)
    estimated = sw.estimate_propensities(bare, "logistic")
    decision = sw.gate(of(BETTER), estimated, estimator="per-decision")
    fixed = sw.gate(of(BETTER), replace(estimated, estimated=None), estimator="per-decision")
    assert decision.difference == fixed.difference
    again = [sw.gate(of(BETTER), refit, estimator="per-decision") for refit in estimated.refits]
    between = moved_by([one.difference for one in again], fixed.difference)
    assert decision.standard_error == pytest.approx(np.hypot(fixed.standard_error, between))
    factor = decision.standard_error / fixed.standard_error
    assert factor > 1
    assert decision.low == pytest.approx(decision.difference - factor * (fixed.difference - fixed.low))
    assert decision.high == pytest.approx(decision.difference + factor * (fixed.high - fixed.difference))
    assert decision.estimate.value == fixed.estimate.value
    between = moved_by([one.estimate.value for one in again], fixed.estimate.value)
    assert decision.estimate.standard_error == pytest.approx(np.hypot(fixed.estimate.standard_error, between))
    assert abs(decision.difference - truth(BETTER)) < 3.5 * decision.standard_error
    with pytest.raises(ValueError, match="estimate them with `estimate_propensities`"):
        sw.gate(of(BETTER), bare)


def test_episodes_are_rounded_up_to_two_digits():
    assert [rounded(n) for n in (7.2, 99.0, 101.0, 1234.0, 98_765.0)] == [8, 99, 110, 1300, 99_000]
