"""Importance sampling against plain loops, the traps that other software fell into, and what is told of an estimate."""

from dataclasses import fields, replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import statewise as sw
from logs import make
from statewise.data.device import device_log
from statewise.ope.estimators import ESTIMATORS
from statewise.ope.evaluate import evaluate_all, prepare
from statewise.ope.intervals import bernstein, bootstrap
from statewise.ope.linear_critic import action_values
from statewise.ope.measures import MEASURES, Evidence, measured
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient, standard_error
from statewise.ope.solution import contrasts_of, solve
from statewise.ope.support import Support
from statewise.ope.verdict import verdict_of

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
    horizon, n = int(data.lengths.max()), data.episodes
    whole, returns, single, robust = [], [], [], []
    above, below, error = np.zeros(horizon), np.zeros(horizon), np.zeros(horizon)
    for e in range(n):
        weight, total, decided, corrected = 1.0, 0.0, 0.0, 0.0
        rows = range(data.starts[e], data.starts[e + 1])
        for t, i in enumerate(rows):
            weight *= chances[i, data.actions[i]] / data.propensities[i]
            total += discount**t * data.rewards[i]
            decided += discount**t * weight * data.rewards[i]
            above[t] += weight * data.rewards[i]
            below[t] += weight
            if chosen is not None:
                following = values[i + 1] if i + 1 < data.starts[e + 1] else 0.0
                left = data.rewards[i] + discount * following - chosen[i]
                corrected += discount**t * weight * left
                error[t] += weight * left
        below[len(rows) :] += weight
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
    chosen, values = action_values(case, data.rewards)[0]
    expected = loops(data, chances, DISCOUNT, chosen, values)
    found = evaluate_all(lambda observations: chances, data, tuple(expected), discount=DISCOUNT)
    assert len(expected) == 6
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, rel=1e-9), name


@pytest.mark.parametrize("name", ["weighted-importance", "weighted-per-decision", "state-ratio", "per-decision"])
def test_influence_is_what_leaving_an_episode_out_shows(name):
    """The jackknife: n·(θ̂ − θ̂ without e) is the influence of e, up to something in 1/n."""
    data, chances = ragged(480)
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
    row = equations.weight * weight[data.episode_of_step[equations.order]]
    here, rho = equations.here.astype(np.float64), case.ratio[equations.order]
    matrix = plain_matrix(prepared, chances, rho, weight)
    beta = np.linalg.solve(matrix.T @ matrix + case.solved.regularisation * np.eye(here.shape[1]), row @ here)
    carried = row * np.maximum(here @ beta, 0) * rho
    return (carried @ data.rewards[equations.order]) / (carried @ equations.restart)


def plain_matrix(prepared, chances, rho, weight):
    """M from tests φ(s)c(a), c the constant 1 and every contrast, under π in the state and in the next one."""
    data, equations = prepared.dataset, prepared.equations
    codes = np.column_stack([np.ones(data.action_count), contrasts_of(data.action_count)])
    phi = equations.in_log_order(equations.here)
    tests = np.einsum("na,ak,nr->nkr", chances, codes, phi).reshape(len(data), -1)
    fresh = np.average(tests[data.starts[:-1]], axis=0, weights=weight)
    onward = prepared.onward[:, None]
    arrived = onward * np.append(tests[1:], tests[:1], axis=0) + (1 - onward) * fresh
    share = equations.in_log_order(equations.weight) * weight[data.episode_of_step]
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
    phi = equations.in_log_order(equations.here)
    fresh = phi[data.starts[:-1]].mean(axis=0)
    expected = []
    for fold in range(3):
        episodes = np.flatnonzero(equations.fold_of_episode == fold)
        whole = sum(DISCOUNT**t for e in episodes for t in range(data.lengths[e]))
        sums = np.zeros((len(episodes), phi.shape[1]))
        for k, e in enumerate(episodes):
            for t, i in enumerate(range(data.starts[e], data.starts[e + 1])):
                arrived = (1 - onward[i]) * fresh + (onward[i] * phi[i + 1] if onward[i] else 0)
                sums[k] += DISCOUNT**t / whole * solved.signed[i] * case.ratio[i] * (arrived - phi[i])
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
    data = replace(data, actions=np.zeros_like(data.actions), distributions=None)
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


# Verdicts


GOOD = Support(1.0, 1.0, 0.01, 0.0, 1.0, 0.5, (), imbalance=0.0, negative=0.0, missed=0.0, leaning=0.0)
CASE = SimpleNamespace(prepared=SimpleNamespace(dataset=SimpleNamespace(episodes=1000, estimated=None)))


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        ({}, "supported", "1,000 of 1,000 episodes carry it"),
        ({"unsupported": 0.02}, "weak", "2 % of the policy's decisions are ones that the log's behaviour never takes"),
        ({"unsupported": 0.2}, "not identified", "20 % of the policy's decisions"),
        ({"unsupported": None}, "supported", "1,000 of 1,000"),
        ({"effective_share": 0.005}, "not identified", "5.0 of 1,000"),
        ({"effective_share": 0.2}, "weak", "few episodes outweigh the others: 1,000 count for about 200"),
        ({"mass": 0.3}, "not identified", "mean 0.3"),
        ({"mass": float("nan")}, "not identified", "mean nan"),
        ({"imbalance": 0.05}, "weak", "misses its equations by 5 %"),
        ({"imbalance": 0.2}, "not identified", "misses its equations by 20 %"),
        ({"negative": 0.001}, "weak", "0.1 % of the state ratio is negative"),
        ({"missed": 2.0}, "weak", "finds 2.0 standard errors missing"),
        ({"leaning": 50.0}, "weak", "corrects the state ratio by 50.0"),
        ({"leaning": float("nan")}, "not identified", "by nan"),
    ],
)
def test_verdicts(change, verdict, words):
    """The verdict is the worst of the measures, and the one that decides it stands first among them."""
    support = replace(GOOD, **change)
    measures = measured(Evidence(CASE, SimpleNamespace(reweighted=True), support))
    given, reason = verdict_of(measures)
    assert given == verdict
    assert words in reason
    worst = {"supported": ("not made", "good"), "weak": ("doubtful",), "not identified": ("bad",)}[verdict]
    assert measures[0].outcome in worst
    assert reason == (measures[0].sentence if verdict != "supported" else reason)
    assert {measure.name for measure in measures} == set(MEASURES) - {"estimated-propensities"}


def test_a_measure_that_was_not_made_is_never_good():
    measures = measured(Evidence(CASE, SimpleNamespace(reweighted=True), replace(GOOD, unsupported=None)))
    tried = next(measure for measure in measures if measure.name == "tried-actions")
    assert (tried.outcome, tried.value) == ("not made", None)
    assert "cannot be known" in tried.sentence


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
        ({"estimator": "magic"}, "no estimator 'magic'; choose from doubly-robust-state-ratio"),
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
