"""A log carries its estimated propensities: what its parts, its augmentations and its estimates make of them."""

from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from logs import simulated, without
from statewise.data.augment import Scaler, pad, smooth
from statewise.ope.evaluate import Judged, evaluate_all, prepare
from statewise.ope.quotient import standard_error
from statewise.propensities import crossfit
from statewise.propensities.widening import widening


@pytest.fixture(scope="module")
def log():
    """Estimated, with two episodes a unit."""
    return sw.estimate_propensities(without(simulated(40, 6, units=[e // 2 for e in range(40)])), "logistic", seed=3)


def policy(seen):
    """Other than the behaviour: it never looks at the second and third column."""
    chances = np.exp(np.outer(seen[:, 0], [2.0, 0.0, 0.5]))
    return chances / chances.sum(axis=1, keepdims=True)


def test_logged_propensities_have_no_refits():
    logged = simulated(4, 3)
    assert logged.estimated is None
    assert logged.refits == ()


def test_refits_are_the_log_as_if_other_propensities_had_been_logged(log):
    assert len(log.refits) == crossfit.REFITS
    for refit in log.refits:
        assert refit.estimated is None
        assert refit.refits == ()
        np.testing.assert_array_equal(refit.propensities, refit.distributions[np.arange(len(log)), log.actions])
        np.testing.assert_array_equal(refit.observations, log.observations)
        assert 0 < np.abs(refit.distributions - log.distributions).max() < 0.5
    firsts = {refit.propensities[0] for refit in log.refits}
    assert len(firsts) == crossfit.REFITS


def test_it_says_how_it_was_made(log):
    assert (log.estimated.model, log.estimated.folds, log.estimated.seed) == ("logistic", 5, 3)
    assert repr(log.estimated) == f"Estimated: {log.estimated.summary}"
    assert "whole distributions, estimated" in repr(log)
    assert "estimated" not in repr(replace(log, estimated=None))


def test_parts_have_their_rows_of_the_estimates_and_of_the_refits(log):
    """Also a part of a part, and episodes that come twice."""
    train, held_out = log.split(0.5, seed=1)
    twice = held_out.take(np.array([3, 0, 3]))
    for part in (train, held_out, twice):
        places = [np.flatnonzero(log.episode_ids == episode)[0] for episode in part.episode_ids]
        rows = np.concatenate([np.arange(log.starts[e], log.starts[e + 1]) for e in places])
        np.testing.assert_array_equal(part.distributions, log.distributions[rows])
        assert part.estimated.calibration is log.estimated.calibration
        for own, whole in zip(part.refits, log.refits, strict=True):
            np.testing.assert_array_equal(own.distributions, whole.distributions[rows])
            np.testing.assert_array_equal(own.propensities, whole.propensities[rows])
            np.testing.assert_array_equal(own.rewards, log.rewards[rows])


def test_refits_are_fitted_once_for_the_whole_and_all_its_parts(monkeypatch):
    fits = []
    monkeypatch.setattr(crossfit, "out_of_fold", counted(crossfit.out_of_fold, fits))
    log = sw.estimate_propensities(without(simulated(12, 3)), "logistic", folds=2)
    parts = log.split(0.5)
    assert len(fits) == 1
    assert len(parts[0].refits) == crossfit.REFITS
    assert len(fits) == 1 + crossfit.REFITS
    assert [len(one.refits) for one in (log, parts[1], parts[0].take(np.array([0])))] == [crossfit.REFITS] * 3
    assert len(fits) == 1 + crossfit.REFITS


def counted(function, calls):
    def call(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return call


def test_a_scaled_log_keeps_them_since_no_decision_changes(log):
    scaled = Scaler.of(log).scale(log)
    assert scaled.estimated is log.estimated
    np.testing.assert_array_equal(scaled.refits[0].distributions, log.refits[0].distributions)
    np.testing.assert_array_equal(scaled.refits[0].observations, scaled.observations)


def test_padding_and_smoothing_take_them_as_known(log):
    """No refit says what the added rows' propensities would have been."""
    padded = pad(log, 8)
    assert padded.estimated is None
    assert padded.refits == ()
    np.testing.assert_array_equal(padded.propensities[padded.live], log.propensities)
    fourth = sw.estimate_propensities(replace(without(log), action_count=4, action_names=()), "logistic")
    smoothed = smooth(replace(fourth, rewards=np.abs(fourth.rewards)), 0.1).dataset
    assert len(smoothed) > len(fourth)
    assert smoothed.estimated is None


@pytest.mark.parametrize("change", [{"propensities": None}, {"distributions": None}, {"actions": 0}])
def test_other_propensities_never_pass_for_the_estimated_ones(log, change):
    change = {name: value if value is None else np.full_like(log.actions, value) for name, value in change.items()}
    with pytest.raises(
        ValueError, match="actions or propensities differ from the estimated ones; set estimated=None along with them"
    ):
        replace(log, **change)
    assert replace(log, **change, estimated=None).refits == ()


def test_a_padded_log_is_not_estimated(log):
    with pytest.raises(ValueError, match="estimate propensities before augmenting"):
        sw.estimate_propensities(pad(log, 8))


def test_a_log_estimated_again_carries_the_later_estimate(log):
    again = sw.estimate_propensities(log, "logistic", folds=2)
    assert again.estimated.folds == 2
    assert not np.array_equal(again.distributions, log.distributions)


def test_saving_estimates_as_if_they_were_logged_is_said(log, tmp_path):
    with pytest.warns(
        sw.LogWarning, match=r"x.parquet: its propensities are estimates, but `load` will take them for logged ones"
    ):
        log.save(tmp_path / "x.parquet")
    back = sw.load(tmp_path / "x.parquet")
    assert back.estimated is None
    np.testing.assert_array_equal(back.propensities, log.propensities)


def test_the_fingerprint_is_that_of_the_numbers(log):
    assert log.fingerprint == replace(log, estimated=None).fingerprint
    logged = sw.Dataset.from_episodes(
        observations=[[[0.0], [1.0]], [[0.5]]],
        actions=[[0, 1], [1]],
        rewards=[[0.0, 1.0], [0.5]],
        propensities=[[0.5, 0.5], [0.25]],
        terminated=[True, False],
    )
    # as it was when a Dataset carried no estimates: run folders and policy cards know logs by it
    assert logged.fingerprint == "7098a7b927a6e1ddf076d6ef7436284f79609ad2ace9471b954737918a437190"


# What they add to an interval


@pytest.mark.parametrize(("interval", "level"), [("bootstrap", 0.95), ("bernstein", 0.05)])
@pytest.mark.parametrize("estimator", ["per-decision", "doubly-robust-state-ratio"])
def test_an_estimate_is_widened_by_how_far_it_moves_between_refits(log, estimator, interval, level):
    """Each refit is evaluated by itself, as if its propensities had been logged."""

    def evaluated(data):
        return sw.evaluate(policy, data, estimator, interval=interval, level=level)

    widened, known = evaluated(log), evaluated(replace(log, estimated=None))
    moved = [evaluated(refit).value for refit in log.refits]
    variance = sum((value - known.value) ** 2 for value in moved) / (len(moved) - 1)  # refits may all move one way
    alone = Judged(policy, prepare(replace(log, estimated=None)), [estimator]).quotient(estimator)
    noise = standard_error(alone.influence(), log.groups)
    below, above = ((1 + variance / (noise**2 + side**2)) ** 0.5 for side in alone.allowance)
    assert min(below, above) > 1.001
    assert widened.value == known.value
    assert widened.low == pytest.approx(known.value - below * (known.value - known.low))
    assert widened.high == pytest.approx(known.value + above * (known.high - known.value))
    assert widened.standard_error == pytest.approx((noise**2 + variance + max(alone.allowance) ** 2) ** 0.5)


def test_no_widened_interval_reaches_beyond_what_can_be_earned(log):
    """Six steps at the least logged reward, or at the greatest."""
    one = sw.evaluate(policy, log, "per-decision", interval="bernstein", level=0.999)
    assert one.low == pytest.approx(6 * log.rewards.min())
    assert one.high == pytest.approx(6 * log.rewards.max())


def test_what_has_no_error_is_not_widened():
    assert widening(2.0, [1.0, 4.0], 3.0) == pytest.approx((4 + 1 + 16 + 9) ** 0.5 / 2)
    assert widening(2.0, [1.0]) == widening(0.0, [1.0, 2.0], 1.0) == widening(float("inf"), [1.0, 2.0], 1.0) == 1.0


def test_a_prepared_log_widens_as_the_log_itself_does(log):
    names = ("per-decision", "behaviour")
    told = evaluate_all(policy, prepare(log, discount=0.9), names)
    for name, expected in evaluate_all(policy, log, names, discount=0.9).items():
        assert (told[name].value, told[name].low, told[name].high) == (expected.value, expected.low, expected.high)
    assert told["behaviour"].standard_error == pytest.approx(
        sw.evaluate(policy, replace(log, estimated=None), "behaviour", discount=0.9).standard_error
    )
