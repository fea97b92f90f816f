"""The behaviour policies that come with the package earn what the paper's two readings say."""

import numpy as np
import pytest

from statewise.domains.behaviours import domain_and_behaviour, shipped
from statewise.domains.collect import collect
from statewise.domains.hiv import HIV
from statewise.domains.simulate import episode_keys, returns, rollout


@pytest.mark.parametrize(("name", "discount"), [("hiv", 0.98), ("hiv-weak", 1.0)])
def test_shipped_behaviours_earn_the_papers_return(name, discount):
    domain, behaviour = domain_and_behaviour(name)
    earned = returns(rollout(domain, behaviour, episode_keys(2024, 512)), discount) * domain.reward_scale
    assert 0.8 * 1.5e7 < earned.mean() < 1.2 * 1.5e7
    assert earned.std() / np.sqrt(len(earned)) < 0.07 * 1.5e7


def test_logged_distributions_are_the_mixture():
    _, behaviour = domain_and_behaviour("hiv")
    log = collect(HIV, behaviour, episodes=3, seed=0)
    expected = 0.7 * shipped("hiv").probabilities(log.observations) + 0.3 / 4
    np.testing.assert_allclose(log.distributions, expected, atol=1e-5)
    assert log.truncated.all()
    assert log.has_final_observation.all()
    assert log.lengths.tolist() == [200] * 3


def test_a_longer_log_starts_the_same():
    domain, behaviour = domain_and_behaviour("cartpole")
    short, long = (collect(domain, behaviour, episodes=n, seed=5) for n in (10, 80))
    assert long.take(np.arange(10)).fingerprint == short.fingerprint
