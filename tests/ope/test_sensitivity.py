"""How strong a hidden reason would have to be: against brute force, and against one of known strength."""

import numpy as np
import pytest
from scipy.optimize import brentq

import statewise as sw
from statewise.ope.evaluate import prepare
from statewise.ope.prepared import Case
from statewise.ope.sensitivity import MOST, lowest_means, turning_point


@pytest.mark.parametrize("gamma", [1.0, 1.3, 3.0, 50.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_lowest_mean_solves_its_equation(gamma, seed):
    rng = np.random.default_rng(seed)
    residuals, weight = rng.standard_t(3, size=200), rng.gamma(1.0, size=200)

    def unbalanced(kappa):
        return weight @ np.maximum(residuals - kappa, 0) - gamma * weight @ np.maximum(kappa - residuals, 0)

    kappa = lowest_means(residuals, weight)(gamma)
    assert kappa == pytest.approx(brentq(unbalanced, residuals.min() - 1, residuals.max() + 1, xtol=1e-13), abs=1e-9)
    if gamma == 1.0:
        assert kappa == pytest.approx(np.average(residuals, weights=weight))


def test_the_lowest_mean_is_that_of_the_worst_densities():
    """The least Σ w q δ / Σ w q over q between 1 and Γ: the greatest weight on the least residuals."""
    rng = np.random.default_rng(2)
    residuals, weight = np.sort(rng.normal(size=40)), rng.gamma(1.0, size=40)
    for gamma in (1.5, 4.0):
        means = []
        for below in range(41):
            q = np.where(np.arange(40) < below, gamma, 1.0)
            means.append(np.average(residuals, weights=weight * q))
        assert lowest_means(residuals, weight)(gamma) == pytest.approx(min(means))


def test_the_lowest_mean_never_leaves_the_residuals():
    assert lowest_means(np.full(5, 2.0), np.ones(5))(7.0) == pytest.approx(2.0)
    assert lowest_means(np.array([-1.0, 3.0]), np.ones(2))(1e9) == pytest.approx(-1.0, abs=1e-6)


def confounded(gamma, episodes=6000, seed=0):
    """One decision. Whoever would fare better is likelier to be given action 1: the odds differ by Γ.

    With u = ±1 hidden, action 1 pays u more or less than action 0's 0; its true mean is 0. Odds √Γ and 1/√Γ give a
    propensity of one half overall, which is what the log says.
    """
    rng = np.random.default_rng(seed)
    hidden = rng.choice([-1.0, 1.0], size=episodes)
    chance = np.sqrt(gamma) ** hidden / (1 + np.sqrt(gamma) ** hidden)
    taken = (rng.random(episodes) < chance).astype(int)
    return sw.Dataset.from_episodes(
        observations=[np.ones((1, 1))] * episodes,
        actions=list(taken[:, None]),
        rewards=list(np.where(taken == 1, hidden, 0.0)[:, None]),
        distributions=[np.full((1, 2), 0.5)] * episodes,
        terminated=[True] * episodes,
    )


def always(seen):
    return np.tile([0.0, 1.0], (len(seen), 1))


@pytest.mark.parametrize("gamma", [2.0, 4.0])
def test_a_hidden_reason_of_that_strength_is_no_stronger_than_what_is_said(gamma):
    """Action 1 looks better than it is by (√Γ − 1)/(√Γ + 1). As strong a reason as made it so must be able to."""
    data = confounded(gamma)
    case = Case(prepare(data), always(data.observations))
    seen = data.rewards[data.actions == 1].mean()
    bias = (np.sqrt(gamma) - 1) / (np.sqrt(gamma) + 1)
    assert seen == pytest.approx(bias, abs=0.04)
    turned = turning_point(case, seen)  # nothing would be left of it
    assert turned <= 1.15 * gamma
    assert turned > np.sqrt(gamma)
    # by hand: half were not given it, and they would have fared as badly as a share Γ to 1 of the worse
    better = (1 + seen) / 2
    kappa = -seen + (better - turned * (1 - better)) / (better + turned * (1 - better))
    assert -0.5 * kappa == pytest.approx(seen, rel=1e-3)


def test_what_no_hidden_reason_could_turn_over():
    data = confounded(2.0)
    case = Case(prepare(data), always(data.observations))
    assert turning_point(case, 5.0) == MOST
    assert turning_point(case, 0.0) == pytest.approx(1.0, abs=1e-3)


def test_a_greater_gain_takes_a_stronger_reason_and_the_gate_says_which():
    data = confounded(4.0)
    case = Case(prepare(data), always(data.observations))
    points = [turning_point(case, margin) for margin in (0.05, 0.1, 0.2, 0.3)]
    assert points == sorted(points)
    assert points[0] < points[-1]
    decision = sw.gate(always, data)
    assert decision.answer == "deploy"
    assert decision.hidden_reason == pytest.approx(turning_point(case, decision.low))
    assert sw.gate(lambda seen: np.tile([1.0, 0.0], (len(seen), 1)), data).hidden_reason is None


def test_only_those_who_were_not_given_it_may_have_fared_otherwise():
    """Of decisions taken with 80 %, a fifth: the value is lower by .2 |κ|, κ that of the rewards of action 1."""
    rng, episodes = np.random.default_rng(0), 3000
    taken = (rng.random(episodes) < 0.8).astype(int)
    rewards = rng.normal(taken, 1.0)
    data = sw.Dataset.from_episodes(
        observations=[np.ones((1, 1))] * episodes,
        actions=list(taken[:, None]),
        rewards=list(rewards[:, None]),
        distributions=[np.array([[0.2, 0.8]])] * episodes,
        terminated=[True] * episodes,
    )
    case = Case(prepare(data), always(data.observations))
    outcomes = rewards[taken == 1] - rewards[taken == 1].mean()
    margin = -0.2 * lowest_means(outcomes, np.ones(len(outcomes)))(3.0)
    assert turning_point(case, margin) == pytest.approx(3.0, rel=0.01)
