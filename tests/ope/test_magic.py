"""MAGIC against the paper's formulas, one number at a time, and its blend against other ways to find the best."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from logs import make
from statewise.ope.estimators.doubly_robust import weighted_doubly_robust
from statewise.ope.estimators.magic import DRAWS, LEVEL, blend, corrected_steps, magic, outside
from statewise.ope.evaluate import prepare
from statewise.ope.intervals import bootstrap
from statewise.ope.linear_critic import cross_fitted, judged
from statewise.ope.prepared import Case

DISCOUNT = 0.9


@pytest.fixture(scope="module")
def case():
    """Episodes of 1 to 7 steps, all of which end."""
    data = make([1 + e % 7 for e in range(80)])
    rng = np.random.default_rng(4)
    rewards = np.sin(data.observations[:, 0]) + rng.normal(1.0, 1.0, len(data))
    data = replace(
        data, terminated=np.ones(80, bool), observations=rng.normal(size=data.observations.shape), rewards=rewards
    )
    uneven = 0.6 * data.distributions + 0.4 * rng.dirichlet(np.ones(3), size=len(data))
    return Case(prepare(data, discount=DISCOUNT), uneven)


def partial_importance_sampling(case, chosen, values, j):
    """What each episode adds to g⁽ʲ⁾, by equation 6 of the paper; episodes that ended stay where nothing is earned."""
    data, n = case.prepared.dataset, case.prepared.dataset.episodes
    horizon = int(data.lengths.max())
    weight = np.ones((n, horizon + 1))  # of t = −1, 0, 1, …
    for e in range(n):
        for t in range(horizon):
            row = data.starts[e] + t
            rho = case.probabilities[row, data.actions[row]] / data.propensities[row] if t < data.lengths[e] else 1.0
            weight[e, t + 1] = weight[e, t] * rho
    weight /= weight.sum(axis=0)
    each = np.zeros(n)
    for e in range(n):
        for t in range(j + 1):
            if t >= data.lengths[e]:
                break
            row = data.starts[e] + t
            each[e] += DISCOUNT**t * weight[e, t + 1] * data.rewards[row]
            each[e] -= DISCOUNT**t * (weight[e, t + 1] * chosen[row] - weight[e, t] * values[row])
        if j + 1 < data.lengths[e]:
            each[e] += DISCOUNT ** (j + 1) * weight[e, j + 1] * values[data.starts[e] + j + 1]
    return each


def test_against_the_papers_formulas(case):
    data = case.prepared.dataset
    critic = cross_fitted(case, data.rewards)
    blended = [-1, 0, 1, 3, 6]
    assert [int(count) - 1 for count in corrected_steps(7)] == blended
    of_rows = judged(case, data.rewards, critic.fits)
    each = np.stack([partial_importance_sampling(case, *of_rows, j) for j in blended])
    values = each.sum(axis=1)
    whole = weighted_doubly_robust(case, data.rewards)
    # the last one is the weighted doubly robust estimate, but for what its own influence adds, which has mean 0
    assert values[-1] == pytest.approx(whole.value, rel=1e-9)
    noise = np.cov(each) * 80
    low, high = bootstrap([whole], data.groups, LEVEL, DRAWS, 0)[0]
    bias = np.array([max(low - value, value - high, 0.0) for value in values])
    error = noise + np.outer(bias, bias)
    start = np.full(5, 0.2)
    simplex = {"type": "eq", "fun": lambda x: x.sum() - 1}
    best = minimize(lambda x: 1e3 * x @ error @ x, start, bounds=[(0, 1)] * 5, constraints=simplex, tol=1e-14)
    share = blend(noise, bias)
    assert share @ error @ share == pytest.approx(best.x @ error @ best.x, rel=1e-6)
    assert 0 < share.max() < 1
    found = magic(case, data.rewards)
    assert found.value == pytest.approx(share @ values, rel=1e-9)
    assert found.allowance == pytest.approx([share @ bias] * 2, rel=1e-6, abs=1e-12)
    assert abs(found.value - whole.value) > 1e-3


def test_the_best_blend_of_two_is_the_one_known_in_closed_form():
    """Without bias x₁ = (σ₂² − σ₁₂)/(σ₁² + σ₂² − 2σ₁₂), or an end of that line."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        root = rng.normal(size=(2, 2))
        noise = root @ root.T
        first = (noise[1, 1] - noise[0, 1]) / (noise[0, 0] + noise[1, 1] - 2 * noise[0, 1])
        np.testing.assert_allclose(blend(noise, np.zeros(2))[0], np.clip(first, 0, 1), atol=1e-7)


def test_no_other_blend_has_less_error():
    """Karush, Kuhn and Tucker: the gradient is the same where a share is positive, and no less where it is 0."""
    rng = np.random.default_rng(1)
    for size in (3, 8):
        root, bias = rng.normal(size=(size, size)), rng.normal(size=size) ** 2
        share = blend(root @ root.T, bias)
        assert share.min() >= 0
        assert share.sum() == pytest.approx(1)
        slope = (root @ root.T + np.outer(bias, bias)) @ share
        least = share @ slope
        np.testing.assert_allclose(slope[share > 1e-9], least, rtol=1e-6)
        assert (slope >= least * (1 - 1e-6)).all()


def test_bias_drives_the_critic_out_and_noise_the_correction():
    noise = np.diag([0.01, 1.0])
    assert blend(noise, np.array([0.0, 0.0]))[0] > 0.98
    assert blend(noise, np.array([10.0, 0.0]))[0] < 0.01


def test_where_nothing_varies_or_is_known_every_step_is_corrected():
    np.testing.assert_array_equal(blend(np.zeros((3, 3)), np.zeros(3)), [0, 0, 1])
    np.testing.assert_array_equal(blend(np.full((3, 3), np.nan), np.zeros(3)), [0, 0, 1])


def test_bias_is_the_distance_to_an_interval_that_holds_its_centre():
    np.testing.assert_allclose(outside(np.array([0.0, 1.5, 4.0]), (1.0, 2.0), 1.4), [1.0, 0.0, 2.0])
    np.testing.assert_allclose(outside(np.array([0.0, 2.5, 4.0]), (1.0, 2.0), 3.0), [1.0, 0.0, 1.0])
