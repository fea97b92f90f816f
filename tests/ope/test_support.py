"""How far from a log the state ratio reaches; beyond, nothing must come out with a number that looks sound."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from statewise.domains.cartpole import CARTPOLE
from statewise.domains.collect import collect
from statewise.ope.estimators import ESTIMATORS
from statewise.ope.evaluate import evaluate, evaluate_all

NAMES = [name for name in ESTIMATORS if name not in ("state-ratio-network", "fitted-q", "fitted-q-trees", "behaviour")]


def uniform(observation):
    return jnp.full(2, 0.5)


@pytest.fixture(scope="module")
def log():
    return collect(CARTPOLE, uniform, episodes=400, seed=0)


def balancing(gain):
    """Pushes towards where the pole leans; with a large gain it never falls: 200 steps."""

    def probabilities(observations):
        lean = np.clip(gain * (observations[:, 2].astype(np.float64) + 0.5 * observations[:, 3]), -50, 50)
        chance = 1 / (1 + np.exp(-lean))
        return np.stack([1 - chance, chance], axis=1)

    return probabilities


def test_a_policy_that_never_falls_is_not_identified_from_uniform_logs(log):
    """The log's episodes last 22 steps; every estimate falls short of 200 by more than half."""
    found = evaluate_all(balancing(1000.0), log, NAMES)
    for name, one in found.items():
        assert one.verdict == "not identified", (name, one.value, one.reason)
        assert not any(character.isdigit() for character in str(one).split("identified:")[0])


LENGTHS = {0.7: 28.9, 1.5: 43.1, 2.5: 72.5, 3.5: 113.0}  # by gain, over 4,000 simulated episodes
SEEDS = range(300, 304)


@pytest.fixture(scope="module")
def logs():
    return [collect(CARTPOLE, uniform, episodes=500, seed=seed) for seed in SEEDS]


@pytest.mark.parametrize("gain", LENGTHS)
def test_lengths_of_episodes_five_times_those_of_the_log(logs, gain):
    """Episodes of 22 steps tell of policies of up to 113: on average within 15 %, each within three standard errors."""
    found = [evaluate(balancing(gain), log, "state-ratio", draws=2) for log in logs]
    errors = np.array([one.value / LENGTHS[gain] - 1 for one in found])
    assert abs(errors.mean()) < 0.15, errors
    for one in found:
        assert abs(one.value - LENGTHS[gain]) < 3 * one.standard_error + 0.05 * LENGTHS[gain], one


NEAR = ("state-ratio", "doubly-robust-state-ratio", "per-decision", "weighted-per-decision")


def test_a_policy_near_the_logs_is_supported():
    log = collect(CARTPOLE, uniform, episodes=2000, seed=0)
    for name, one in evaluate_all(balancing(0.3), log, NEAR).items():
        assert one.verdict == "supported", (name, one.reason)


def test_in_a_short_log_it_is_supported_but_for_what_single_episodes_show(log):
    """Of 1,477 steps of the policy itself, 25 lie where none of these 400 episodes has been; the measure says fewer."""
    found = evaluate_all(balancing(0.3), log, NEAR)
    robust = found.pop("doubly-robust-state-ratio")
    doubts = [(measure.name, measure.outcome) for measure in robust.measures if measure.outcome != "good"]
    assert doubts == [("known-error", "doubtful"), ("unseen-situations", "doubtful")]
    assert 0.002 < robust.diagnostics.unseen < 25 / 1477
    for name, one in found.items():
        assert one.verdict == "supported", (name, one.reason)


def test_actions_that_the_behaviour_never_takes_are_counted(log):
    data = replace(log, distributions=np.eye(2)[log.actions], propensities=np.ones(len(log)))  # it was certain
    found = evaluate_all(balancing(0.3), data, ("per-decision", "state-ratio"))
    for one in found.values():
        assert one.diagnostics.unsupported == pytest.approx(0.5, abs=0.2)
        assert one.verdict == "not identified"
        assert "never takes" in one.reason
