"""Walking towards a policy: its order, its level under the null, bounds that hold together, noise that is shared."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import statewise as sw
from statewise.domains.collect import collect_tabular
from statewise.domains.random_mdp import problem as random_mdp
from statewise.domains.tabular import TabularMDP
from statewise.ope.certify import most_promising, worth_testing
from statewise.ope.evaluate import prepare
from statewise.ope.gate import compare
from statewise.ope.next_log import chance_of, enough, more_of_today, situations
from statewise.ope.quotient import standard_error
from statewise.ope.walk import Ends, Forecast, aim, joint_factors, order_by, promise, together, walk

STATES, ACTIONS, HORIZON = 4, 2, 8
RNG = np.random.default_rng(0)
WORLD = TabularMDP.random(STATES, ACTIONS, seed=3, termination=0.2)
IDLE = replace(
    WORLD,
    rewards=np.repeat(WORLD.rewards[:, :1], ACTIONS, axis=1),
    transitions=np.repeat(WORLD.transitions[:, :1], ACTIONS, axis=1),
)
BEHAVIOUR = RNG.dirichlet([4.0, 4.0], size=STATES)
GREEDY = np.eye(ACTIONS)[WORLD.action_values(BEHAVIOUR, 1.0).argmax(axis=1)]


@cache
def log(episodes: int, seed: int = 0, idle: bool = False):
    return collect_tabular(IDLE if idle else WORLD, BEHAVIOUR, episodes, HORIZON, seed)


def ends(data, goal=GREEDY):
    states = data.observations.argmax(axis=1)
    return Ends(BEHAVIOUR[states], goal[states])


def truth(step: float, goal=GREEDY) -> float:
    return WORLD.value_within((1 - step) * BEHAVIOUR + step * goal, 1.0, HORIZON) - WORLD.value_within(
        BEHAVIOUR, 1.0, HORIZON
    )


def test_the_gain_of_doing_as_today_is_exactly_none_and_a_small_step_is_known_far_better_than_by_the_values_alone():
    data = log(200)
    ready = prepare(data, discount=1.0)
    same, _ = compare(ends(data).at(0.0), ready, near=True)
    assert same.difference == pytest.approx(0.0, abs=1e-12)
    assert standard_error(same.influence, data.groups) == pytest.approx(0.0, abs=1e-10)
    plain, _ = compare(ends(data).at(0.05), ready)
    near, _ = compare(ends(data).at(0.05), ready, near=True)
    assert near.standard_error < plain.standard_error / 3
    assert abs(near.difference - truth(0.05)) < 3.5 * near.standard_error


@pytest.mark.parametrize("logs", [25, pytest.param(1000, marks=pytest.mark.long)])
def test_where_no_action_matters_at_most_one_log_in_twenty_passes_any_step(logs):
    """In each log every step of the walk is exactly as good as today."""
    passed = 0
    for seed in range(logs):
        data = log(60, seed, idle=True)
        steps = walk(ends(data), prepare(data, discount=1.0), (0.1, 0.4, 0.8), level=0.95)
        passed += steps[0].passed
        assert all(one.passed for one in steps[:-1])  # it ends at the first that fails
    assert passed <= 0.05 * logs + 2 * np.sqrt(logs * 0.05 * 0.95)


def test_a_real_gain_is_certified_and_the_bound_holds():
    certified, held = [], []
    for seed in range(15):
        data = log(300, seed)
        ready = prepare(data, discount=1.0)
        (steps,) = together([walk(ends(data), ready, (0.1, 0.3), level=0.95)], [0.1], ready, 0.95)
        certified.append(steps[0].passed)
        held += [one.low <= truth(one.step) for one in steps if one.passed]
    assert np.mean(certified) >= 0.7
    assert np.mean(held) >= 0.9


def test_the_walk_stops_where_a_step_fails_and_bounds_of_several_are_wider():
    data = log(300)
    ready = prepare(data, discount=1.0)
    failed = walk(ends(data, 1 - GREEDY), ready, (0.2, 0.4))
    assert len(failed) == 1
    assert not failed[0].passed
    good = walk(ends(data), ready, (0.1, 0.2, 0.4))
    again, beside = together([good, failed], [0.0, 0.0], ready, 0.95)
    assert beside == failed
    for one, own in zip(again, good, strict=True):
        assert own.low == own.decision.low
        assert 0 <= one.low < own.low
    strict = walk(ends(data), ready, (0.1, 0.2, 0.4), level=0.99)  # what shares the level is tested more strictly
    for one, own in zip(together([strict], [0.0], ready, 0.95)[0], strict, strict=True):
        assert one.low > own.low
    first, *others = (together([good], [aimed_at], ready, 0.95)[0] for aimed_at in (0.0, 0.2))
    for one, other, closer in zip(first, others[0], (False, True, True), strict=True):
        assert (other.low > one.low) == closer  # what is not aimed at leaves more to what is


def test_nothing_is_widened_where_no_step_is_identified():
    data = log(8)
    ready = prepare(data, discount=1.0)
    steps = walk(ends(data), ready, (0.1, 0.2))
    assert not steps[0].identified
    assert together([steps], [0.0], ready, 0.95) == [steps]


def test_bounds_that_hold_together_are_as_wide_as_their_correlation_asks():
    data = log(400)
    ready = prepare(data, discount=1.0)
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(2, 400))

    def factors(*influences, tested=0.95, wanted=0.95):
        wanted = np.broadcast_to(wanted, len(influences))
        return joint_factors(influences, [tested] * len(influences), wanted.tolist(), ready, 0.95)

    assert factors(one) == pytest.approx([1.0])
    assert factors(one, 2 * one) == pytest.approx([1.0, 1.0])
    skewed = np.exp(3 * one)  # redrawn, its 95 % quantile is not 1.645 standard errors
    assert factors(skewed, 2 * skewed) == pytest.approx([1.0, 1.0])
    assert factors(one, 0 * one) == pytest.approx([1.0, 1.0])
    # P(max of two independent ≤ c) = .95 at c = Φ⁻¹(√.95) = 1.955
    assert factors(one, other) == pytest.approx([1.955 / 1.645] * 2, abs=0.05)
    assert factors(one, other, tested=0.98) == pytest.approx([1.955 / 2.054] * 2, abs=0.05)  # Φ⁻¹(.98) = 2.054
    # c and d with Φ(c) Φ(d) = .95 and c/d = Φ⁻¹(.99)/Φ⁻¹(.95) = 2.326/1.645
    assert factors(one, other, wanted=(0.99, 0.95)) == pytest.approx([2.431 / 1.645, 1.719 / 1.645], abs=0.05)


def test_what_promises_less_than_half_of_the_most_is_not_aimed_at():
    def known(step, gain, error=0.1):
        return Forecast(step, gain, error, True)

    assert aim((known(0.02, 1.0), known(0.1, 4.0), known(0.2, 9.0), Forecast(0.36, 50.0, 0.1, False))) == 0.15
    assert aim((known(0.02, 8.0), known(0.1, 9.0))) == 0.02
    assert aim((Forecast(0.02, 0.0, 0.0, False),)) == 0.02


def test_the_order_begins_at_the_first_step_that_will_likely_pass():
    def known(step, gain, error, identified=True):
        return Forecast(step, gain, error, identified)

    steps = (0.1, 0.2, 0.5, 1.0)
    found = (known(0.1, 1.0, 1.0), known(0.2, 3.0, 1.0), known(0.5, 9.0, 2.0), known(1.0, 9.0, 9.0, False))
    assert order_by(found, steps) == (0.2, 0.5, 1.0)
    assert order_by(found[:1], steps) == steps
    assert order_by((known(0.1, 1.0, 1.0), known(0.2, 1.5, 1.0)), steps) == (0.2, 0.5, 1.0)  # none is likely
    assert order_by((known(0.1, 0.0, 0.0, False),), steps) == steps
    assert promise(found) == pytest.approx(9.0 - 1.6449 * 2.0, abs=1e-3)


def test_a_simple_rule_is_preferred_where_it_promises_about_as_much():
    def walked(gain):
        return (Forecast(0.1, gain, 0.1, True),)

    unknown = (Forecast(0.1, 0.0, 0.0, False),)
    found = {"opposd": walked(5.0), "cql": walked(5.1), "always a": walked(4.95)}
    assert most_promising(found, 0.95) == "opposd"
    assert most_promising(found, 0.95, simple=["always a"]) == "always a"
    assert most_promising({"always a": unknown, "opposd": unknown}, 0.95, simple=["always a"]) == "opposd"
    assert most_promising({"always a": walked(1.0), "cql": walked(5.0)}, 0.95, simple=["always a"]) == "cql"


def test_a_candidate_that_was_not_learned_is_tested_beside_and_alone_where_nothing_is_promised():
    def known(gain, error=0.1):
        return (Forecast(0.1, gain, error, True),)

    unknown = (Forecast(0.1, 0.0, 0.0, False),)
    both = {"opposd": known(5.0), "as today": known(1.0), "always a": known(0.1)}
    assert worth_testing(both, 0.95, ["always a"], ["as today"]) == {"opposd": 0.8, "as today": 0.2}
    # Φ⁻¹(.99) + Φ⁻¹(.975) = 4.29 errors, for a fifth of the level to do
    assert worth_testing({**both, "as today": known(0.428)}, 0.95, ["always a"], ["as today"]) == {"opposd": 1.0}
    three = {**both, "cql": known(6.0)}
    few = worth_testing({**both, "as today": known(0.428)}, 0.95, ["always a"], ["as today"], few=True)
    assert few == {"opposd": 0.5, "as today": 0.5}  # too few episodes to say that it would not pass
    assert worth_testing(three, 0.95, ["always a"], ["as today"]) == {"cql": 0.4, "opposd": 0.4, "as today": 0.2}
    assert sum(worth_testing(three, 0.95, ["always a"], ["as today"]).values()) == pytest.approx(1)
    nothing = {"opposd": unknown, "as today": unknown, "always a": unknown}
    assert worth_testing(nothing, 0.95, ["always a"], ["as today"]) == {"as today": 1.0}
    assert worth_testing(nothing, 0.95, ["always a"], ["as today"], few=True) == {"as today": 1.0}
    assert worth_testing(nothing, 0.95, ["always a"]) == {"opposd": 1.0}


def test_where_the_learning_episodes_promise_nothing_the_way_is_geometric():
    """Fewer than ten of them: a mixture takes what today seldom takes, and needs more episodes to be told from it."""
    leaning = 0.9 * GREEDY + 0.1 * (1 - GREEDY)
    learning, judging = log(40).split(0.2, seed=0)
    found = sw.certify(lambda states: np.asarray(states) @ leaning, judging, learning=learning, discount=1.0)
    assert not any(one.identified for one in found.forecast)
    assert found.way == "geometric"
    assert found.tried[0].step == 0.02


def test_how_unevenly_episodes_count_is_compared_with_how_they_do_for_today():
    """By counts, today's own rows weigh unevenly too: of a step, only what it adds says anything against its gain."""
    source = random_mdp(306)
    data = source.collect(40, seed=1)
    ready, states = prepare(data, discount=source.discount), data.observations.argmax(axis=1)
    way = Ends(source.behaviour[states], source.problem.optimal(source.discount)[states])

    def uneven(step, near):
        decision, _ = compare(way.at(step), ready, near=near)
        return next(one.value for one in decision.measures if one.name == "even-weights")

    assert uneven(0.0, near=True) == pytest.approx(0.0, abs=1e-9)
    assert uneven(0.0, near=False) > 0.02
    assert 0 < uneven(0.7, near=True) < uneven(0.7, near=False)


def test_certify_returns_a_policy_that_is_better_in_truth_and_says_what_to_log_next():
    train, held_out = log(700).split(0.4, seed=0)
    seen = []
    certificate = sw.certify(lambda states: np.asarray(states) @ GREEDY, held_out, learning=train, discount=1.0,
                             progress=lambda done, total: seen.append((done, total)))  # fmt: skip
    assert certificate.answer == "deploy"
    assert certificate.decision.estimate.level == certificate.level == 0.95  # what is shown is what it says
    table = certificate.policy.probabilities(np.eye(STATES))
    gain = WORLD.value_within(table, 1.0, HORIZON) - WORLD.value_within(BEHAVIOUR, 1.0, HORIZON)
    assert 0 < certificate.low <= gain
    assert certificate.tried[0].step <= certificate.step
    np.testing.assert_allclose(certificate.today.probabilities(np.eye(STATES)), BEHAVIOUR, atol=0.02)
    assert 0 <= certificate.next.chance <= 1
    assert certificate.next.sentence.endswith(".")
    assert seen[-1][0] == seen[-1][1]


def test_certify_without_learning_episodes_takes_a_third_for_the_order():
    certificate = sw.certify(lambda states: np.asarray(states) @ GREEDY, log(300), discount=1.0)
    assert certificate.decision.episodes == 200


def test_nothing_is_certified_where_nothing_can_be_gained():
    certificate = sw.certify(lambda states: np.asarray(states) @ (1 - GREEDY), log(300), discount=1.0)
    assert certificate.answer != "deploy"
    assert certificate.policy is None
    assert certificate.step == 0
    with pytest.raises(ValueError, match=r"level: expected a number between 0\.5 and 1"):
        sw.certify(lambda states: states, log(300), level=0.4)


def test_the_chance_of_a_further_step_is_that_of_a_test():
    rng = np.random.default_rng(0)
    gain, spread, judging = 0.3, 2.0, 400.0
    means = rng.normal(gain, spread / np.sqrt(judging), size=20_000)
    passed = np.mean(means > 1.6449 * spread / np.sqrt(judging))
    assert chance_of(gain, 0.0, spread, judging, 0.95) == pytest.approx(passed, abs=0.01)
    unsure = rng.normal(gain, 0.2, size=20_000) + rng.normal(0, spread / np.sqrt(judging), size=20_000)
    assert chance_of(gain, 0.2, spread, judging, 0.95) == pytest.approx(
        np.mean(unsure > 1.6449 * spread / np.sqrt(judging)), abs=0.01
    )
    episodes, chance = enough(gain, 0.0, spread, 400, 0.95)
    assert chance >= 0.8
    assert chance_of(gain, 0.0, spread, 0.5 * episodes / 1.2, 0.95) < 0.8
    assert enough(-1.0, 0.1, 1.0, 400, 0.95)[0] == 400


def test_situations_are_those_in_which_the_policy_differs():
    data = log(600)
    states = data.observations.argmax(axis=1)
    changed = BEHAVIOUR.copy()
    changed[2] = [0.0, 1.0]
    found = situations(BEHAVIOUR[states], changed[states], prepare(data, discount=1.0))
    assert len(found) == 1
    assert found[0].action == "1"
    assert found[0].then == pytest.approx(1.0)
    assert "2" in found[0].where
    assert found[0].share == pytest.approx(np.mean(states == 2))


def test_where_no_number_of_episodes_gives_a_fair_chance_none_is_told():
    ready = prepare(log(200), discount=1.0)
    judged, _ = compare(ends(log(200)).at(0.02), ready, near=True)

    def first(gain: float, error: float):
        low = gain - 1.645 * error
        return replace(judged, verdict="supported", difference=gain, low=low, standard_error=error)

    drowned = more_of_today(first(0.0005, 0.005), 0.02, ready, 0.95, 0.5)
    assert drowned.episodes is None
    assert 0 < drowned.chance < 0.8
    assert "would settle it cannot be said" in drowned.sentence
    clear = more_of_today(first(0.008, 0.005), 0.02, ready, 0.95, 0.5)
    assert clear.episodes > 0
    assert clear.chance >= 0.8
    worse = more_of_today(first(-0.01, 0.005), 0.02, ready, 0.95, 0.5)
    assert (worse.episodes, worse.chance) == (None, 0.0)
    assert "would not help" in worse.sentence
