"""The numbers of the hard example, each from exact quantities and again by differences or simulation."""

import numpy as np
import pytest

from statewise.domains.hard_example import BEHAVIOUR, HARD_EXAMPLE, offpac_gradient, policy, true_gradient

ALPHAS = np.linspace(0, 1, 11)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_values(alpha):
    expected = [(1 + alpha) / 2, (1 + alpha) / 2, (1 - alpha) / 2, 1, 0]
    np.testing.assert_allclose(HARD_EXAMPLE.state_values(policy(alpha), 1.0), expected, atol=1e-15)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_visit_ratio(alpha):
    expected = [1, 2, 0, 1 + alpha, 1 - alpha]
    np.testing.assert_allclose(HARD_EXAMPLE.visit_ratio(policy(alpha), BEHAVIOUR), expected, atol=1e-15)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_offpac_sees_no_gradient_where_the_true_one_is_a_half(alpha):
    assert offpac_gradient(alpha) == pytest.approx(0, abs=1e-15)
    assert true_gradient(alpha) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_true_gradient_is_the_finite_difference_of_the_value(alpha):
    above, below = (HARD_EXAMPLE.value(policy(alpha + shift), 1.0) for shift in (1e-4, -1e-4))
    assert true_gradient(alpha) == pytest.approx((above - below) / 2e-4, abs=1e-10)


def test_weighting_offpac_by_the_visit_ratio_gives_the_true_gradient():
    """Σ_s v_μ(s) w(s) Σ_a ∂π Q, term by term as the paper's estimator has it."""
    for alpha in ALPHAS:
        ratio = HARD_EXAMPLE.visit_ratio(policy(alpha), BEHAVIOUR)
        action_values = HARD_EXAMPLE.action_values(policy(alpha), 1.0)
        visits = HARD_EXAMPLE.visits(BEHAVIOUR, 1.0)
        terms = [visits[s] * ratio[s] * (action_values[s, 0] - action_values[s, 1]) for s in (1, 2)]
        assert sum(terms) == pytest.approx(true_gradient(alpha), abs=1e-14)


def test_simulated_episodes_pay_the_value():
    rows = HARD_EXAMPLE.sample(policy(0.6), episodes=20_000, horizon=5, seed=0)
    gains = np.bincount(rows["episode"], weights=rows["reward"])
    assert (np.bincount(rows["episode"]) == 3).all()
    assert abs(gains.mean() - 0.8) < 4 * gains.std() / np.sqrt(20_000)
