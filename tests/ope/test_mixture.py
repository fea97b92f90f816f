"""What the steps of a walk share is what each of them would find by itself."""

from dataclasses import replace

import numpy as np
import pytest

from statewise.domains import DOMAINS
from statewise.ope.evaluate import prepare
from statewise.ope.gate import compare
from statewise.ope.mixture import Mixture, beginning_of, between, nodes_of
from statewise.ope.prepared import Case
from statewise.ope.solution import Policy, flows_of
from statewise.ope.walk import Ends, OnRows


@pytest.fixture(scope="module", params=[None, 0.95])
def log(request):
    """Far from a limit, so that there is no clock; and discounted."""
    return prepare(DOMAINS["cartpole"].collect(60, seed=3), discount=request.param)


@pytest.fixture(scope="module")
def ends(log):
    data = log.dataset
    right = 1 / (1 + np.exp(-20 * data.observations[:, 2]))
    return Ends(data.distributions, np.stack([1 - right, right], axis=1))


@pytest.mark.parametrize("step", [0.02, 0.3, 0.5, 0.85, 1.0])
def test_flows_between_the_ends(log, ends, step):
    mixture = Mixture(ends.today, ends.goal, step)
    of = log.horizon_equations, log.dataset
    beginning = beginning_of(mixture, *of)
    assert beginning is not None
    nodes = nodes_of(mixture, beginning, *of)
    case = Case(log, mixture.at(step))
    expected = flows_of(Policy(log.horizon_equations, case.ratio, case.probabilities))
    np.testing.assert_allclose(between(nodes, step), expected, atol=2e-6 * np.abs(expected).max())
    assert np.abs(nodes[2] - nodes[0]).max() > 1e-3 * np.abs(expected).max()  # the ends do differ


def test_steps_are_judged_as_by_themselves(log, ends):
    fresh = replace(log)
    for step in (0.05, 0.4):
        shared, alone = ends.at(step), OnRows(ends.at(step).probabilities_there)
        assert shared.mixture is not None
        found, by_itself = (compare(one, fresh, near=True)[0] for one in (shared, alone))
        assert found.answer == by_itself.answer
        numbers = [[one.difference, one.low, one.high, one.estimate.value] for one in (found, by_itself)]
        np.testing.assert_allclose(*numbers, atol=1e-3 * by_itself.standard_error)


def test_ways_that_begin_together_share_no_more_than_that(log, ends):
    fresh, other = replace(log), replace(ends, goal=ends.goal[:, ::-1])
    for step in (ends.at(0.4), other.at(0.4)):
        shared, alone = (Case(one, step.probabilities_there, step.mixture) for one in (fresh, replace(log)))
        np.testing.assert_allclose(shared.horizon_solved.signed, alone.horizon_solved.signed)


def test_a_geometric_step_is_no_mixture(ends):
    assert replace(ends, way="geometric").at(0.3).mixture is None
