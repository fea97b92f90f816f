"""The benchmarks of safe policy improvement: what the literature says of them, and what their logs hold."""

import numpy as np
import pytest
from click.testing import CliRunner

import statewise as sw
from statewise.domains import random_mdp, wet_chicken
from statewise.domains.behaviours import Uniform
from statewise.domains.random_mdp import problem
from statewise.domains.tabular import TabularMDP

SEEDS = range(300, 304)


def test_wet_chicken_has_the_published_values():
    source = wet_chicken.SOURCE
    assert source.problem.value(source.behaviour, 0.95) == pytest.approx(29.75, abs=0.005)
    assert source.problem.value(source.problem.optimal(0.95), 0.95) == pytest.approx(43.08, abs=0.005)


@pytest.mark.parametrize(
    ("x", "y", "action"), [(0, 0, "drift"), (4, 0, "right"), (2, 4, "left"), (3, 2, "paddle_back"), (1, 3, "hold")]
)
def test_wet_chicken_moves_as_its_formula_says(x, y, action):
    generator, draws = np.random.default_rng(0), 200_000
    number = wet_chicken.ACTIONS.index(action)
    push = {"hold": -1, "paddle_back": -2}.get(action, 0)
    steer = {"left": -1, "right": 1}.get(action, 0)
    current = 3 * y / 5
    moved = np.round(x + push + current + generator.uniform(-1, 1, draws) * (3.5 - current))
    column = np.full(draws, np.clip(y + steer, 0, 4))
    fallen = moved >= 5
    field = np.where(fallen, 0, 5 * np.maximum(moved, 0) + column).astype(int)
    expected = np.bincount(field, minlength=25) / draws
    np.testing.assert_allclose(wet_chicken.SOURCE.problem.transitions[5 * x + y, number], expected, atol=0.005)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_behaviour_of_a_random_mdp_is_half_way_between_uniform_and_optimal(seed):
    source = problem(seed)
    mdp = source.problem
    uniform, best = mdp.value(np.full((49, 4), 0.25), 0.95), mdp.value(mdp.optimal(0.95), 0.95)
    share = (mdp.value(source.behaviour, 0.95) - uniform) / (best - uniform)
    assert 0.47 < share <= 0.5  # made worse a little at a time until it is no more than half
    np.testing.assert_allclose(source.behaviour.sum(axis=1), 1)
    assert source.behaviour.min() > 0


def test_the_goal_of_a_random_mdp_is_the_farthest_state():
    """By value iteration from scratch, with every other state as the goal."""
    generator = np.random.default_rng([301, 50])
    transitions = random_mdp._transitions(generator)
    assert (np.count_nonzero(transitions, axis=2) == 4).all()
    np.testing.assert_allclose(transitions.sum(axis=2), 1)
    reached = []
    for goal in range(1, 50):
        values = np.zeros(50)
        for _ in range(500):
            earned = 0.95 * values
            earned[goal] = 1.0
            values = (transitions @ earned).max(axis=1)
            values[goal] = 0.0
        reached.append(values[0])
    within = [value for value in reached if value > 0.95**50]
    mdp = problem(301).problem
    assert mdp.value(mdp.optimal(0.95), 0.95) == pytest.approx(min(within), rel=1e-8)


def test_each_seed_is_another_problem_with_a_log_of_its_own():
    source = sw.DOMAINS["random-mdp"]
    assert problem(300).problem.value(problem(300).behaviour, 0.95) != problem(301).problem.value(
        problem(301).behaviour, 0.95
    )
    log = source.collect(200, seed=302)
    assert log.fingerprint == problem(302).collect(200, seed=302).fingerprint
    assert log.lengths.max() == 50
    last = np.zeros(len(log), bool)
    last[log.starts[1:] - 1] = log.terminated
    np.testing.assert_array_equal(log.rewards, last)
    assert 0.5 < log.terminated.mean() < 1
    np.testing.assert_array_equal(log.observations.sum(axis=1), 1)
    states = log.observations.argmax(axis=1)
    np.testing.assert_allclose(log.distributions, problem(302).behaviour[states])
    assert (states[log.starts[:-1]] == 0).all()


@pytest.mark.parametrize("name", ["random-mdp", "wet-chicken"])
def test_played_values_are_exact_and_agree_with_simulated_episodes(name):
    source = sw.DOMAINS[name]
    exact = source.play([None, Uniform(len(source.action_names))], episodes=1, seed=303)
    for act, discounted in zip((None, Uniform(len(source.action_names))), exact.discounted[:, 0], strict=True):
        returns = source.collect(4000, seed=303, act=act).returns(source.discount)
        assert abs(returns.mean() - discounted) < 4 * returns.std() / np.sqrt(4000)


@pytest.mark.parametrize("name", ["random-mdp", "wet-chicken", "hard-example"])
def test_logs_are_written_like_anyone_s(name, tmp_path):
    from statewise.cli.collect import command

    for more in ([], ["--behaviour", "uniform"]):
        path = tmp_path / "log.parquet"
        done = CliRunner().invoke(command, [name, "--episodes", "20", "--seed", "7", "--out", str(path), *more])
        assert done.exit_code == 0, done.output
        log = sw.load(path)
        assert log.episodes == 20
        assert log.distributions.shape == (len(log), len(sw.DOMAINS[name].action_names))
        assert np.allclose(log.propensities, 1 / log.action_count) == bool(more or name == "hard-example")


SMALL = TabularMDP.random(states=4, actions=3, seed=5, termination=0.1)


def test_the_optimal_policy_is_the_best_of_all_deterministic_ones():
    every = (np.eye(3)[list(np.unravel_index(number, (3,) * 4))] for number in range(3**4))
    best = max(SMALL.value(policy, 0.9) for policy in every)
    assert SMALL.value(SMALL.optimal(0.9), 0.9) == pytest.approx(best, rel=1e-12)


def test_the_value_within_a_horizon_sums_the_distributions_up_to_it():
    policy = np.random.default_rng(0).dirichlet(np.ones(3), size=4)
    state, total = SMALL.initial, 0.0
    for step in range(7):
        total += 0.9**step * (state[:, None] * policy * SMALL.rewards).sum()
        state = np.einsum("s,sa,sat->t", state, policy, SMALL.transitions)
    assert SMALL.value_within(policy, 0.9, 7) == pytest.approx(total, rel=1e-12)
    assert SMALL.value_within(policy, 0.9, 400) == pytest.approx(SMALL.value(policy, 0.9), rel=1e-12)


def test_rewards_paid_on_arrival_are_logged_where_a_step_leads():
    pays = np.array([0.0, 2.0, -1.0, 0.5, 3.0])  # of the four states, and of the end
    mdp = TabularMDP.paid_on_arrival(SMALL.transitions, pays, SMALL.initial)
    rows = mdp.sample(np.full((4, 3), 1 / 3), episodes=3000, horizon=20, seed=0)
    expected = [pays[4] if ended else pays[s] for s, ended in zip(rows["next_state"], rows["terminated"], strict=True)]
    np.testing.assert_array_equal(rows["reward"], expected)
    here = (rows["state"] == 2) & (rows["action"] == 1)
    assert rows["reward"][here].mean() == pytest.approx(mdp.rewards[2, 1], abs=0.1)
