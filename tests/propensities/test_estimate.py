"""Estimated propensities against the true ones of simulated logs, and against scikit-learn used directly."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import statewise as sw
from logs import simulated, without
from statewise.data.table import to_frame
from statewise.propensities.calibration import Calibrator, fit_calibrator, measure_calibration
from statewise.propensities.crossfit import action_frequencies, out_of_fold

ACTIONS = 3


def off_by(estimated, data):
    return np.sqrt(np.mean((estimated.distributions - data.distributions) ** 2))


@pytest.fixture(scope="module")
def data():
    return simulated()


@pytest.fixture(scope="module")
def logistic(data):
    return sw.estimate_propensities(without(data), "logistic")


@pytest.fixture(scope="module")
def boosting(data):
    return sw.estimate_propensities(without(data), "boosting")


def test_estimates_are_near_the_truth(data, logistic, boosting):
    """The logistic model is the true one; its error is that of 7 parameters from 2,400 rows: about √(7/2400)/3."""
    frequencies = np.sqrt(np.mean((action_frequencies(data) - data.distributions) ** 2))
    assert off_by(logistic, data) < 0.02
    assert off_by(boosting, data) < 0.5 * frequencies
    tree = sw.estimate_propensities(without(data), DecisionTreeClassifier(random_state=0))
    assert off_by(boosting, data) < off_by(tree, data)


def test_more_data_brings_estimates_nearer(data, logistic):
    small = simulated(episodes=25, seed=1)
    assert off_by(logistic, data) < off_by(sw.estimate_propensities(without(small), "logistic"), small)


def test_the_log_is_filled_and_otherwise_unchanged(data, logistic):
    filled = logistic
    rows = np.arange(len(data))
    np.testing.assert_array_equal(filled.propensities, filled.distributions[rows, data.actions])
    np.testing.assert_allclose(filled.distributions.sum(axis=1), 1)
    np.testing.assert_array_equal(filled.observations, data.observations)
    assert filled.propensities.min() > 0


def test_out_of_fold_predictions_are_scikit_learns(data):
    fold = data.episode_of_step % 4
    ours = out_of_fold(without(data), "logistic", fold)
    for k in range(4):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        model.fit(data.observations[fold != k], data.actions[fold != k])
        np.testing.assert_allclose(ours[fold == k], model.predict_proba(data.observations[fold == k]))


class _Memory:
    """A classifier that is certain of every row it has seen, and of action 0 elsewhere."""

    def get_params(self, deep=False):
        return {}

    def fit(self, seen, actions):
        self.classes_ = np.arange(ACTIONS)
        self.known = {row.tobytes(): a for row, a in zip(seen, actions, strict=True)}
        return self

    def predict_proba(self, asked):
        return np.eye(ACTIONS)[[self.known.get(row.tobytes(), 0) for row in asked]]


@pytest.mark.parametrize("by_unit", [False, True])
def test_no_row_is_predicted_by_a_model_that_saw_its_episode_or_unit(by_unit):
    """Each episode (or unit) repeats one row of its own, which a leak would let the memory recognise."""
    episodes, rng = 30, np.random.default_rng(0)
    units = np.arange(episodes) // 3 if by_unit else None
    own = rng.normal(size=(episodes, 1, 2)) if units is None else rng.normal(size=(10, 1, 2))[units]
    data = sw.Dataset.from_episodes(
        observations=list(np.repeat(own, 5, axis=1)),
        actions=list(np.full((episodes, 5), 1) + rng.integers(2, size=(episodes, 1))),
        rewards=[np.zeros(5)] * episodes,
        propensities=[np.ones(5)] * episodes,
        terminated=[True] * episodes,
        units=None if units is None else units.tolist(),
    )
    estimated = sw.estimate_propensities(without(data), _Memory())
    # it knew nothing: calibration leaves the action frequencies
    calibration = estimated.estimated.calibration
    assert calibration.brier == pytest.approx(calibration.brier_of_frequencies, abs=0.02)


def test_overconfidence_is_taken_back(data):
    """p² / Σp² has temperature 2 by construction; the truth has the least log loss of all temperatures."""
    sharp = data.distributions**2 / np.sum(data.distributions**2, axis=1, keepdims=True)
    made = fit_calibrator(sharp, action_frequencies(data), data.actions)
    assert made.temperature == pytest.approx(2, rel=0.15)
    assert made.share < 0.1
    mended = made(sharp, action_frequencies(data))
    assert log_loss(data.actions, mended) < log_loss(data.actions, sharp) - 0.02
    assert np.abs(mended - data.distributions).mean() < 0.02


def test_a_certain_classifier_never_leaves_a_taken_action_without_probability():
    data = simulated(episodes=30)
    estimated = sw.estimate_propensities(without(data), DecisionTreeClassifier(random_state=0))
    assert estimated.propensities.min() > 0.01
    assert estimated.estimated.calibration.good


def test_illegal_actions_get_nothing_and_legal_ones_all():
    data = simulated(episodes=60, masked=True)
    estimated = sw.estimate_propensities(without(data), "logistic").distributions
    assert (estimated[~data.legal] == 0).all()
    assert (estimated[data.legal] > 0).all()
    np.testing.assert_allclose(estimated.sum(axis=1), 1)


def test_an_action_seen_in_one_episode_only_keeps_a_probability():
    data = simulated(episodes=20)
    actions = np.minimum(data.actions, 1).astype(np.int32)
    actions[3] = 2
    rare = replace(without(data), actions=actions)
    assert sw.estimate_propensities(rare, "logistic").propensities[3] > 0


def test_an_action_that_was_never_taken_has_no_probability():
    data = replace(without(simulated(episodes=20)), action_count=ACTIONS + 1)
    estimated = sw.estimate_propensities(data, "logistic").distributions
    assert (estimated[:, ACTIONS] == 0).all()


# Calibration


def test_reliability_is_scikit_learns_and_brier_is_a_mean(data):
    told = measure_calibration(data.distributions, data.actions, None, data.episode_of_step, action_frequencies(data))
    happened = np.eye(ACTIONS)[data.actions]
    observed, predicted = calibration_curve(
        happened.ravel(), data.distributions.ravel(), n_bins=10, strategy="quantile"
    )
    np.testing.assert_allclose([one.observed for one in told.reliability], observed, atol=1e-3)
    np.testing.assert_allclose([one.predicted for one in told.reliability], predicted, atol=1e-3)
    sums = [
        sum((p[a] - (a == taken)) ** 2 for a in range(ACTIONS))
        for p, taken in zip(data.distributions, data.actions, strict=True)
    ]
    assert told.brier == pytest.approx(np.mean(sums))
    assert sum(one.predictions for one in told.reliability) == ACTIONS * len(data)


def test_true_probabilities_are_as_far_off_as_chance_says():
    errors, chances, spreads, good = [], [], [], []
    for seed in range(40):
        data = simulated(episodes=60, seed=seed)
        told = measure_calibration(
            data.distributions, data.actions, None, data.episode_of_step, action_frequencies(data)
        )
        errors.append(told.error)
        chances.append(told.chance)
        spreads.append(told.standard_error)
        good.append(told.good)
    assert np.mean(good) > 0.9  # they exceed two standard errors in a fortieth of all logs
    assert np.mean(errors) == pytest.approx(np.mean(chances), rel=0.15)
    assert np.std(errors) == pytest.approx(np.mean(spreads), rel=0.4)


def test_wrong_probabilities_are_told(data):
    wrong = Calibrator(temperature=0.4, share=0.0)(data.distributions, action_frequencies(data))
    told = measure_calibration(wrong, data.actions, None, data.episode_of_step, action_frequencies(data))
    assert not told.good
    assert told.summary.endswith(
        "They do not agree with the actions taken: try another model, or log the probabilities."
    )


def test_the_summary_has_the_numbers_and_the_assumption(logistic):
    told, summary = logistic.estimated.calibration, logistic.estimated.summary
    assert summary == (
        f"The estimated probabilities are off by {told.error:.3f} ± {told.standard_error:.3f} on average (perfect ones "
        f"would appear off by {told.chance:.3f}, by chance); their Brier score is {told.brier:.3f}, compared with "
        f"{told.brier_of_frequencies:.3f} for the action frequencies alone. They agree with the actions taken. "
        "This assumes that decisions were based on nothing but the logged observations."
    )


# Refits


def test_refits_differ_as_estimates_from_other_logs_do(data, logistic):
    """The deviation between refits is that between logs of the same size."""
    point = without(data.take(np.arange(20)))
    refits = np.array([one.distributions for one in logistic.refits])
    of_refits = refits.std(axis=0, ddof=1).mean()
    others = []
    for seed in range(8):
        other = simulated(seed=100 + seed)
        model = LogisticRegression(max_iter=1000).fit(other.observations, other.actions)
        others.append(model.predict_proba(point.observations))
    assert of_refits == pytest.approx(np.std(others, axis=0, ddof=1).mean(), rel=0.35)


# The border


def test_a_missing_propensity_is_an_error_that_names_the_parameter(data):
    frame = to_frame(without(data))
    with pytest.raises(sw.LogError, match="If probabilities were not logged, estimate them: `propensity='estimate'`"):
        sw.load(frame)
    with pytest.raises(ValueError, match="estimate them with `estimate_propensities`"):
        sw.fit_ratio(lambda seen: np.full((len(seen), ACTIONS), 1 / ACTIONS), without(data))


def test_logged_probabilities_are_ignored_only_with_a_warning(data):
    with pytest.warns(
        sw.LogWarning, match="propensity: logged probabilities are ignored, since estimates were asked for"
    ):
        assert sw.load(to_frame(data), propensity="estimate").propensities is None


def test_few_groups_and_odd_models_are_refused(data):
    with pytest.raises(ValueError, match="needs at least 2 episodes and 2 folds, got 1 and 5"):
        sw.estimate_propensities(without(data).take(np.array([0])))
    with pytest.raises(
        ValueError, match="expected 'boosting', 'logistic' or a scikit-learn classifier as the model, got 'forest'"
    ):
        sw.estimate_propensities(without(data), "forest")
