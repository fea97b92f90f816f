"""Importance sampling against plain loops, the traps that other software fell into, and what is told of an estimate."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import statewise as sw
from logs import make, stands_for, written_out
from statewise.data.device import device_log
from statewise.ope.estimators import ESTIMATORS
from statewise.ope.evaluate import evaluate_all, prepare
from statewise.ope.intervals import bernstein, bootstrap
from statewise.ope.linear_critic import cross_fitted, judged
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient, standard_error
from statewise.ope.solution import solve
from statewise.ops.contrasts import contrasts_of

DISCOUNT = 0.9


def ragged(episodes=60):
    """Episodes of 1 to 7 steps, terminated and truncated, and a policy that never takes some actions."""
    data = make([1 + e % 7 for e in range(episodes)])
    rng = np.random.default_rng(3)
    propensities = rng.uniform(0.2, 0.9, len(data))
    data = replace(
        data,
        observations=rng.normal(size=data.observations.shape),
        rewards=rng.normal(1.0, 1.0, len(data)),
        propensities=propensities,
        distributions=None,
    )
    chances = rng.dirichlet(np.ones(data.action_count), size=len(data))
    chances[::9] = np.eye(data.action_count)[0]
    return data, chances


def loops(data, chances, discount, chosen=None, values=None):
    """All importance-sampling estimates from their definitions, one number at a time."""
    standing, horizon = stands_for(data)
    n = data.episodes
    whole, returns, single, robust = [], [], [], []
    above, below, error = np.zeros(horizon), np.zeros(horizon), np.zeros(horizon)
    for e in range(n):
        weight, total, decided, corrected = 1.0, 0.0, 0.0, 0.0
        rows = range(data.starts[e], data.starts[e + 1])
        for t, i in enumerate(rows):
            weight *= chances[i, data.actions[i]] / data.propensities[i]
            total += discount**t * standing[i] * data.rewards[i]
            decided += discount**t * standing[i] * weight * data.rewards[i]
            if t >= horizon:
                continue
            above[t] += standing[i] * weight * data.rewards[i]
            below[t] += standing[i] * weight
            if chosen is not None:
                following = values[i + 1] if i + 1 < data.starts[e + 1] and t + 1 < horizon else 0.0
                left = data.rewards[i] + discount * following - chosen[i]
                corrected += discount**t * standing[i] * weight * left
                error[t] += standing[i] * weight * left
        below[len(rows) :] += standing[rows[-1]] * weight
        if chosen is not None:
            robust.append(values[data.starts[e]] + corrected)
        whole.append(weight)
        returns.append(total)
        single.append(decided)
    powers = discount ** np.arange(horizon)
    found = {
        "importance": np.mean(np.multiply(whole, returns)),
        "weighted-importance": np.dot(whole, returns) / np.sum(whole),
        "per-decision": np.mean(single),
        "weighted-per-decision": np.sum(powers * above / below),
    }
    if chosen is not None:
        first = np.mean([values[start] for start in data.starts[:-1]])
        found |= {"doubly-robust": np.mean(robust), "weighted-doubly-robust": first + np.sum(powers * error / below)}
    return found


def test_importance_sampling_against_plain_loops():
    data, chances = ragged()
    case = Case(prepare(data, discount=DISCOUNT), chances)
    critic = cross_fitted(case, data.rewards)
    expected = loops(data, chances, DISCOUNT, *judged(case, data.rewards, critic.fits))
    found = evaluate_all(lambda observations: chances, data, tuple(expected), discount=DISCOUNT)
    assert len(expected) == 6
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, rel=1e-9), name


@pytest.mark.parametrize("name", ["weighted-importance", "weighted-per-decision", "state-ratio", "per-decision"])
def test_influence_is_what_leaving_an_episode_out_shows(name):
    """The jackknife: n·(θ̂ − θ̂ without e) is the influence of e, up to something in 1/n."""
    data, chances = ragged(480)
    data = replace(data, terminated=np.ones(480, bool))  # so that no row's weight depends on other episodes
    prepared = prepare(data, discount=DISCOUNT)
    one = evaluate_all(lambda observations: chances, prepared, (name,), draws=2)[name]
    moved = []
    for e in range(0, 480, 24):
        weight = np.ones(480)
        weight[e] = 0.0
        moved.append(480 * (one.value - reweighted(name, prepared, chances, weight)))
    given = one.influence[::24]
    assert np.corrcoef(moved, given)[0, 1] > 0.98
    np.testing.assert_allclose(given, moved, atol=0.25 * np.std(given))
    assert one.influence.mean() == pytest.approx(0, abs=1e-9)


def reweighted(name, prepared, chances, weight):
    """The estimate with episodes counted `weight` times; the state ratio with λ and features kept."""
    data = prepared.dataset
    if name != "state-ratio":
        kept = np.flatnonzero(weight)
        rows = np.isin(data.episode_of_step, kept)
        return evaluate_all(lambda o: chances[rows], data.take(kept), (name,), discount=DISCOUNT, draws=2)[name].value
    case, equations = Case(prepared, chances), prepared.equations
    row = (equations.weights / equations.total)[equations.order] * weight[data.episode_of_step[equations.order]]
    here, rho = written_out(equations), case.ratio[equations.order]
    matrix = plain_matrix(prepared, chances, rho, weight)
    beta = np.linalg.solve(matrix.T @ matrix + case.solved.regularisation * np.eye(here.shape[1]), row @ here)
    carried = row * np.maximum(here @ beta, 0) * rho
    return (carried @ data.rewards[equations.order]) / (carried @ (1 - equations.onward_in_log[equations.order]))


def test_what_an_episode_moves_through_the_ratio_is_the_derivative_by_its_weight():
    """The state-ratio estimate with an episode counted 1 ± ε times, by plain sums."""
    data, chances = ragged()
    prepared = prepare(replace(data, terminated=np.ones(60, bool)), discount=DISCOUNT)
    one = evaluate_all(lambda observations: chances, prepared, ("state-ratio",), draws=2)["state-ratio"]
    moved, step = [], 1e-4
    for e in range(60):
        change = step * np.eye(60)[e]
        up, down = (reweighted("state-ratio", prepared, chances, 1 + sign * change) for sign in (1, -1))
        moved.append(60 * (up - down) / (2 * step))
    expected = np.array(moved) - np.mean(moved)
    np.testing.assert_allclose(one.influence, expected, atol=1e-4 * np.abs(expected).max())


def plain_matrix(prepared, chances, rho, weight):
    """M from tests φ(s)c(a), c the constant 1 and every contrast, under π in the state and in the next one."""
    data, equations = prepared.dataset, prepared.equations
    codes = np.column_stack([np.ones(data.action_count), contrasts_of(data.action_count)])
    phi = equations.in_log_order(written_out(equations))
    tests = np.einsum("na,ak,nr->nkr", chances, codes, phi).reshape(len(data), -1)
    fresh = np.average(tests[data.starts[:-1]], axis=0, weights=weight)
    onward = prepared.onward[:, None]
    arrived = onward * np.append(tests[1:], tests[:1], axis=0) + (1 - onward) * fresh
    share = equations.weights / equations.total * weight[data.episode_of_step]
    moved = equations.in_log_order(rho)[:, None] * (arrived - tests)
    return (share[:, None] * moved).T @ phi


def test_the_equations_hold_for_states_and_actions():
    data, chances = ragged()
    case = Case(prepare(data, discount=DISCOUNT), chances)
    plain = plain_matrix(case.prepared, chances, case.ratio[case.prepared.equations.order], np.ones(data.episodes))
    assert len(plain) == data.action_count * plain.shape[1]
    np.testing.assert_allclose(case.solved.imbalance, plain, atol=1e-5)


def test_what_noise_leaves_of_the_equations_against_a_plain_loop():
    """Of ε, a fold's noise with covariance N, an exact w leaves tr N, give or take √tr N²."""
    data, chances = ragged()
    case = Case(prepare(data, discount=DISCOUNT), chances)
    equations, solved, onward = case.prepared.equations, case.solved, case.prepared.onward
    phi, (standing, _) = equations.in_log_order(written_out(equations)), stands_for(data)
    fresh = phi[data.starts[:-1]].mean(axis=0)
    expected = []
    for fold in range(3):
        episodes = np.flatnonzero(equations.fold_of_episode == fold)
        whole = sum(
            DISCOUNT ** data.time[i] * standing[i] for i in range(len(data)) if data.episode_of_step[i] in episodes
        )
        sums = np.zeros((len(episodes), phi.shape[1]))
        for k, e in enumerate(episodes):
            for t, i in enumerate(range(data.starts[e], data.starts[e + 1])):
                arrived = (1 - onward[i]) * fresh + (onward[i] * phi[i + 1] if onward[i] else 0)
                sums[k] += DISCOUNT**t * standing[i] / whole * solved.signed[i] * case.ratio[i] * (arrived - phi[i])
        noise = len(episodes) * np.cov(sums.T, ddof=0)
        expected.append(np.trace(noise) + 1.28 * np.sqrt(np.trace(noise @ noise)))
    assert solved.noise == pytest.approx(np.mean(expected), rel=1e-4)


def test_what_noise_leaves_is_what_exact_ratios_leave():
    """(ε_g − ε_f)·(ε_h − ε_f), averaged over the folds, for noise of any shape."""
    generator = np.random.default_rng(0)
    sizes = np.array([3.0, 2.0, 1.0, 1.0, 0.5])  # the roots of N's eigenvalues
    f, g, h = sizes * generator.normal(size=(3, 40_000, 5))
    left = [np.sum((b - a) * (c - a), axis=1) for a, b, c in ((f, g, h), (g, h, f), (h, f, g))]
    assert np.mean(left) == pytest.approx(np.sum(sizes**2), rel=0.02)
    assert np.var(np.mean(left, axis=0)) == pytest.approx(np.sum(sizes**4), rel=0.05)


def test_contrasts_are_orthogonal_and_no_more_than_a_few():
    for actions in (1, 2, 4, 9):
        contrasts = contrasts_of(actions)
        assert contrasts.shape == (actions, min(actions - 1, 3))
        np.testing.assert_allclose(contrasts.T @ contrasts / actions, np.eye(contrasts.shape[1]), atol=1e-12)
        np.testing.assert_allclose(contrasts.sum(axis=0), 0, atol=1e-12)


# The traps


def test_the_terminal_steps_reward_is_not_dropped():
    data = sw.Dataset.from_episodes(
        observations=[[[0.0], [1.0]]] * 40,
        actions=[[0, 1], [1, 0]] * 20,
        rewards=[[0.0, 1.0]] * 40,
        propensities=[[0.5, 0.5]] * 40,
        terminated=[True] * 40,
    )
    names = [name for name in ESTIMATORS if name not in ("state-ratio-network", "fitted-q")]  # seconds each
    found = evaluate_all(lambda observations: np.full((len(observations), 2), 0.5), data, names)
    for name, one in found.items():
        assert one.value == pytest.approx(1.0, abs=0.05 if "fitted" in name else 1e-4), name


def test_the_numerator_uses_the_logged_action():
    """A policy that never does what was logged is worth nothing by importance sampling, however it would be drawn."""
    data = make([3] * 40)
    # nearly certain: a value beyond what can be earned would not be printed
    likely = np.random.default_rng(0).uniform(0.8, 1.0, len(data))
    data = replace(data, actions=np.zeros_like(data.actions), propensities=likely, distributions=None)
    never = np.zeros((len(data), data.action_count))
    never[:, 1] = 1.0
    found = evaluate_all(lambda observations: never, data, ("importance", "per-decision"))
    for one in found.values():
        assert one.value == 0
        assert one.verdict == "not identified"
        assert "0" not in str(one).split("identified:")[0]
    always = evaluate_all(lambda observations: np.eye(data.action_count)[data.actions], data, ("importance",))
    again = evaluate_all(lambda observations: np.eye(data.action_count)[data.actions], data, ("importance",), seed=7)
    assert always["importance"].value == again["importance"].value
    expected = np.mean(
        [np.prod(1 / data.propensities[a:b]) * data.rewards[a:b].sum() for a, b in pairwise(data.starts)]
    )
    assert always["importance"].value == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "behaviour"])
def test_a_missing_propensity_is_never_substituted(name):
    data = replace(make([3] * 10), propensities=None, distributions=None)
    chances = np.full((len(data), data.action_count), 1 / data.action_count)
    with pytest.raises(ValueError, match="estimate them with `estimate_propensities`"):
        sw.evaluate(lambda observations: chances, data, name)
    with pytest.raises(ValueError, match="no propensities"):
        device_log(data, 0.9)


# Intervals


def test_bootstrap_of_a_mean_is_close_to_students():
    rng = np.random.default_rng(0)
    values = rng.normal(3.0, 2.0, 400)
    one = Quotient(values, np.ones(400), weight=np.ones(400), base=np.ones(400))
    ((low, high),) = bootstrap([one], np.arange(400), 0.9, 4000, 0)
    expected = stats.t.interval(0.9, 399, loc=values.mean(), scale=stats.sem(values))
    np.testing.assert_allclose([low, high], expected, atol=0.1 * stats.sem(values))
    assert standard_error(one.influence(), np.arange(400)) == pytest.approx(stats.sem(values))
    wide = bernstein(one, np.arange(400), 0.9)
    assert wide[0] < low < high < wide[1]


def test_pooling_many_episodes_leaves_the_interval():
    rng = np.random.default_rng(1)
    values = rng.exponential(size=30_000)
    ones = np.ones(len(values))
    ((low, high),) = bootstrap([Quotient(values, ones, ones, ones)], np.arange(len(values)), 0.95, 2000, 0)
    half = 1.96 * stats.sem(values)
    assert high - low == pytest.approx(2 * half, rel=0.1)


def test_episodes_of_one_unit_are_drawn_together():
    """A log with every episode twice says no more than the log with each once."""
    data, chances = ragged()
    twice = replace(data.take(np.repeat(np.arange(60), 2)), units=np.repeat(np.arange(60), 2))
    rows = np.concatenate([np.tile(np.arange(a, b), 2) for a, b in pairwise(data.starts)])
    names = ("per-decision", "weighted-importance", "behaviour")
    once = evaluate_all(lambda o: chances, data, names)
    double = evaluate_all(lambda o: chances[rows], twice, names)
    assert twice.groups.max() == 59
    for name in names:
        assert double[name].value == pytest.approx(once[name].value)
        assert double[name].standard_error == pytest.approx(once[name].standard_error)
        assert double[name].low == pytest.approx(once[name].low)


def test_checkpoints_share_what_the_policy_does_not_change():
    data, chances = ragged()
    prepared = prepare(data, discount=DISCOUNT)
    alone = sw.evaluate(lambda o: chances, data, discount=DISCOUNT)
    assert sw.evaluate(lambda o: chances, prepared).value == alone.value
    assert prepared.equations is prepared.equations
    solved = solve(prepared.equations, Case(prepared, chances).ratio, chances)
    assert solved.beta @ prepared.equations.mean.sum(0) == pytest.approx(1)


# What is printed


def test_a_value_that_is_not_identified_is_not_printed():
    data, chances = ragged()
    one = sw.evaluate(lambda o: chances, data, discount=DISCOUNT)
    hidden = replace(one, verdict="not identified", reason="the log lacks what the policy does")
    printed = "doubly-robust-state-ratio: not identified: the log lacks what the policy does"
    assert str(hidden) == repr(hidden) == printed
    assert hidden.as_dict()["value"] is hidden.as_dict()["low"] is None
    assert f"{one.value:.4g}" in str(replace(one, verdict="weak"))
    assert {field.name for field in fields(one)} >= {"value", "low", "high", "influence", "diagnostics"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"estimator": "xyz"}, "no estimator 'xyz'; choose from doubly-robust-state-ratio"),
        ({"level": 95.0}, "level: expected a number between 0 and 1, got 95.0"),
        ({"discount": 1.5}, "discount: expected a number above 0 and at most 1, got 1.5"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    data, chances = ragged()
    with pytest.raises(ValueError, match=words):
        sw.evaluate(lambda o: chances, data, **arguments)


def test_probabilities_that_do_not_sum_to_one_are_refused():
    data, chances = ragged()
    with pytest.raises(ValueError, match="do not sum to 1 in"):
        sw.evaluate(lambda o: chances * 0.9, data)
