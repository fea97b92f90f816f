"""Intervals of single decisions beside IPS, SNIPS and DR by a plain script: about as narrow as the best of them."""

import numpy as np
import pytest

import statewise as sw
from statewise.policies.probabilities import probabilities_of
from worlds import WORLDS
from worlds.plain import dr, ips, mean_of, plain_estimates, snips


@pytest.mark.parametrize(("name", "rows"), [("one-step-2-of-20000", 5000), ("one-step-5-of-20000", 5000)])
def test_at_most_a_tenth_wider_than_the_best_of_three(name, rows):
    """One log of each; `benchmarks/one_step.py` has forty of twelve worlds."""
    world = WORLDS[name]
    log = world.log(1000, rows)
    ours = sw.evaluate(world.policy, log)
    assert ours.verdict == "supported"
    assert log.propensities is not None
    chances = probabilities_of(world.policy, log)
    plain = plain_estimates(log.observations, log.actions, log.rewards, log.propensities, chances)
    assert ours.high - ours.low <= 1.1 * min(one.width() for one in plain.values())


def test_the_plain_script_is_right():
    """Where every reward is 1, SNIPS and DR know the value; and errors are those of repeated logs."""
    rng = np.random.default_rng(0)
    behaviour, target = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.3, 0.5])
    found = {"IPS": [], "SNIPS": [], "DR": []}
    for _ in range(300):
        seen = rng.normal(size=(400, 2))
        actions = rng.choice(3, size=400, p=behaviour)
        rewards = 1.0 + actions + 0.5 * seen[:, 0] + rng.normal(size=400)
        chances = np.broadcast_to(target, (400, 3))
        for name, one in plain_estimates(seen, actions, rewards, behaviour[actions], chances).items():
            found[name].append(one)
    for name, all_of in found.items():
        values, errors = np.array([one.value for one in all_of]), np.array([one.error for one in all_of])
        assert values.mean() == pytest.approx(1.0 + target @ [0, 1, 2], abs=4 * values.std() / np.sqrt(300)), name
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(), rel=0.15), name
    weights = rng.random(50) + 0.5
    assert snips(weights, np.ones(50)) == (1.0, 0.0)
    assert ips(weights, np.ones(50)) == mean_of(weights)
    seen, actions = rng.normal(size=(50, 2)), rng.integers(2, size=50)
    always = dr(seen, actions, np.ones(50), np.full((50, 2), 0.5), weights)
    assert always == pytest.approx((1.0, 0.0), abs=1e-12)
