"""Critics: of what changes slowly, fitted to other episodes than they judge, and what they say of a state ratio."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from logs import make, written_out
from statewise.data.dataset import Dataset
from statewise.domains.tabular import TabularMDP
from statewise.ope import linear_critic
from statewise.ope import prepared as prepared_module
from statewise.ope.evaluate import evaluate_all, prepare
from statewise.ope.linear_critic import PRIOR, cross_fitted, judged, moved_by, state_values
from statewise.ope.prepared import Case
from statewise.parts.ratio_closed_form import ClosedForm

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
    """Its penalty is its own: the ratio's, which is larger, leaves more than twice the error."""
    truth = logged_value(walk(), right(0.56))
    assert truth > 1.3 * logged_value(walk(), right(0.5))
    errors = {name: [] for name in NAMES}
    for log in logs:
        for name, one in evaluate_all(to_the_right, log, NAMES, draws=2).items():
            errors[name].append(one.value / truth - 1)
    root = {name: np.sqrt(np.mean(np.square(values))) for name, values in errors.items()}
    assert root["doubly-robust-state-ratio"] < 0.015
    assert 2 * root["doubly-robust-state-ratio"] < root["state-ratio"] < 0.05


def test_what_the_critic_finds_missing_against_a_plain_loop(monkeypatch, logs, by_features):
    """Of a ratio that is held near 1, and so does not follow the policy at all."""
    monkeypatch.setattr(prepared_module, "RATIO", ClosedForm(regularisation=(1000.0,)))
    log = prepare(logs[0].dataset, discount=DISCOUNT)
    data = log.dataset
    case = Case(log, to_the_right(data.observations))

    def missing(rewards):
        """Beyond its own noise."""
        values = state_values(case, rewards)
        left, begun = np.zeros(EPISODES), 0.0
        for e in range(data.episodes):
            for t, i in enumerate(range(data.starts[e], data.starts[e + 1])):
                last = i + 1 == data.starts[e + 1]
                rho = (0.56 if data.actions[i] else 0.44) / 0.5
                weight = DISCOUNT**t * case.solved.ratio[i]
                left[e] += weight * rho * ((0.0 if last else DISCOUNT * values[i + 1]) - values[i])
                begun += weight * rho * (1.0 if last else 1 - DISCOUNT)
        each = values[data.starts[:-1]] + EPISODES * left / begun
        return np.copysign(np.sqrt(each.mean() ** 2 - each.var(ddof=1) / EPISODES), each.mean())

    ratio, robust = evaluate_all(to_the_right, log, NAMES, draws=2).values()
    # an error of less than 5 % of the value is a trifle
    expected = missing(data.rewards) / max(ratio.standard_error, 0.05 * ratio.value)
    assert expected > 1  # much is
    assert ratio.diagnostics.missed == pytest.approx(expected, rel=1e-3)
    # the doubly robust one never sees what all rewards of equally long episodes have in common
    powers = DISCOUNT**data.time
    mean = powers @ data.rewards / powers.sum()
    above = robust.value - mean * sum(DISCOUNT**t for t in range(HORIZON))
    error = robust.influence.std(ddof=1) / np.sqrt(EPISODES)
    leaning = missing(data.rewards - mean) / max(error, 0.05 * abs(above))
    assert robust.diagnostics.leaning == pytest.approx(leaning, rel=1e-3)
    # half of what it has put right may still be missing, and a quarter of it too much
    assert robust.standard_error == pytest.approx(error * np.hypot(1, 0.5 * leaning), rel=1e-3)
    narrow, wide = sorted([robust.value - robust.low, robust.high - robust.value])
    assert wide / narrow == pytest.approx(np.hypot(1, 0.5 * leaning) / np.hypot(1, 0.25 * leaning), rel=0.2)
    assert robust.high - robust.value == (wide if leaning > 0 else narrow)


def test_ratios_that_are_all_too_large_change_nothing(logs, by_features):
    """Their mean is 1 up to noise, and 2 % of noise must not become 2 %/(1 − γ): as much as all there is."""
    data = logs[0].dataset
    off = replace(data, propensities=data.propensities / 1.02, distributions=None)
    right, wrong = (evaluate_all(to_the_right, prepare(log, discount=DISCOUNT), NAMES, draws=2) for log in (data, off))
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
    before, after = (judged(case, rewards, cross_fitted(case, rewards).fits) for rewards in (data.rewards, other))
    for one, another in zip(before, after, strict=True):
        same = one == another
        assert same[inside].all()
        assert not same[~inside & (one > 0)].any()  # no reward is below 0, and there what a critic says is cut off
        assert np.mean(one > 0) > 0.9


# The regressions, and how an episode moves them


def small_case(discount, episodes=36):
    """Episodes of 2 to 5 steps that all end, in one of four states at random, three actions, another policy."""
    rng = np.random.default_rng(4)
    data = make([2 + e % 4 for e in range(episodes)])
    state = rng.integers(4, size=len(data))
    data = replace(
        data,
        observations=rng.normal(size=(4, 2))[state],
        rewards=rng.normal(0.3 * state, 1.0),
        terminated=np.ones(episodes, bool),
        propensities=rng.uniform(0.2, 0.9, len(data)),
        distributions=None,
    )
    return Case(prepare(data, discount=discount), rng.dirichlet(np.ones(3), size=len(data)))


def fitted(case, rewards, count, held_out):
    """q and θ of the critic of one fold, from plain sums over the rows of the others; episodes come `count` times."""
    log, data = case.prepared, case.prepared.dataset
    equations = log.horizon_equations
    phi = equations.in_log_order(written_out(equations))
    omega = equations.weights / equations.total * count[data.episode_of_step]
    rank, rows = (
        phi.shape[1],
        [i for i in range(len(data)) if equations.fold_of_episode[data.episode_of_step[i]] != held_out],
    )
    ends = set(data.starts[1:] - 1)
    ahead = np.array([np.zeros(rank) if i in ends else log.discount * phi[i + 1] for i in range(len(data))])
    matrix, earned = np.zeros((rank, rank)), np.zeros(rank)
    for i in rows:
        matrix += omega[i] * case.ratio[i] * np.outer(phi[i], phi[i] - ahead[i])
        earned += omega[i] * case.ratio[i] * rewards[i] * phi[i]
    q = np.linalg.solve(matrix.T @ matrix + (2 / 3) ** 2 * linear_critic.SLOW * np.eye(rank), matrix.T @ earned)
    theta = []
    for a in range(data.action_count):
        taken = [i for i in rows if data.actions[i] == a]
        gram = phi[taken].T @ (omega[taken, None] * phi[taken]) + PRIOR * rank / len(data) * np.eye(rank)
        beyond = rewards[taken] + (ahead[taken] - phi[taken]) @ q
        theta.append(q + np.linalg.solve(gram, phi[taken].T @ (omega[taken] * beyond)))
    return q, np.stack(theta, axis=1), phi


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_each_folds_critic_is_the_least_squares_fit_to_the_others(discount):
    case = small_case(discount)
    data, rewards = case.prepared.dataset, case.prepared.dataset.rewards
    critic, fold = cross_fitted(case, rewards), case.prepared.horizon_equations.fold_of_episode
    found, values_found = judged(case, rewards, critic.fits)
    steps = sum(discount**t for t in range(5))
    low, high = steps * rewards.min(), steps * rewards.max()
    for held_out in range(3):
        q, theta, phi = fitted(case, rewards, np.ones(data.episodes), held_out)
        rows = np.flatnonzero(fold[data.episode_of_step] == held_out)
        everything = np.clip(phi[rows] @ theta, low, high)
        scale = np.abs(everything).max()
        np.testing.assert_allclose(critic.fits[held_out].weights, theta, atol=1e-4 * np.abs(theta).max())
        np.testing.assert_allclose(critic.fits[held_out].differences.value, q, atol=1e-4 * np.abs(q).max())
        chosen = everything[np.arange(len(rows)), data.actions[rows]]
        np.testing.assert_allclose(found[rows], chosen, atol=1e-4 * scale)
        values = (everything * case.probabilities[rows]).sum(axis=1)
        np.testing.assert_allclose(values_found[rows], values, atol=1e-4 * scale)


@pytest.mark.parametrize(("discount", "slow"), [(1.0, linear_critic.SLOW), (0.9, linear_critic.SLOW), (0.9, 0.03)])
def test_what_an_episode_moves_through_the_critics_is_the_derivative_by_its_weight(monkeypatch, discount, slow):
    """V with an episode's rows counted 1 ± ε times in every critic's regressions, by plain sums.

    With a large penalty temporal differences are not met exactly, and what is left of them has a part in it too.
    """
    monkeypatch.setattr(linear_critic, "SLOW", slow)
    case = small_case(discount)
    log, data, rewards = case.prepared, case.prepared.dataset, case.prepared.dataset.rewards
    fold, episode = log.horizon_equations.fold_of_episode, data.episode_of_step
    carried = np.random.default_rng(1).gamma(1.0, 0.1, size=len(data))  # whatever an estimator multiplies rows by
    ends = set(data.starts[1:] - 1)

    def part(count, held_out):
        """What the fold's own rows add to V."""
        _, theta, phi = fitted(case, rewards, count, held_out)
        everything = phi @ theta
        values = (everything * case.probabilities).sum(axis=1)
        total = sum(values[data.starts[e]] for e in np.flatnonzero(fold == held_out)) / data.episodes
        for i in np.flatnonzero(fold[episode] == held_out):
            following = 0.0 if i in ends else discount * values[i + 1]
            total += carried[i] * (rewards[i] + following - everything[i, data.actions[i]])
        return total

    expected, step = np.zeros(data.episodes), 1e-4
    for held_out in range(3):
        seen = np.flatnonzero(fold != held_out)
        moved = []
        for e in seen:
            up, down = np.ones(data.episodes), np.ones(data.episodes)
            up[e] += step
            down[e] -= step
            moved.append((part(up, held_out) - part(down, held_out)) / (2 * step))
        expected[seen] += np.array(moved) - np.mean(moved)
    expected *= data.episodes
    given = moved_by(case, rewards, cross_fitted(case, rewards), carried)
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(given, expected, atol=1e-4 * np.abs(expected).max())
    assert given.mean() == pytest.approx(0, abs=1e-9)


def test_doubly_robust_estimates_count_what_episodes_do_to_the_critics():
    """Their influence is that of the corrections, plus `moved_by` with what each of them multiplies rows by."""
    case = small_case(0.9)
    log, data, rewards = case.prepared, case.prepared.dataset, case.prepared.dataset.rewards
    critic = cross_fitted(case, rewards)
    chosen, values = judged(case, rewards, critic.fits)
    left = rewards + log.onward * np.append(values[1:], 0.0) - chosen
    cumulative, weights = np.ones(len(data)), np.zeros(len(data))
    for a, b in pairwise(data.starts):
        cumulative[a:b] = np.cumprod(case.ratio[a:b])
        weights[a:b] = 0.9 ** np.arange(b - a) * cumulative[a:b] / data.episodes
    plain = [values[a] + data.episodes * weights[a:b] @ left[a:b] for a, b in pairwise(data.starts)]
    expected = np.array(plain) + moved_by(case, rewards, critic, weights)
    found = evaluate_all(lambda o: case.probabilities, log, ("doubly-robust",), draws=2)["doubly-robust"]
    np.testing.assert_allclose(found.influence, expected - expected.mean(), atol=1e-9 * np.abs(expected).max())
