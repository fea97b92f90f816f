"""The model of today agrees with the logged probabilities, whole or of the taken action alone."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.learning.today import CONSISTENT, SHARPER, divergence, model_of_today, more_consistent, shown_by
from statewise.ops.networks import Network
from statewise.policies.files import load_policy

STATES, ACTIONS = 5, 3
WORLD = TabularMDP.random(STATES, ACTIONS, seed=0, termination=0.2)
BEHAVIOUR = np.random.default_rng(1).dirichlet(np.ones(ACTIONS), size=STATES)
LOG = collect_tabular(WORLD, BEHAVIOUR, 150, 10, seed=0)


@pytest.mark.parametrize("whole", [True, False])
def test_it_finds_the_behaviour_from_few_rows(whole, tmp_path):
    """Actions alone would leave a standard error of .03 and more; of each propensity it takes one row."""
    data = LOG if whole else replace(LOG, distributions=None)
    today = model_of_today(data)
    assert np.abs(today.probabilities(np.eye(STATES)) - BEHAVIOUR).max() < (1e-3 if whole else 0.01)
    today.save(tmp_path / "today.safetensors")
    assert load_policy(tmp_path / "today.safetensors").card["algorithm"] == "model of today"


def test_more_consistent_is_a_power_of_today_where_that_changes_anything():
    sharper = more_consistent(LOG)
    expected = BEHAVIOUR**SHARPER / (BEHAVIOUR**SHARPER).sum(axis=1, keepdims=True)
    assert sharper is not None
    assert np.abs(sharper.probabilities(np.eye(STATES)) - expected).max() < 1e-3
    assert sharper.card["algorithm"] == CONSISTENT
    even = np.full_like(LOG.distributions, 1 / ACTIONS)
    assert more_consistent(replace(LOG, distributions=even)) is None
    assert more_consistent(replace(LOG, distributions=None)) is None


def test_today_is_shown_by_both_parts_where_whole_distributions_are_logged():
    """Where the learning part lacks states, a model of it alone would do as it likes there."""
    where = LOG.observations.argmax(axis=1)
    with_last = np.unique(LOG.episode_of_step[where == STATES - 1])
    without = np.setdiff1d(np.arange(LOG.episodes), with_last)
    learning, judging = LOG.take(without[:15]), LOG.take(with_last)
    assert (learning.observations.argmax(axis=1) < STATES - 1).all()
    today = model_of_today(shown_by(learning, judging))
    assert np.abs(today.probabilities(np.eye(STATES)) - BEHAVIOUR).max() < 1e-3
    assert np.abs(model_of_today(learning).probabilities(np.eye(STATES)) - BEHAVIOUR)[-1].max() > 0.05
    taken = replace(learning, distributions=None)
    assert shown_by(taken, judging) is taken


def test_the_divergence_of_taken_actions_has_the_mean_of_the_whole():
    """E_{a~μ}[log(μ/π) − 1 + π/μ] = Σ μ log(μ/π), state by state."""
    rng = np.random.default_rng(2)
    network = Network((jnp.asarray(rng.normal(size=(STATES, ACTIONS))),), (jnp.zeros(ACTIONS),))
    for state in range(STATES):
        seen = jnp.tile(jnp.eye(STATES)[state], (ACTIONS, 1))
        chances = jnp.tile(jnp.asarray(BEHAVIOUR[state]), (ACTIONS, 1))
        actions, propensity = jnp.arange(ACTIONS), jnp.asarray(BEHAVIOUR[state])
        whole = divergence(network, seen, None, actions, propensity, chances)
        each = [
            divergence(network, seen[a : a + 1], None, actions[a : a + 1], propensity[a : a + 1], None)
            for a in range(ACTIONS)
        ]
        assert float(whole) == pytest.approx(float(BEHAVIOUR[state] @ np.array(each)), rel=1e-5)
