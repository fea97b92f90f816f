"""Every exact quantity of a tabular problem against another road to the same number."""

import numpy as np
import pytest

from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP, softmax, with_absorbing

ENDING = TabularMDP.random(states=6, actions=3, seed=1, termination=0.1)
ENDLESS = TabularMDP.random(states=6, actions=3, seed=2)


def random_policy(seed, states=6, actions=3):
    return np.random.default_rng(seed).dirichlet(np.ones(actions), size=states)


def summed_visits(problem, policy, discount, steps=4000):
    """Σ_t γᵗ d_t, one step of the chain at a time."""
    distribution, total = problem.initial, np.zeros_like(problem.initial)
    for step in range(steps):
        total = total + discount**step * distribution
        distribution = np.einsum("s,sa,sat->t", distribution, policy, problem.transitions)
    return total


CASES = [(ENDING, 1.0), (ENDING, 0.9), (ENDLESS, 0.9), (ENDLESS, 0.98)]


@pytest.mark.parametrize(("problem", "discount"), CASES)
def test_visits_are_the_summed_distributions(problem, discount):
    policy = random_policy(3)
    visits = problem.visits(policy, discount)
    np.testing.assert_allclose(visits, summed_visits(problem, policy, discount), rtol=1e-10)
    np.testing.assert_allclose(problem.occupancy(policy, discount), visits / visits.sum(), rtol=1e-12)


def test_visits_of_a_problem_without_end_sum_to_the_discounted_length():
    assert ENDLESS.visits(random_policy(3), 0.9).sum() == pytest.approx(1 / (1 - 0.9), rel=1e-12)
    assert ENDING.visits(random_policy(3), 1.0).sum() == pytest.approx(1 / 0.1, rel=1e-12)


def test_stationary_distribution_is_the_limit_of_the_chain():
    policy = random_policy(4)
    distribution = ENDLESS.initial
    for _ in range(2000):
        distribution = np.einsum("s,sa,sat->t", distribution, policy, ENDLESS.transitions)
    np.testing.assert_allclose(ENDLESS.occupancy(policy, 1.0), distribution, rtol=1e-10)


def test_stationary_distribution_is_the_limit_of_the_discounted_one():
    policy = random_policy(4)
    np.testing.assert_allclose(ENDLESS.occupancy(policy, 1.0), ENDLESS.occupancy(policy, 1 - 1e-7), rtol=1e-5)


def test_two_closed_classes_have_no_single_stationary_distribution():
    apart = TabularMDP(np.eye(2)[:, None, :], np.zeros((2, 1)), np.full(2, 0.5))
    with pytest.raises(ValueError, match="several stationary"):
        apart.occupancy(np.ones((2, 1)), 1.0)
    np.testing.assert_allclose(apart.occupancy(np.ones((2, 1)), 0.9), [0.5, 0.5])


@pytest.mark.parametrize(("problem", "discount"), [*CASES, (ENDLESS, 1.0)])
def test_ratio_solves_the_balance_equation(problem, discount):
    """γ E_μ[w(s) ρ(s,a) 1{s'}] + (1 − γ) p₀ = w d_μ, and its episodic form with a restart at each end."""
    policy, behaviour = random_policy(5), random_policy(6)
    ratio = problem.ratio(policy, behaviour, discount)
    under_behaviour = problem.occupancy(behaviour, discount)
    moved = np.einsum("s,sa,sat->t", under_behaviour * ratio, policy, problem.transitions)
    restarts = 1 - discount * moved.sum()
    np.testing.assert_allclose(discount * moved + restarts * problem.initial, under_behaviour * ratio, atol=1e-12)
    assert under_behaviour @ ratio == pytest.approx(1, rel=1e-10)
    assert np.abs(ratio - 1).max() > 0.1


def test_visit_ratio_is_the_ratio_times_the_lengths():
    policy, behaviour = random_policy(5), random_policy(6)
    lengths = summed_visits(ENDING, policy, 1.0).sum() / summed_visits(ENDING, behaviour, 1.0).sum()
    np.testing.assert_allclose(
        ENDING.visit_ratio(policy, behaviour), ENDING.ratio(policy, behaviour, 1.0) * lengths, rtol=1e-10
    )


@pytest.mark.parametrize(("problem", "discount"), CASES)
def test_values_are_the_limit_of_value_iteration(problem, discount):
    policy = random_policy(7)
    values = np.zeros(6)
    for _ in range(4000):
        action_values = problem.rewards + discount * np.einsum("sat,t->sa", problem.transitions, values)
        values = (policy * action_values).sum(axis=1)
    np.testing.assert_allclose(problem.state_values(policy, discount), values, rtol=1e-10)
    np.testing.assert_allclose(problem.action_values(policy, discount), action_values, rtol=1e-10)


@pytest.mark.parametrize(("problem", "discount"), CASES)
def test_value_is_visits_times_rewards(problem, discount):
    policy = random_policy(7)
    visits = summed_visits(problem, policy, discount)
    assert problem.value(policy, discount) == pytest.approx((visits[:, None] * policy * problem.rewards).sum())


@pytest.mark.parametrize(("problem", "discount"), CASES)
def test_policy_gradient_is_the_finite_difference_of_the_value(problem, discount):
    logits = np.random.default_rng(8).normal(size=(6, 3))
    gradient = problem.policy_gradient(logits, discount)
    differences = np.zeros_like(logits)
    for index in np.ndindex(logits.shape):
        shift = np.zeros_like(logits)
        shift[index] = 1e-5
        above, below = (problem.value(softmax(logits + sign * shift), discount) for sign in (1, -1))
        differences[index] = (above - below) / 2e-5
    np.testing.assert_allclose(gradient, differences, atol=1e-7)
    assert np.abs(gradient).max() > 1e-2


def test_undiscounted_without_an_end_is_an_error():
    with pytest.raises(ValueError, match=r"states \[0, 1, 2, 3, 4, 5\] the episode never ends"):
        ENDLESS.value(random_policy(0), 1.0)


def test_rows_that_are_no_probabilities_are_an_error():
    with pytest.raises(ValueError, match="sum to at most 1"):
        TabularMDP(2 * ENDLESS.transitions, ENDLESS.rewards, ENDLESS.initial)
    with pytest.raises(ValueError, match="initial"):
        TabularMDP(ENDLESS.transitions, ENDLESS.rewards, 0.5 * ENDLESS.initial)


def test_sample_agrees_with_the_exact_quantities():
    policy, episodes, horizon = random_policy(9), 20_000, 300
    rows = ENDING.sample(policy, episodes, horizon, seed=0)
    per_episode = np.zeros((episodes, 6))
    np.add.at(per_episode, (rows["episode"], rows["state"]), 1)
    errors = per_episode.std(axis=0) / np.sqrt(episodes)
    assert (np.abs(per_episode.mean(axis=0) - ENDING.visits(policy, 1.0)) < 4.5 * errors).all()

    gains = np.bincount(rows["episode"], weights=0.9 ** rows["step"] * rows["reward"])
    assert abs(gains.mean() - ENDING.value(policy, 0.9)) < 4 * gains.std() / np.sqrt(episodes)

    for state, action in ((0, 1), (5, 2)):
        here = (rows["state"] == state) & (rows["action"] == action)
        going_on = here & ~rows["terminated"]
        assert abs(rows["terminated"][here].mean() - 0.1) < 4 * np.sqrt(0.09 / here.sum())
        seen = np.bincount(rows["next_state"][going_on], minlength=6) / going_on.sum()
        assert np.abs(seen - ENDING.transitions[state, action] / 0.9).max() < 4 * np.sqrt(0.25 / going_on.sum())


def test_sample_rows_hang_together():
    policy = random_policy(9)
    rows = ENDING.sample(policy, episodes=50, horizon=20, seed=3)
    count = len(rows["state"])
    assert all(len(column) == count for column in rows.values())
    same = rows["episode"][1:] == rows["episode"][:-1]
    assert same.sum() == count - 50
    np.testing.assert_array_equal(rows["state"][1:][same], rows["next_state"][:-1][same])
    np.testing.assert_array_equal(rows["step"][1:][same], rows["step"][:-1][same] + 1)
    assert (rows["step"][np.append(True, ~same)] == 0).all()
    # An episode's last row ended it, or is the horizon's; no other row ended one.
    last = np.append(~same, True)
    assert (rows["terminated"][last] | (rows["step"][last] == 19)).all()
    assert not rows["terminated"][~last].any()
    assert 0 < (~rows["terminated"][last]).sum() < 50
    np.testing.assert_array_equal(rows["propensity"], policy[rows["state"], rows["action"]])
    np.testing.assert_array_equal(rows["probabilities"], policy[rows["state"]])
    np.testing.assert_array_equal(rows["reward"], ENDING.rewards[rows["state"], rows["action"]])


def test_sample_never_ends_an_endless_problem_nor_draws_the_impossible():
    policy = random_policy(9)
    policy[:, 1] = 0
    policy /= policy.sum(axis=1, keepdims=True)
    rows = ENDLESS.sample(policy, episodes=300, horizon=50, seed=4)
    assert len(rows["state"]) == 300 * 50
    assert not rows["terminated"].any()
    assert set(rows["action"]) == {0, 2}


def partly_supported(seed):
    """A sparse problem, a behaviour that leaves actions out, and so states that it never reaches."""
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.ones(8), size=(8, 3)) * (generator.random((8, 3, 8)) < 0.12)
    weights[..., 0] += 1e-2
    transitions = 0.95 * weights / weights.sum(axis=2, keepdims=True)
    problem = TabularMDP(transitions, generator.random((8, 3)), np.eye(8)[0])
    behaviour = generator.dirichlet(np.ones(3), size=8) * (generator.random((8, 3)) < 0.6)
    behaviour[:, 0] += 0.1
    return problem, behaviour / behaviour.sum(axis=1, keepdims=True), generator


def test_theorem_1_the_augmented_value_is_a_lower_bound_and_exact_for_covered_policies():
    strict = unseen = 0
    for seed in range(60):
        problem, behaviour, generator = partly_supported(seed)
        augmented = problem.augmented(behaviour)
        assert (augmented.transitions.sum(axis=2)[:8] <= 1 + 1e-12).all()
        unseen += (~problem.reached(behaviour)).sum()

        anything = generator.dirichlet(np.ones(3), size=8)
        gap = problem.value(anything, 0.9) - augmented.value(with_absorbing(anything), 0.9)
        assert gap > -1e-12
        strict += gap > 1e-3

        covered = anything * (behaviour > 0)
        covered /= covered.sum(axis=1, keepdims=True)
        for policy in (covered, behaviour):
            assert problem.value(policy, 0.9) == pytest.approx(augmented.value(with_absorbing(policy), 0.9), rel=1e-12)
            assert not problem.visits(policy, 0.9)[~problem.reached(policy)].any()
            np.testing.assert_allclose(
                augmented.visits(with_absorbing(policy), 0.9), np.append(problem.visits(policy, 0.9), 0), atol=1e-12
            )
    assert strict > 30
    assert unseen > 20


def test_augmented_rows_follow_the_definition():
    """The definition read state by state, from a simulation of what the behaviour can reach."""
    problem, behaviour, _ = partly_supported(2)
    rows = problem.sample(behaviour, episodes=5000, horizon=60, seed=0)
    seen = set(rows["state"].tolist())
    augmented = problem.augmented(behaviour)
    assert 0 < len(seen) < 8
    for state, action in np.ndindex(8, 3):
        expected = np.zeros(9)
        if state in seen and behaviour[state, action] > 0:
            for following in range(8):
                expected[following if following in seen else 8] += problem.transitions[state, action, following]
            assert augmented.rewards[state, action] == problem.rewards[state, action]
        else:
            expected[8] = 1
            assert augmented.rewards[state, action] == 0
        np.testing.assert_allclose(augmented.transitions[state, action], expected, atol=1e-15)
    np.testing.assert_array_equal(augmented.transitions[8, :, 8], 1)
    np.testing.assert_array_equal(augmented.rewards[8], 0)


def test_theorem_1_fails_for_negative_rewards():
    """What the behaviour never did costs 1 in truth and nothing in the augmented problem."""
    problem = TabularMDP(np.zeros((1, 2, 1)), np.array([[0.0, -1.0]]), np.ones(1))
    augmented = problem.augmented(np.array([[1.0, 0.0]]))
    reckless = np.array([[0.0, 1.0]])
    assert problem.value(reckless, 0.9) == -1
    assert augmented.value(with_absorbing(reckless), 0.9) == 0


def test_ratio_where_the_behaviour_never_comes():
    fork = np.zeros((4, 2, 4))
    fork[0, 0, 1] = fork[0, 1, 2] = 1
    problem = TabularMDP(fork, np.zeros((4, 2)), np.eye(4)[0])
    left, right = np.tile([1.0, 0.0], (4, 1)), np.tile([0.0, 1.0], (4, 1))
    np.testing.assert_array_equal(problem.visit_ratio(right, left), [1, 0, np.inf, 0])


def test_log_holds_the_final_state_only_where_one_was_seen():
    """A terminated episode ends in no state of the problem; one that was cut off ends where it stood."""
    problem = TabularMDP.random(states=4, actions=2, seed=0, termination=0.2)
    rows = problem.sample(np.full((4, 2), 0.5), episodes=50, horizon=6, seed=1)
    log = collect_tabular(problem, np.full((4, 2), 0.5), episodes=50, horizon=6, seed=1)
    assert 5 < log.terminated.sum() < 45
    np.testing.assert_array_equal(log.has_final_observation, ~log.terminated)
    last = rows["next_state"][log.starts[1:] - 1]
    np.testing.assert_array_equal(log.final_observations[~log.terminated], np.eye(4)[last[~log.terminated]])


def test_where_an_end_is_won_or_lost_the_log_holds_ones_and_noughts_of_the_right_mean():
    ending = np.array([[0.3, 0.5], [1.0, 0.2]])
    transitions = (1 - ending)[:, :, None] * np.array([0.4, 0.6])
    chance = np.array([[0.1, 0.5], [0.25, 0.0]])  # of an end that is won
    mdp = TabularMDP(transitions, chance, np.array([0.5, 0.5]), won_or_lost=True)
    rows = mdp.sample(np.full((2, 2), 0.5), 40_000, 50, seed=0)
    assert set(rows["reward"]) == {0.0, 1.0}
    assert rows["reward"][~rows["terminated"]].max() == 0
    for state, action in np.ndindex(2, 2):
        paid = rows["reward"][(rows["state"] == state) & (rows["action"] == action)]
        assert paid.mean() == pytest.approx(chance[state, action], abs=4 * 0.5 / np.sqrt(len(paid)))
    with pytest.raises(ValueError, match=r"won_or_lost needs rewards\[s, a\] between 0 and the chance of an end"):
        TabularMDP(transitions, ending + 0.1, np.array([0.5, 0.5]), won_or_lost=True)
