"""Every measure: a log on which it is good, one on which it is not, and how often a right log is suspected."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import statewise as sw
from logs import make, simulated
from statewise.data.horizon import Horizon
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ope.attainable import attainable
from statewise.ope.estimators import ESTIMATORS, USUAL
from statewise.ope.evaluate import prepare
from statewise.ope.measures import MEASURES, Evidence, measured, of_the_gain
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient, difference
from statewise.ope.support import support_of
from statewise.ope.verdict import verdict_of
from statewise.propensities.logged import logged_calibration

pytestmark = pytest.mark.usefixtures("by_features")

STATES = 4
MDP = TabularMDP.random(STATES, 2, seed=3, termination=0.3)
RNG = np.random.default_rng(0)
BEHAVIOUR = RNG.dirichlet([4.0, 4.0], size=STATES)
NEAR = 0.7 * BEHAVIOUR + 0.3 * RNG.dirichlet([4.0, 4.0], size=STATES)


def of(table):
    return lambda seen: seen @ table


def evidence_of(policy, data, estimator=USUAL, gain=False, **options):
    log = prepare(data, **options)
    case = Case(log, np.asarray(policy(data.observations), np.float64))
    estimate = ESTIMATORS[estimator](case, data.rewards)
    paired = difference(estimate, ESTIMATORS["behaviour"](case, data.rewards)) if gain else None
    return Evidence(case, estimate, support_of(case, estimate), paired)


def outcome(name, evidence):
    measure = MEASURES[name]
    assert measure.applies(evidence)
    return measure.outcome(measure.value(evidence))


@cache
def sound():
    """A log that nothing is wrong with."""
    return collect_tabular(MDP, BEHAVIOUR, 1000, 40, seed=0)


@cache
def usual():
    return evidence_of(of(NEAR), sound())


# From measures to the verdict


def test_nothing_is_wrong_with_a_sound_log():
    measures = measured(usual())
    assert {measure.outcome for measure in measures} == {"good"}
    elsewhere = {"estimated-propensities", "known-length", "early-and-late", "record-reaches"}
    assert {measure.name for measure in measures} == set(MEASURES) - elsewhere - {"missed-by-ratio"}
    assert {measure.name for measure in measured(usual()._replace(gain=usual().estimate))} == {"early-and-late"}


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        ({}, "supported", "of 1,000 episodes carry it"),
        ({"unsupported": 0.02}, "weak", "2 % of the policy's decisions are ones that the log's behaviour never takes"),
        ({"unsupported": 0.2}, "not identified", "20 % of the policy's decisions"),
        ({"effective": 5.0}, "not identified", "5.0 of 1,000 episodes carry it"),
        ({"effective": 20.0, "counted": 40, "counted_as": "units"}, "weak", "20 of 40 units carry it"),
        ({"effective_share": 0.2}, "weak", "1,000 episodes tell as much as about 200 equal ones"),
        ({"mass": 0.3}, "not identified", "mean 0.3"),
        ({"mass": float("nan")}, "not identified", "mean nan"),
        ({"imbalance": 0.05}, "weak", "misses its equations by 5 %"),
        ({"imbalance": 0.2}, "not identified", "misses its equations by 20 %"),
        ({"freedom": 12.0}, "weak", "the standard error is known as well as from 13 equal episodes"),
        ({"freedom": 2.0}, "not identified", "as from 3.0 equal episodes"),
        ({"unseen": 0.005}, "weak", "about 0.5 % of the policy's steps lie in situations that the log does not show"),
        ({"unseen": 0.04}, "weak", "about 4 % of the policy's steps"),
        ({"unseen": 0.06}, "not identified", "about 6 % of the policy's steps"),
        ({"negative": 0.009}, "weak", "0.9 % of the state ratio is negative"),
        ({"negative": 0.015}, "not identified", "1.5 % of the state ratio is negative"),
        (
            {"negative": 0.0006, "imbalance": 0.035},
            "not identified",
            "is negative, and it misses its equations by 3.5 %",
        ),
        ({"negative": 0.0006, "imbalance": 0.015}, "weak", "0.06 % of the state ratio is negative"),
        ({"negative": 0.0002, "imbalance": 0.035}, "weak", "misses its equations by 3.5 %"),
        ({"missed": 2.0}, "weak", "finds 2.0 standard errors missing"),
        ({"leaning": 50.0}, "weak", "corrects the state ratio by 50.0"),
        ({"leaning": float("nan")}, "not identified", "by nan"),
    ],
)
def test_the_verdict_is_the_worst_of_the_measures(change, verdict, words):
    """… and the one that decides it stands first among them."""
    if "effective_share" in change:
        change = change | {"heaviest": float("inf")}
    measures = measured(usual()._replace(support=replace(usual().support, **change)))
    given, reason = verdict_of(measures)
    assert given == verdict
    assert words in reason
    assert measures[0].outcome == {"supported": "good", "weak": "doubtful", "not identified": "bad"}[verdict]
    assert verdict == "supported" or reason == measures[0].sentence


@pytest.mark.parametrize(("negative", "of_a_gain"), [(0.015, "doubtful"), (0.019, "doubtful"), (0.021, "bad")])
def test_of_a_ratio_twice_as_much_may_be_negative_for_a_gain(negative, of_a_gain):
    evidence = usual()._replace(support=replace(usual().support, negative=negative))
    outcomes = {one.name: one.outcome for one in measured(evidence)}
    assert outcomes["negative-ratio"] == "bad"
    gain = of_the_gain(measured(evidence), evidence._replace(gain=usual().estimate))
    assert {one.name: one.outcome for one in gain}["negative-ratio"] == of_a_gain


@pytest.mark.parametrize(("negative", "imbalance", "of_a_gain"), [(0.0008, 0.03, "bad"), (0.0008, 0.01, "good")])
def test_both_signs_of_leaving_the_log_are_those_of_the_gain(negative, imbalance, of_a_gain):
    """Half of what is negative, as everywhere; and what the ratio misses beyond what today's own misses."""
    evidence = usual()._replace(support=replace(usual().support, negative=negative, imbalance=0.06))
    assert {one.name: one.outcome for one in measured(evidence)}["within-reach"] == "bad"
    gain = replace(usual().estimate, imbalance=imbalance)
    outcomes = {one.name: one.outcome for one in of_the_gain(measured(evidence), evidence._replace(gain=gain))}
    assert outcomes["within-reach"] == of_a_gain


def test_a_measure_that_was_not_made_is_not_good():
    """Importance sampling is compared with a return, not with an average."""
    measures = measured(evidence_of(of(NEAR), sound(), objective="average"))
    agreement = next(measure for measure in measures if measure.name == "agreement")
    assert (agreement.outcome, agreement.value) == ("not made", None)
    assert agreement.sentence == MEASURES["agreement"].missing


# Each by itself


def test_actions_that_nobody_tried():
    assert outcome("tried-actions", usual()) == "good"
    certain = replace(sound(), propensities=np.ones(len(sound())), distributions=None)
    assert outcome("tried-actions", evidence_of(of(NEAR), certain, "per-decision")) == "bad"


def test_weights_whose_mean_is_not_one():
    assert outcome("mean-weight", usual()) == "good"
    wrong = replace(sound(), propensities=0.8 * sound().propensities, distributions=None)
    evidence = evidence_of(of(NEAR), wrong)
    assert evidence.support.mass == pytest.approx(1.25, abs=0.02)
    assert outcome("mean-weight", evidence) == "bad"


@cache
def bare(episodes):
    """So many episodes of one step, of which nothing is asked but their number."""
    data = replace(make([1] * episodes), terminated=np.ones(episodes, bool))
    return evidence_of(lambda seen: np.full((len(seen), 3), 1 / 3), data, "behaviour")


def test_weights_whose_mean_is_one_are_seldom_suspected():
    """Exponential weights of 200 episodes: mean 1 ± .07, and two standard errors and 3 % are let pass."""
    generator, ones, suspected = np.random.default_rng(0), np.ones(200), []
    for _ in range(600):
        weight = generator.exponential(size=200)
        estimate = Quotient(weight, ones, weight=weight, base=ones, mass=float(weight.mean()))
        support = support_of(bare(200).case, estimate)
        assert support.mass_error == pytest.approx(stats.sem(weight))
        suspected.append(outcome("mean-weight", bare(200)._replace(support=support)) != "good")
    assert np.mean(suspected) < 0.04


def of_length(steps, seed=0, episodes=600):
    endless = TabularMDP.random(STATES, 2, seed=3)
    return collect_tabular(endless, BEHAVIOUR, episodes, steps, seed)


def test_a_reward_of_one_a_step():
    """With a clock it is one of the ratio's own equations, ψ(s, t) = t, which even wrong propensities do not break."""
    data = of_length(5)
    evidence = evidence_of(of(NEAR), data, discount=1.0)
    assert outcome("known-length", evidence) == "good"
    wrong = np.where(data.time == 4, 0.5, 1.0) * data.propensities
    off = evidence_of(of(NEAR), replace(data, propensities=wrong, distributions=None), discount=1.0)
    assert outcome("known-length", off) == "good"
    assert not MEASURES["known-length"].applies(usual())  # its episodes end when they end


@pytest.mark.parametrize(("length", "expected"), [(5.0, "good"), (5.04, "good"), (4.85, "doubtful"), (5.3, "bad")])
def test_a_length_that_is_not_that_of_the_episodes(length, expected):
    evidence = evidence_of(of(NEAR), of_length(5), discount=1.0)
    ones = np.ones(600)
    evidence.case.remembered("length", lambda: Quotient(length * ones, ones, ones, ones))
    assert outcome("known-length", evidence) == expected


def test_estimates_beyond_what_can_be_earned():
    assert outcome("attainable", usual()) == "good"
    low, high = attainable(usual().log)
    error = usual().error
    ends = [(side, bound) for side, bound in ((-1, low), (1, high)) if np.isfinite(bound)]
    assert ends
    for side, bound in ends:
        for by, expected in ((-0.1, "good"), (0.9, "good"), (2.0, "doubtful"), (4.0, "bad")):
            moved = usual().estimate
            shift = bound + side * by * error - moved.value
            moved = replace(moved, numerator=moved.numerator + shift * moved.denominator)
            assert outcome("attainable", usual()._replace(estimate=moved)) == expected


def remembered(chance, seed=0, episodes=1500):
    """Two decisions; the second is like the first with that chance, and it pays if it is. Nothing is observed."""
    rng = np.random.default_rng(seed)
    first = rng.integers(2, size=episodes)
    same = rng.random(episodes) < chance
    second = np.where(same, first, 1 - first)
    return sw.Dataset.from_episodes(
        observations=[np.ones((2, 1))] * episodes,
        actions=list(np.stack([first, second], axis=1)),
        rewards=list(np.stack([0.0 * same, 1.0 * same], axis=1)),
        propensities=list(np.stack([np.full(episodes, 0.5), np.where(same, chance, 1 - chance)], axis=1)),
        terminated=[True] * episodes,
    )


def test_where_history_matters_estimators_disagree():
    """π takes action 1 nine times in ten: it repeats itself in 82 %, of which a state without memory knows nothing."""
    assert outcome("agreement", usual()) == "good"
    evidence = evidence_of(lambda seen: np.tile([0.1, 0.9], (len(seen), 1)), remembered(0.5))
    assert evidence.estimate.value == pytest.approx(0.5, abs=0.1)
    assert outcome("agreement", evidence) == "bad"


def test_a_behaviour_that_its_own_clone_does_not_earn():
    """It repeats itself in 90 %; a clone that sees what was logged repeats itself in half."""
    bare = replace(sound(), distributions=None)
    assert outcome("behaviour-itself", evidence_of(of(NEAR), bare)) == "good"
    half = lambda seen: np.full((len(seen), 2), 0.5)  # noqa: E731
    assert outcome("behaviour-itself", evidence_of(half, remembered(0.5))) == "good"
    assert outcome("behaviour-itself", evidence_of(half, remembered(0.9))) == "doubtful"


def drifting(influence):
    gain = Quotient(influence, *[np.ones(len(influence))] * 3)
    return MEASURES["early-and-late"].value(bare(len(influence))._replace(gain=gain))


def test_kolmogorovs_distance_is_beyond_its_bounds_as_often_as_it_says():
    """1.63 once in a hundred logs, 1.95 once in a thousand; with 400 episodes a little less."""
    generator = np.random.default_rng(0)
    found = np.array([drifting(generator.normal(size=400)) for _ in range(2000)])
    good, identified = MEASURES["early-and-late"].bounds
    assert np.mean(found > good) == pytest.approx(stats.kstwobign.sf(good), abs=0.006)
    assert 0.002 < np.mean(found > good) < 0.015
    assert np.mean(found > identified) < 0.003
    assert np.median(found) == pytest.approx(stats.kstwobign.median(), abs=0.05)


def test_a_gain_that_was_there_only_in_the_first_half():
    generator = np.random.default_rng(0)
    changed = generator.normal(size=400) + np.repeat([0.5, -0.5], 200)
    assert MEASURES["early-and-late"].outcome(drifting(changed)) == "bad"
    assert outcome("early-and-late", evidence_of(of(NEAR), sound(), gain=True)) == "good"


@pytest.mark.parametrize(("ends", "expected"), [(0.7, "good"), (0.3, "doubtful"), (0.1, "bad")])
def test_records_that_stop_where_many_episodes_go_on(ends, expected):
    """All are cut off after five steps: (1 − ends)⁵ of the episodes go on."""
    lengths = np.random.default_rng(0).geometric(ends, size=2000)
    data = make(np.minimum(lengths, 5), final=[False] * 2000)
    data = replace(data, terminated=lengths <= 5, ends=Horizon("censored"))
    half = lambda seen: np.full((len(seen), 3), 1 / 3)  # noqa: E731
    evidence = evidence_of(half, data, "behaviour", discount=1.0)
    assert MEASURES["record-reaches"].value(evidence) == pytest.approx((1 - ends) ** 5, abs=0.03)
    assert outcome("record-reaches", evidence) == expected


def test_logged_propensities_that_are_not_those_of_the_actions():
    right = simulated(200, 10)
    third = lambda seen: np.full((len(seen), 3), 1 / 3)  # noqa: E731
    assert outcome("logged-propensities", evidence_of(third, right, "per-decision")) == "good"
    wrong = replace(right, distributions=np.full((len(right), 3), 1 / 3), propensities=np.full(len(right), 1 / 3))
    assert outcome("logged-propensities", evidence_of(third, wrong, "per-decision")) == "bad"


def test_right_propensities_are_hardly_ever_suspected():
    assert all(logged_calibration(simulated(40, 10, seed=seed)).good for seed in range(60))


def softer(seen):
    """What `simulated` logs do, less decidedly."""
    chances = np.exp(0.6 * np.stack([seen[:, 0], -seen[:, 1], 0.5 * seen[:, 2]], axis=1))
    return chances / chances.sum(axis=1, keepdims=True)


def test_ratios_whose_mean_is_not_one_somewhere():
    """Propensities 20 % too low where the first column is above 1: too little for counts of actions to tell."""
    right = simulated(400, 10)
    some = np.where(right.observations[:, 0] > 1, 0.8, 1.0)
    wrong = replace(right, propensities=some * right.propensities, distributions=None)
    assert outcome("mean-ratio", evidence_of(softer, right, "per-decision")) == "good"
    evidence = evidence_of(softer, wrong, "per-decision")
    assert outcome("mean-ratio", evidence) == "doubtful"
    assert outcome("logged-propensities", evidence) == "good"


@pytest.mark.parametrize("known", [True, False])
def test_right_ratios_are_hardly_ever_suspected(known):
    values = []
    for seed in range(40):
        data = simulated(60, 10, seed=seed)
        data = data if known else replace(data, distributions=None)
        values.append(MEASURES["mean-ratio"].value(evidence_of(softer, data, "per-decision")))
    made = [value for value in values if value is not None]
    assert max(made, default=0.0) <= 1
    assert not known or (len(made) > 30 and np.median(made) > 0.2)  # it is not asleep


# Weights as they are


def test_the_skewness_of_one_steps_ratios_is_exact():
    """E_μ[ρ²] = Σ π²/μ and E_μ[ρ³] = Σ π³/μ² over the logged states, against a million draws."""
    rng, n, actions = np.random.default_rng(1), 500, 4
    behaviour, policy = rng.dirichlet(np.full(actions, 2.0), size=(2, n))
    behaviour = 0.9 * behaviour + 0.1 / actions
    taken = (behaviour.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    data = sw.Dataset.from_episodes(
        observations=list(rng.normal(size=(n, 1, 2))),
        actions=list(taken[:, None]),
        rewards=list(rng.normal(size=(n, 1))),
        distributions=list(behaviour[:, None]),
        terminated=[True] * n,
    )
    case = Case(prepare(data), policy)
    place = rng.integers(n, size=1_000_000)
    drawn = np.minimum((behaviour.cumsum(axis=1)[place] < rng.random((len(place), 1))).sum(axis=1), actions - 1)
    ratios = policy[place, drawn] / behaviour[place, drawn]
    assert case.ratio_skewness == pytest.approx(stats.skew(ratios), rel=0.03)
    evidence = evidence_of(lambda seen: policy, data)
    share = evidence.support.effective_share
    lognormal, bound = (1 / share + 2) ** 2 * (1 / share - 1), evidence.support.heaviest**2 / (1 / share - 1)
    assert case.ratio_skewness**2 < min(lognormal, bound)
    assert MEASURES["even-weights"].value(evidence) == pytest.approx(case.ratio_skewness**2 / n)
    hidden = evidence_of(lambda seen: policy, replace(data, distributions=None))
    assert hidden.case.ratio_skewness == pytest.approx(case.ratio_skewness, rel=0.5)


# Units


def in_units(units):
    data = sound()
    return replace(data, units=np.arange(data.episodes) % units)


def test_what_carries_an_estimate_is_counted_in_units():
    whole, twenty = usual().support, evidence_of(of(NEAR), in_units(20)).support
    assert (whole.counted, whole.counted_as) == (1000, "episodes")
    assert whole.effective == pytest.approx(whole.effective_share * 1000)
    assert (twenty.counted, twenty.counted_as) == (20, "units")
    weight = usual().estimate.weight
    sums = np.array([weight[np.arange(1000) % 20 == unit].sum() for unit in range(20)])
    assert twenty.effective == pytest.approx(sums.sum() ** 2 / (sums**2).sum(), rel=1e-6)
    assert 18 < twenty.effective <= 20


@pytest.mark.parametrize(("units", "verdict"), [(2, "not identified"), (9, "not identified"), (40, "supported")])
def test_fewer_than_ten_units_are_never_identified(units, verdict):
    for estimator in (USUAL, "per-decision", "behaviour"):
        one = sw.evaluate(of(NEAR), in_units(units), estimator)
        assert one.verdict == verdict, one
        assert f"of {units} units carry it" in one.reason
    decision = sw.gate(of(NEAR), in_units(units))
    assert (decision.verdict == "not identified") == (units < 10)
    assert units > 9 or decision.answer == "collect more data"
