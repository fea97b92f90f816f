"""One battery for every estimator, on problems whose answers are known exactly."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from logs import stands_for
from statewise.data.horizon import Horizon, recorded_weight, still_recorded
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ope.estimators import ESTIMATORS
from statewise.ope.evaluate import evaluate_all

STATES, ACTIONS = 5, 2
LEARNED = ("state-ratio-network", "fitted-q", "fitted-q-trees")  # seconds each: they face fewer cases
QUICK = tuple(name for name in ESTIMATORS if name not in LEARNED)
OF_POLICY = tuple(name for name in QUICK if name != "behaviour")


def problem(seed, termination=0.0):
    rng = np.random.default_rng(seed)
    mdp = TabularMDP.random(STATES, ACTIONS, seed, termination)
    return mdp, rng.dirichlet([6.0, 6.0], size=STATES), rng.dirichlet([4.0, 4.0], size=STATES)


def acting(table):
    return lambda observations: table[np.argmax(observations[:, :STATES], axis=1)]


def horizon_value(mdp, policy, discount, horizon):
    """E[Σ_{t<H} γᵗ rₜ], one step of the chain at a time."""
    here, total = mdp.initial, 0.0
    for t in range(horizon):
        total += discount**t * here @ (policy * mdp.rewards).sum(axis=1)
        here = here @ mdp.chain(policy)
    return total


def check(found, truth, names, least=0.0):
    """Within four standard errors, and a standard error that says something."""
    for name in names:
        one = found[name]
        assert abs(one.value - truth) < 4 * one.standard_error + least, (name, one.value, truth, one.standard_error)
        assert one.low < one.value < one.high, name
        assert one.standard_error < 0.25 * abs(truth), name


CASES = {  # termination, discount, horizon
    "episodic": (0.3, 1.0, 60),
    "discounted, ending": (0.2, 0.9, 60),
    "discounted, endless": (0.0, 0.8, 40),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_all_agree_with_the_exact_value(case, seed):
    termination, discount, horizon = CASES[case]
    mdp, behaviour, policy = problem(seed, termination)
    data = collect_tabular(mdp, behaviour, episodes=1500, horizon=horizon, seed=seed)
    found = evaluate_all(acting(policy), data, QUICK, discount=discount)
    names = [name for name in OF_POLICY if found[name].identified]
    assert {"state-ratio", "doubly-robust-state-ratio", "weighted-per-decision"} <= set(names)
    check(found, mdp.value(policy, discount), names)
    check(found, mdp.value(behaviour, discount), ["behaviour"])


@pytest.mark.parametrize("name", LEARNED)
def test_learned_ones_agree_with_the_exact_value(name):
    mdp, behaviour, policy = problem(1, 0.3)
    data = collect_tabular(mdp, behaviour, episodes=1000, horizon=60, seed=0)
    check(evaluate_all(acting(policy), data, [name]), mdp.value(policy, 1.0), [name])
    assert abs(mdp.value(policy, 1.0) - mdp.value(behaviour, 1.0)) > 0.05


@cache
def many(size):
    mdp, behaviour, policy = problem(3, 0.4)
    logs = [collect_tabular(mdp, behaviour, size, 30, seed) for seed in range(12)]
    return [evaluate_all(acting(policy), log, OF_POLICY, draws=2) for log in logs]


@pytest.mark.parametrize("name", OF_POLICY)
def test_error_shrinks_with_the_root_of_the_episodes(name):
    mdp, _, policy = problem(3, 0.4)
    truth, errors = mdp.value(policy, 1.0), []
    for size in (100, 1600):
        found = [one[name] for one in many(size)]
        errors.append(np.sqrt(np.mean([(one.value - truth) ** 2 for one in found])))
        # the standard error says how large the error is
        assert 0.4 < errors[-1] / np.mean([one.standard_error for one in found]) < 2.0
    assert 2 < errors[0] / errors[1] < 8  # 4 is what √16 gives


def test_the_behaviour_itself_is_worth_what_it_earned():
    """π = μ: every weight is 1, and nothing is left to estimate."""
    mdp, behaviour, _ = problem(4, 0.2)
    data = collect_tabular(mdp, behaviour, episodes=300, horizon=12, seed=0)
    for discount in (1.0, 0.9):
        found = evaluate_all(acting(behaviour), data, QUICK, discount=discount)
        earned = data.returns(discount)
        for name in ("behaviour", "importance", "per-decision", "weighted-importance", "weighted-per-decision"):
            assert found[name].value == pytest.approx(earned.mean(), rel=1e-12)
            assert found[name].standard_error == pytest.approx(earned.std(ddof=1) / np.sqrt(300), rel=1e-9)
            assert found[name].effective_sample_size == pytest.approx(300)
            assert found[name].verdict == "supported"
        for name in OF_POLICY:  # a critic fitted to other episodes says something of its own, within what is known
            leeway = found[name].standard_error if "robust" in name else 0.02 * earned.mean()
            assert found[name].value == pytest.approx(earned.mean(), abs=leeway), name


def cut_off_at(long, kept):
    """The log with each episode cut off after so many steps; what followed was not written down."""
    rows = long.time < kept[long.episode_of_step]
    names = ("observations", "actions", "rewards", "propensities", "distributions")
    return replace(
        long,
        **{name: getattr(long, name)[rows] for name in names},
        starts=np.concatenate([[0], np.cumsum(np.minimum(kept, long.lengths))]),
        terminated=long.terminated & (long.lengths <= kept),
        final_observations=np.full_like(long.final_observations, np.nan),
    )


def test_where_records_stop_at_different_steps_those_that_go_on_stand_for_the_others():
    """Half of the records stop at step 4: the value still counts up to 9, for all; unless these are limits."""
    mdp, behaviour, policy = problem(5)
    long = collect_tabular(mdp, behaviour, episodes=3000, horizon=9, seed=0)
    cut = cut_off_at(long, np.where(np.arange(3000) % 2, 9, 4))
    assert cut.horizon == Horizon("continuing", 9)
    far, near = horizon_value(mdp, policy, 0.9, 9), horizon_value(mdp, policy, 0.9, 4)
    today = [horizon_value(mdp, behaviour, 0.9, steps) for steps in (9, 4)]
    assert far - near > 1
    found = evaluate_all(acting(policy), cut, QUICK, discount=0.9)
    check(found, far, OF_POLICY)
    check(found, today[0], ["behaviour"])
    limits = evaluate_all(acting(policy), replace(cut, ends=Horizon("limit")), QUICK, discount=0.9)
    check(limits, (far + near) / 2, [name for name in OF_POLICY if "state-ratio" not in name])
    # limits of their own cannot be told from state and time: they are taken for something that happens there
    check(limits, (far + near) / 2, ["state-ratio", "doubly-robust-state-ratio"], least=0.01 * far)
    check(limits, np.mean(today), ["behaviour"])


def test_nothing_counts_beyond_the_horizon_that_was_given():
    mdp, behaviour, policy = problem(5)
    data = collect_tabular(mdp, behaviour, episodes=1500, horizon=9, seed=0)
    four = replace(data, ends=Horizon("limit", 4))
    found = evaluate_all(acting(policy), four, QUICK, discount=0.9)
    check(found, horizon_value(mdp, policy, 0.9, 4), OF_POLICY)
    beyond = replace(four, rewards=np.where(four.time < 4, four.rewards, 1e6))
    again = evaluate_all(acting(policy), beyond, QUICK, discount=0.9)
    for name in QUICK:
        assert again[name].value == pytest.approx(found[name].value, rel=1e-9), name
        assert again[name].standard_error == pytest.approx(found[name].standard_error, rel=1e-6), name


def life_table(mdp, policy, steps):
    """The value up to `steps`, and who is still there: S(t) = P(T > t), by the chain."""
    here, total, living = mdp.initial, 0.0, []
    for _ in range(steps):
        living.append(here.sum())
        total += here @ (policy * mdp.rewards).sum(axis=1)
        here = here @ mdp.chain(policy)
    return total, np.array(living)


def test_censored_records_give_the_value_of_the_life_table():
    """Episodes end by themselves; every tenth record that is left stops after each step, for no reason."""
    mdp, behaviour, policy = problem(11, 0.35)
    long = collect_tabular(mdp, behaviour, episodes=4000, horizon=60, seed=2)
    cut = cut_off_at(long, np.random.default_rng(0).geometric(0.1, size=4000))
    assert cut.horizon.cut_off == "censored"
    standing, steps = stands_for(cut)
    assert cut.horizon.steps == steps
    np.testing.assert_allclose(recorded_weight(cut), standing)
    recorded, living = still_recorded(cut, steps)
    np.testing.assert_allclose(recorded[:6], 0.9 ** np.arange(6), atol=0.03)
    np.testing.assert_allclose(living[:steps], life_table(mdp, behaviour, steps)[1], atol=0.03)
    found = evaluate_all(acting(policy), cut, QUICK, discount=1.0)
    truth = life_table(mdp, policy, steps)[0]
    names = [name for name in OF_POLICY if found[name].identified]
    assert {"state-ratio", "doubly-robust-state-ratio", "weighted-per-decision", "per-decision"} <= set(names)
    check(found, truth, names)
    check(found, life_table(mdp, behaviour, steps)[0], ["behaviour"])
    naive = np.mean([cut.rewards[a:b].sum() for a, b in pairwise(cut.starts)])
    assert naive < found["behaviour"].low  # as if being cut off were an end


def test_endless_logs_can_be_summed_without_discount():
    mdp, behaviour, policy = problem(6)
    data = collect_tabular(mdp, behaviour, episodes=2000, horizon=8, seed=1)
    truth = horizon_value(mdp, policy, 1.0, 8)
    found = evaluate_all(acting(policy), data, QUICK, discount=1.0)
    check(found, truth, ["importance", "per-decision", "weighted-per-decision", "doubly-robust"])
    check(found, truth, ["state-ratio", "doubly-robust-state-ratio"], least=0.03 * truth)


def test_reward_at_the_end_alone():
    """Only the step that ends an episode pays, and what it pays depends on the state."""
    mdp, behaviour, policy = problem(7, 0.3)
    data = collect_tabular(mdp, behaviour, episodes=2000, horizon=60, seed=0)
    pay = np.linspace(0, 1, STATES)
    last = np.zeros(len(data), bool)
    last[data.starts[1:] - 1] = data.terminated
    data = replace(data, rewards=np.where(last, pay[data.observations.argmax(axis=1)], 0.0))
    expected = replace(mdp, rewards=mdp.termination * pay[:, None])
    found = evaluate_all(acting(policy), data, QUICK)
    check(found, expected.value(policy, 1.0), [name for name in OF_POLICY if found[name].identified])


@pytest.mark.parametrize("termination", [0.4, 0.0])
def test_deterministic_targets_and_actions_that_are_never_taken(termination):
    mdp, behaviour, _ = problem(8, termination)
    policy = np.eye(ACTIONS)[np.arange(STATES) % ACTIONS]
    data = collect_tabular(mdp, behaviour, episodes=3000, horizon=25, seed=0)
    found = evaluate_all(acting(policy), data, QUICK, discount=0.7)
    truth = mdp.value(policy, 0.7)
    names = ["state-ratio", "doubly-robust-state-ratio", "per-decision", "weighted-per-decision"]
    check(found, truth, names)
    check(found, truth, ["doubly-robust", "weighted-doubly-robust"])


def test_one_step_bandits():
    rng = np.random.default_rng(0)
    mdp = TabularMDP(np.zeros((STATES, ACTIONS, STATES)), rng.random((STATES, ACTIONS)), np.full(STATES, 1 / STATES))
    behaviour, policy = rng.dirichlet([3.0, 3.0], size=STATES), np.eye(ACTIONS)[[0, 1, 0, 1, 0]]
    data = collect_tabular(mdp, behaviour, episodes=2000, horizon=1, seed=0)
    found = evaluate_all(acting(policy), data, QUICK)
    check(found, mdp.value(policy, 1.0), OF_POLICY)
    # with one step, whole episodes and single decisions are the same
    for one, other in (("importance", "per-decision"), ("weighted-importance", "weighted-per-decision")):
        assert found[one].value == pytest.approx(found[other].value, rel=1e-12)


@pytest.mark.parametrize("termination", [0.3, 0.0])
def test_average_objective_is_the_return_per_step(termination):
    mdp, behaviour, policy = problem(9, termination)
    if termination == 0:  # the log begins in what the policy would settle in: its average is then the long-run one
        mdp = replace(mdp, initial=mdp.occupancy(policy, 1.0))
    horizon = 60 if termination else 10
    data = collect_tabular(mdp, behaviour, episodes=2000, horizon=horizon, seed=0)
    truth = mdp.occupancy(policy, 1.0) @ (policy * mdp.rewards).sum(axis=1)
    found = evaluate_all(acting(policy), data, QUICK, objective="average")
    check(found, truth, [name for name in OF_POLICY if found[name].verdict == "supported"])
    assert found["state-ratio"].verdict == "supported"
    assert found["state-ratio"].objective == "average"
