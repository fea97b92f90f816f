"""What a policy would do that nobody tried: against truths that are known because the behaviour is."""

from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from statewise.data.build import build
from statewise.data.episodes import raw_from_episodes
from statewise.propensities.similar import similar_states
from statewise.propensities.tried import untried


def drawn(behaviour, seed=0, observations=None, distributions=False, legal=None) -> sw.Dataset:
    """A log of one decision an episode, with actions drawn from the rows of `behaviour`."""
    rng = np.random.default_rng(seed)
    rows, count = behaviour.shape
    observations = rng.normal(size=(rows, 2)) if observations is None else observations
    above = behaviour.cumsum(axis=1) / behaviour.sum(axis=1, keepdims=True) > rng.random((rows, 1))
    actions = above.argmax(axis=1)
    return sw.Dataset.from_episodes(
        observations=list(observations[:, None]),
        actions=list(actions[:, None]),
        rewards=list(np.zeros((rows, 1))),
        propensities=list(behaviour[np.arange(rows), actions][:, None]),
        distributions=list(behaviour[:, None]) if distributions else None,
        legal=None if legal is None else list(legal[:, None]),
        terminated=[True] * rows,
        action_count=count,
    )


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def truth(behaviour, policy, weight=None):
    return float(np.average(np.where(behaviour <= 0, policy, 0).sum(axis=1), weights=weight))


def test_logged_distributions_tell_exactly():
    rng = np.random.default_rng(0)
    behaviour = rng.dirichlet(np.ones(4), size=500)
    behaviour[rng.random(500) < 0.3, 2] = 0
    behaviour /= behaviour.sum(axis=1, keepdims=True)
    policy, weight = rng.dirichlet(np.ones(4), size=500), rng.random(500)
    result = untried(drawn(behaviour, distributions=True), policy, weight)
    assert result.share == pytest.approx(truth(behaviour, policy, weight), abs=1e-12)
    assert result.error == 0


@pytest.mark.parametrize("rows", [60, 2000])
@pytest.mark.parametrize("actions", [2, 3, 5, 50])
@pytest.mark.parametrize("deterministic", [False, True])
def test_soft_behaviour_raises_no_alarm(rows, actions, deterministic):
    rng = np.random.default_rng(rows + actions)
    observations = rng.normal(size=(rows, 2))
    behaviour = 0.3 / actions + 0.7 * softmax(observations @ rng.normal(size=(2, actions)))
    logits = observations @ rng.normal(size=(2, actions))
    policy = np.eye(actions)[logits.argmax(axis=1)] if deterministic else softmax(logits)
    result = untried(drawn(behaviour, 1, observations), policy, np.ones(rows))
    assert result.share <= 0.01
    assert np.isfinite(result.error)


def test_a_fixed_protocol():
    behaviour = np.eye(3)[np.zeros(400, int)]
    policy = np.tile([0.25, 0.5, 0.25], (400, 1))
    result = untried(drawn(behaviour), policy, np.ones(400))
    assert result.share == pytest.approx(0.75)
    assert result.certain == pytest.approx(0.75)
    assert untried(drawn(behaviour), behaviour, np.ones(400)).share == 0  # what was done was tried


@pytest.mark.parametrize("actions", [2, 4])
@pytest.mark.parametrize("by_state", [True, False])
def test_a_partly_fixed_protocol(actions, by_state):
    rng = np.random.default_rng(5)
    observations = rng.normal(size=(1500, 2))
    fixed = observations[:, 0] > 0.43 if by_state else rng.random(1500) < 1 / 3
    behaviour = np.where(fixed[:, None], np.eye(actions)[1], np.full(actions, 1 / actions))
    policy = np.tile(np.r_[0.9, np.full(actions - 1, 0.1 / (actions - 1))], (1500, 1))
    weight = rng.random(1500)
    result = untried(drawn(behaviour, 6, observations), policy, weight)
    assert result.share == pytest.approx(truth(behaviour, policy, weight), abs=1e-9)
    assert result.share > 0.25


def test_one_of_several_actions_is_missing_from_half_of_the_states():
    rng = np.random.default_rng(7)
    observations = rng.normal(size=(8000, 2))
    behaviour = np.tile([0.4, 0.3, 0.3], (8000, 1))
    behaviour[observations[:, 0] > 0] = [0.6, 0.4, 0.0]
    policy = np.tile([0.1, 0.1, 0.8], (8000, 1))
    result = untried(drawn(behaviour, 8, observations), policy, np.ones(8000))
    assert abs(result.share - truth(behaviour, policy)) < 0.03
    assert result.certain == result.hardly == 0


def test_the_mean_of_the_ratio_tells_where_similar_states_do_not():
    """The action is missing from every other row, whatever its state: no group of states could show it."""
    rng = np.random.default_rng(9)
    behaviour = np.tile([0.4, 0.3, 0.3], (8000, 1))
    behaviour[::2] = [0.5, 0.5, 0.0]
    policy = np.tile([0.0, 0.2, 0.8], (8000, 1))
    result = untried(drawn(behaviour, 10, rng.normal(size=(8000, 2))), policy, np.ones(8000))
    assert abs(result.share - truth(behaviour, policy)) < 4 * result.error < 0.1


def test_hardly_ever_is_counted_by_the_trials_to_be_expected():
    """With .9999, a group of 300 of 10,000 rows expects .03 trials of anything else; with .97, nine."""
    policy = np.tile([0.2, 0.8], (10_000, 1))
    rare = untried(drawn(np.tile([0.9999, 0.0001], (10_000, 1)), 1), policy, np.ones(10_000))
    assert rare.share > 0.7
    assert rare.hardly == rare.share
    assert untried(drawn(np.tile([0.97, 0.03], (10_000, 1)), 1), policy, np.ones(10_000)).share == 0


def test_it_is_quiet_in_odd_logs():
    one = drawn(np.array([[0.5, 0.5]]))
    assert untried(one, np.array([[0.0, 1.0]]), np.ones(1)).share in (0.0, 1.0)  # a single row: half a trial expected
    alone = drawn(np.ones((5, 1)))
    assert untried(alone, np.ones((5, 1)), np.ones(5)) == untried(alone, np.ones((5, 1)), np.zeros(5))
    alike = drawn(np.full((300, 3), 1 / 3), 2, np.zeros((300, 2)))
    assert untried(alike, np.eye(3)[np.zeros(300, int)], np.ones(300)).share == 0
    rng = np.random.default_rng(0)
    many = drawn(np.full((200, 3000), 1 / 3000), 3)
    result = untried(many, rng.dirichlet(np.ones(3000), size=200), np.ones(200))
    assert 0 <= result.share <= 0.01
    assert np.isfinite(result.error)
    with pytest.raises(ValueError, match="no propensities"):
        untried(replace(one, propensities=None), np.array([[0.5, 0.5]]), np.ones(1))


def test_two_legal_actions_leave_no_doubt():
    """The third action is illegal everywhere: what is left of the taken action's propensity is the other's."""
    rng = np.random.default_rng(11)
    chance = rng.uniform(0.2, 0.8, 500)
    behaviour = np.stack([chance, 1 - chance, np.zeros(500)], axis=1)
    data = drawn(behaviour, 12, legal=behaviour > 0)
    assert untried(data, np.tile([0.0, 1.0, 0.0], (500, 1)), np.ones(500)) == untried(data, behaviour, np.ones(500))
    assert untried(data, behaviour, np.ones(500)).share == 0


def test_groups_are_of_similar_states_and_describe_themselves():
    rng = np.random.default_rng(0)
    observations = np.stack([rng.integers(0, 2, 5000) * 100.0, rng.normal(size=5000)], axis=1)
    groups = similar_states(observations)
    sizes = np.bincount(groups.of_row)
    assert len(sizes) == len(groups) > 10
    assert sizes.min() >= 30
    for group in range(len(groups)):
        inside = observations[groups.of_row == group]
        assert len(np.unique(inside[:, 0])) == 1  # the two kinds of rows are never mixed
        for column, (low, high) in groups.bounds[group].items():
            assert ((inside[:, column] > low) & (inside[:, column] <= high)).all()
        assert "dose" in groups.describe(group, ("kind", "dose"))
    assert len(similar_states(np.zeros((1000, 2)))) == 1


@pytest.mark.parametrize(
    ("chances", "said"),
    [
        ((1.0, 0.5, 0.5), "in 33 % of the rows the taken action had probability 1: nothing else was tried there"),
        ((0.995, 0.5, 0.5), "in 33 % of the rows the taken action had a probability of 0.99 or more: little else was"),
        ((0.5, 0.6, 0.5), None),
    ],
)
def test_the_border_warns_of_fixed_choices(chances, said):
    raw = raw_from_episodes(
        observations=[np.arange(3.0)] * 40,
        actions=[[0, 1, 0]] * 40,
        rewards=[[0.0] * 3] * 40,
        propensities=[list(chances)] * 40,
        terminated=[True] * 40,
    )
    _, findings = build(raw)
    problems = [warning.problem for warning in findings.warnings]
    assert problems == [] if said is None else [said in problem for problem in problems] == [True]


def test_a_single_legal_action_was_no_choice():
    legal = [np.array([[True, False]] * 3)] * 40
    raw = raw_from_episodes(
        observations=[np.arange(3.0)] * 40,
        actions=[[0, 0, 0]] * 40,
        rewards=[[0.0] * 3] * 40,
        propensities=[[1.0] * 3] * 40,
        legal=legal,
        terminated=[True] * 40,
    )
    assert [warning.column for warning in build(raw)[1].warnings] == ["action"]  # the other was never taken
