"""Logged propensities against the actions taken: wrong ones are found and named, right ones left alone."""

from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from logs import without
from statewise.propensities.estimate import estimate_propensities
from statewise.propensities.logged import ALARMS, logged_calibration


def drawn(behaviour, logged, rng, observations=None, whole=True) -> sw.Dataset:
    """Episodes of five decisions by `behaviour`, of which the log says `logged`."""
    rows, count = behaviour.shape
    observations = rng.normal(size=(rows, 2)) if observations is None else observations
    above = behaviour.cumsum(axis=1) / behaviour.sum(axis=1, keepdims=True) > rng.random((rows, 1))
    actions = above.argmax(axis=1)

    def episodes(column):
        return list(column.reshape(rows // 5, 5, *column.shape[1:]))

    return sw.Dataset.from_episodes(
        observations=episodes(observations),
        actions=episodes(actions),
        rewards=episodes(np.zeros(rows)),
        propensities=episodes(logged[np.arange(rows), actions]),
        distributions=episodes(logged) if whole else None,
        terminated=[True] * (rows // 5),
        action_count=count,
    )


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def right_log(seed, kind, whole):
    """A log of some shape, with the probabilities by which its actions were drawn."""
    rng = np.random.default_rng(seed)
    rows, count = int(rng.choice([5, 50, 400, 1500])), int(rng.choice([1, 2, 3, 12]))
    observations = rng.normal(size=(rows, 2))
    behaviour = softmax(observations @ rng.normal(size=(2, count)) * rng.choice([0, 0.5, 2]))
    if kind == "fixed by state":
        behaviour[observations[:, 0] > 0.4] = np.eye(count)[0]
    elif kind == "fixed at random":
        behaviour[rng.random(rows) < 1 / 3] = np.eye(count)[-1]
    elif kind == "never in some states" and count > 1:
        behaviour[observations[:, 0] > 0, -1] = 0
        behaviour /= behaviour.sum(axis=1, keepdims=True)
    elif kind == "rare":
        behaviour = 0.98 * np.eye(count)[0] + 0.02 / count * np.ones((rows, count))
    return drawn(behaviour, behaviour, rng, observations, whole)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("kind", ["soft", "fixed by state", "fixed at random", "never in some states", "rare"])
def test_right_logs_raise_no_alarm(kind, whole):
    """Of 10 × 40 logs, a thousandth would be a false alarm: none is, and none comes near."""
    worst = [logged_calibration(right_log(seed, kind, whole)).times_chance for seed in range(40)]
    assert np.isfinite(worst).all()
    assert max(worst) < 1
    assert max(worst) > 0.2  # and yet it is chance that is measured


def test_dependent_rows_are_no_alarm():
    """What was drawn decides the next state and its probabilities: the counts are a martingale all the same."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        chance, rows = 0.5, []
        for _ in range(1000):
            action = int(rng.random() < chance)
            rows.append((chance, action))
            chance = np.clip(chance + (0.1 if action else -0.1), 0.1, 0.9)
        column = np.array(rows)
        data = sw.Dataset.from_episodes(
            observations=[column[:, :1]],
            actions=[column[:, 1].astype(int)],
            rewards=[np.zeros(1000)],
            distributions=[np.stack([1 - column[:, 0], column[:, 0]], axis=1)],
            terminated=[False],
        )
        alarms += not logged_calibration(data).good
    assert alarms == 0


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("actions", [2, 4])
def test_a_coin_that_was_none(whole, actions):
    """Logged as equal chances, the last action was taken in 75 % of the rows."""
    rng = np.random.default_rng(0)
    behaviour = np.tile(np.r_[np.full(actions - 1, 0.25 / (actions - 1)), 0.75], (400, 1))
    result = logged_calibration(drawn(behaviour, np.full((400, actions), 1 / actions), rng, whole=whole))
    assert not result.good
    assert result.times_chance == pytest.approx(result.error / result.tolerance)
    assert result.action == str(actions - 1)
    assert result.expected == pytest.approx(1 / actions)
    assert result.observed == pytest.approx(0.75, abs=0.07)
    assert result.error == pytest.approx(result.observed - result.expected)
    if whole or actions == 2:
        assert result.standard_error == pytest.approx(np.sqrt((1 - 1 / actions) / actions / result.rows))


@pytest.mark.parametrize("whole", [True, False])
def test_the_states_are_named_in_which_it_is_wrong(whole):
    rng = np.random.default_rng(1)
    observations = rng.normal(size=(4000, 2))
    behaviour = np.full((4000, 3), 1 / 3)
    behaviour[observations[:, 1] > 0.8] = [0.1, 0.1, 0.8]
    behaviour[observations[:, 1] < -0.8] = [0.5, 0.5, 0.0]  # so that it is right in the mean
    result = logged_calibration(drawn(behaviour, np.full((4000, 3), 1 / 3), rng, observations, whole))
    assert not result.good
    assert result.action == "2"
    assert "x1 > " in result.where
    share = f"{100 * result.observed:.3g} %"
    assert result.problem.startswith(f"action 2 was taken in {share} of {result.rows:,} rows where {result.where}, but")
    assert "but the logged probabilities say 33.3 % ±" in result.problem
    assert result.problem in result.summary


def test_a_rare_action_that_is_not_so_rare():
    """Logged .01, taken in 5 % of the rows: little in the mean, five times the weight."""
    rng = np.random.default_rng(2)
    behaviour, logged = np.tile([0.05, 0.95], (2000, 1)), np.tile([0.01, 0.99], (2000, 1))
    assert not logged_calibration(drawn(behaviour, logged, rng)).good


def test_rounding_is_no_fault():
    rng = np.random.default_rng(3)
    behaviour = np.full((200_000, 3), 1 / 3)
    assert logged_calibration(drawn(behaviour, np.full((200_000, 3), 0.3333), rng, np.zeros((200_000, 1)))).good


def test_the_bound_is_bernsteins():
    """One group and two actions: four one-sided tests."""
    rng = np.random.default_rng(4)
    data = drawn(np.full((40, 2), 0.5), np.full((40, 2), 0.5), rng, np.zeros((40, 1)))
    level = np.log(2 * 4 / ALARMS)  # the group and the whole log, two actions, two sides
    bound = level / 3 + np.sqrt((level / 3) ** 2 + 2 * 40 * 0.25 * level)
    assert logged_calibration(data).tolerance == pytest.approx(bound / 40)


def test_what_is_not_asked():
    data = drawn(np.full((100, 2), 0.5), np.full((100, 2), 0.5), np.random.default_rng(5))
    assert logged_calibration(without(data)) is None
    assert logged_calibration(estimate_propensities(data, "logistic")) is None
    single = data.take(np.array([0]))
    assert logged_calibration(replace(single)).good
    assert logged_calibration(drawn(np.ones((5, 1)), np.ones((5, 1)), np.random.default_rng(6))).error == 0


def test_many_actions_and_rows_are_quick():
    rng = np.random.default_rng(7)
    behaviour = np.full((500, 2000), 1 / 2000)
    for whole in (True, False):
        assert logged_calibration(drawn(behaviour, behaviour, rng, whole=whole)).good
