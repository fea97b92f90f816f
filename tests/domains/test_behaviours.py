"""The behaviour policies that come with the package earn what the paper's two readings say."""

import numpy as np
import pytest

from statewise.domains import DOMAINS
from statewise.domains.behaviours import shipped


@pytest.mark.parametrize(("name", "discount", "episodes"), [("hiv", 0.98, 256), ("hiv-weak", 1.0, 64)])
def test_shipped_behaviours_earn_the_papers_return(name, discount, episodes):
    """On as many episodes as the standard error below asks for."""
    domain = DOMAINS[name]
    played = domain.play([None], episodes=episodes, seed=2024)
    earned = (played.discounted if discount < 1 else played.undiscounted)[0] * domain.reward_scale
    assert 0.8 * 1.5e7 < earned.mean() < 1.2 * 1.5e7
    assert earned.std() / np.sqrt(len(earned)) < 0.07 * 1.5e7


def test_logged_distributions_are_the_mixture():
    log = DOMAINS["hiv"].collect(episodes=3, seed=0)
    expected = 0.7 * shipped("hiv").probabilities(log.observations) + 0.3 / 4
    np.testing.assert_allclose(log.distributions, expected, atol=1e-5)
    assert log.truncated.all()
    assert log.has_final_observation.all()
    assert log.lengths.tolist() == [200] * 3


def test_a_longer_log_starts_the_same():
    short, long = (DOMAINS["cartpole"].collect(episodes=n, seed=5) for n in (10, 80))
    assert long.take(np.arange(10)).fingerprint == short.fingerprint
