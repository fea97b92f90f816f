"""Critics: of what changes slowly, fitted to other episodes than they judge, and what they say of a state ratio."""

from dataclasses import replace

import numpy as np
import pytest

from statewise.data.dataset import Dataset
from statewise.domains.tabular import TabularMDP
from statewise.ope.evaluate import evaluate_all, prepare
from statewise.ope.linear_critic import action_values, state_values, widened
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient, standard_error

STATES, DISCOUNT, HORIZON, EPISODES = 12, 0.98, 150, 100
SEEDS = (500, 501, 502, 503)
NAMES = ("state-ratio", "doubly-robust-state-ratio")


def walk():
    """From the left end, a step right or left; the reward grows with the square of the distance."""
    transitions = np.zeros((STATES, 2, STATES))
    for s in range(STATES):
        transitions[s, 0, max(s - 1, 0)] = 1
        transitions[s, 1, min(s + 1, STATES - 1)] = 1
    rewards = np.repeat((np.arange(STATES) / STATES)[:, None] ** 2, 2, axis=1)
    return TabularMDP(transitions, rewards, np.eye(STATES)[0])


def right(chance):
    return np.tile([1 - chance, chance], (STATES, 1))


def logged_value(mdp, policy):
    states, total = mdp.initial, 0.0
    for t in range(HORIZON):
        total += DISCOUNT**t * states @ (policy * mdp.rewards).sum(axis=1)
        states = states @ mdp.chain(policy)
    return total


def collected(mdp, policy, seed):
    """Its observation is where the walk stands, as one number."""
    rows = mdp.sample(policy, EPISODES, HORIZON, seed)
    shape = (EPISODES, HORIZON)
    place = np.append(rows["state"].reshape(shape), rows["next_state"].reshape(shape)[:, -1:], axis=1)
    return Dataset.from_episodes(
        observations=list(place[..., None] / STATES),
        actions=list(rows["action"].reshape(shape)),
        rewards=list(rows["reward"].reshape(shape)),
        distributions=list(rows["probabilities"].reshape(*shape, 2)),
        terminated=[False] * EPISODES,
    )


def to_the_right(observations):
    return np.tile([0.44, 0.56], (len(observations), 1))


@pytest.fixture(scope="module")
def logs():
    return [prepare(collected(walk(), right(0.5), seed), discount=DISCOUNT) for seed in SEEDS]


def test_the_critic_follows_what_changes_slowly(logs):
    """Its penalty is its own: the ratio's, which is larger, leaves twice the error."""
    truth = logged_value(walk(), right(0.56))
    assert truth > 1.3 * logged_value(walk(), right(0.5))
    errors = {name: [] for name in NAMES}
    for log in logs:
        for name, one in evaluate_all(to_the_right, log, NAMES, draws=2).items():
            errors[name].append(one.value / truth - 1)
    root = {name: np.sqrt(np.mean(np.square(values))) for name, values in errors.items()}
    assert root["doubly-robust-state-ratio"] < 0.03 < root["state-ratio"]


def test_what_the_critic_finds_missing_against_a_plain_loop(logs):
    log = logs[0]
    data, rewards = log.dataset, log.dataset.rewards
    case = Case(log, to_the_right(data.observations))
    found = evaluate_all(to_the_right, log, NAMES, draws=2)
    values, _ = state_values(case, rewards)
    left, begun = 0.0, 0.0
    for e in range(data.episodes):
        for t, i in enumerate(range(data.starts[e], data.starts[e + 1])):
            last = i + 1 == data.starts[e + 1]
            rho = (0.56 if data.actions[i] else 0.44) / 0.5
            weight = DISCOUNT**t * case.solved.ratio[i]
            left += weight * rho * ((0.0 if last else DISCOUNT * values[i + 1]) - values[i])
            begun += weight * rho * (1.0 if last else 1 - DISCOUNT)
    missing = abs(np.mean([values[i] for i in data.starts[:-1]]) + left / begun)
    ratio, robust = (found[name] for name in NAMES)
    assert missing > 0.05  # something is
    # an error of less than 5 % of the value is a trifle
    assert ratio.diagnostics.missed == pytest.approx(missing / max(ratio.standard_error, 0.05 * ratio.value), rel=1e-3)
    expected = missing / max(robust.standard_error, 0.05 * robust.value)
    assert robust.diagnostics.leaning == pytest.approx(expected, rel=1e-3)


def test_ratios_that_are_all_too_large_change_nothing(logs):
    """Their mean is 1 up to noise, and 2 % of noise must not become 2 %/(1 − γ): as much as all there is."""
    data = logs[0].dataset
    off = prepare(replace(data, propensities=data.propensities / 1.02, distributions=None), discount=DISCOUNT)
    right, wrong = (evaluate_all(to_the_right, log, NAMES, draws=2) for log in (logs[0], off))
    for name in NAMES:
        assert wrong[name].value == pytest.approx(right[name].value, rel=5e-3), name
    assert wrong["state-ratio"].diagnostics.missed == pytest.approx(right["state-ratio"].diagnostics.missed, abs=0.05)


def test_no_episode_is_judged_by_a_critic_that_has_seen_it(logs):
    log = logs[0]
    data, equations = log.dataset, log.horizon_equations
    case, fold = Case(log, to_the_right(log.dataset.observations)), equations.fold_of_episode
    assert sorted(np.bincount(fold)) == [33, 33, 34]
    inside = fold[data.episode_of_step] == 1
    mixed = np.random.default_rng(0).permutation(np.flatnonzero(inside))
    other = data.rewards.copy()
    other[inside] = data.rewards[mixed]  # of the same range, which bounds what a critic may say
    for i, ((_, before), (_, after)) in enumerate(
        zip(action_values(case, data.rewards), action_values(case, other), strict=True)
    ):
        np.testing.assert_array_equal(before[inside], after[inside])
        # critics of both other folds, of the next one alone and of the one after alone
        seen = {0: (0, 2), 1: (0,), 2: (2,)}[i]
        for f in (0, 2):
            rows = fold[data.episode_of_step] == f
            assert np.array_equal(before[rows], after[rows]) == (f not in seen)


def test_the_critics_noise_widens_the_interval_by_what_half_critics_differ(logs):
    case = Case(logs[0], to_the_right(logs[0].dataset.observations))
    fold, generator = logs[0].horizon_equations.fold_of_episode, np.random.default_rng(0)
    plain = Quotient(generator.normal(5.0, 1.0, EPISODES), *[np.ones(EPISODES)] * 3)
    assert widened(case, plain, plain, plain).influence() == pytest.approx(plain.influence())
    shift = np.array([0.6, -0.8, 0.0])
    moved = replace(plain, numerator=plain.numerator + shift[fold])
    found = widened(case, plain, moved, plain)
    groups = np.arange(EPISODES)
    between = np.sum((np.bincount(fold) / EPISODES * shift) ** 2) / 4
    expected = np.sqrt(standard_error(plain.influence(), groups) ** 2 + between)
    assert standard_error(found.influence(), groups) == pytest.approx(expected)
    assert found.value == pytest.approx(plain.value)
