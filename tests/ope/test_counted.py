"""Values from counts: against a plain loop, exact values, what leaving an episode out does, and their own intervals."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import statewise as sw
from statewise.data.horizon import Horizon
from statewise.domains import DOMAINS
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ope import counted as counting
from statewise.ope.clone import by_the_judge
from statewise.ope.counted import counted, counts_of, in_states
from statewise.ope.evaluate import prepare
from statewise.ope.gate import compare
from statewise.ope.prepared import Case
from statewise.ope.quotient import standard_error
from statewise.ope.walk import OnRows

STATES, ACTIONS = 5, 3
ENDING = TabularMDP.random(STATES, ACTIONS, seed=1, termination=0.2)
ENDLESS = TabularMDP.random(STATES, ACTIONS, seed=2)
RNG = np.random.default_rng(0)
BEHAVIOUR = RNG.dirichlet(np.full(ACTIONS, 3.0), size=STATES)
POLICY = 0.3 * BEHAVIOUR + 0.7 * RNG.dirichlet(np.full(ACTIONS, 1.0), size=STATES)


def of(data, policy=POLICY, discount=1.0):
    case = Case(prepare(data, discount=discount), data.observations @ policy)
    chances = in_states(case)
    assert chances is not None
    return counted(case, data.rewards, chances)


def by_a_loop(data, policy, discount, steps, at=None):
    """The same with dictionaries, also from one state: rows before the horizon tell nothing of where others lead."""
    cut = data.horizon.cut_off is not None
    rows = {}
    for e in range(data.episodes):
        for i in range(data.starts[e], data.starts[e + 1]):
            last = i + 1 == data.starts[e + 1]
            if cut and data.time[i] >= data.horizon.steps - 1:
                continue
            after = None if last else int(data.observations[i + 1].argmax())
            pair = int(data.observations[i].argmax()), int(data.actions[i])
            rows.setdefault(pair, []).append((data.rewards[i], after))
    values = dict.fromkeys(range(STATES), 0.0)
    for _ in range(steps):
        new = {}
        for s in range(STATES):
            tried = [a for a in range(ACTIONS) if (s, a) in rows]
            total = sum(policy[s, a] for a in tried)
            worth = {
                a: np.mean([r + (0.0 if t is None else discount * values[t]) for r, t in rows[s, a]]) for a in tried
            }
            new[s] = sum(policy[s, a] / total * worth[a] for a in tried)
        values = new
    if at is not None:
        return values[at]
    return np.mean([values[int(data.observations[i].argmax())] for i in data.starts[:-1]])


def visited_after(data, steps):
    """The chance of being in each state after so many steps: as the value of being there at the last of them."""
    out = []
    for state in range(STATES):
        there = (data.observations.argmax(axis=1) == state).astype(float)
        within = [by_a_loop(replace(data, rewards=there), POLICY, 1.0, n) for n in (steps + 1, steps)]
        out.append(within[0] - (within[1] if steps else 0.0))
    return out


@pytest.mark.parametrize(("episodes", "discount"), [(60, 1.0), (60, 0.9), (8, 0.9)])
def test_a_plain_loop_with_a_limit(episodes, discount):
    data = collect_tabular(ENDING, BEHAVIOUR, episodes, 6, seed=3)
    assert data.horizon == ("limit", 6)
    assert of(data, discount=discount).value == pytest.approx(by_a_loop(data, POLICY, discount, 6), rel=1e-12)


def test_a_plain_loop_where_episodes_end_by_themselves():
    data = collect_tabular(ENDING, BEHAVIOUR, 40, 1000, seed=4)
    assert data.horizon.cut_off is None
    steps = 5 * int(data.lengths.max())
    assert of(data).value == pytest.approx(by_a_loop(data, POLICY, 1.0, steps), rel=1e-12)


@pytest.mark.parametrize("mdp", [ENDING, ENDLESS])
def test_exact_values_within_the_limit(mdp):
    """A limit that cuts off most episodes: an end there is seen, where an episode that goes on leads is not."""
    data = collect_tabular(mdp, BEHAVIOUR, 20_000, 4, seed=5)
    found = of(data)
    error = standard_error(found.influence(), data.groups)
    exact = mdp.value_within(POLICY, 1.0, 4)
    assert abs(found.value - exact) < 3 * error < 0.02 * abs(exact)


def test_records_that_stop_for_no_reason():
    """Rows that go on stand for those whose record stopped, as elsewhere; ends are not overcounted."""
    data = collect_tabular(ENDING, BEHAVIOUR, 20_000, 12, seed=6)
    rng = np.random.default_rng(0)
    keep = np.minimum(data.lengths, 1 + rng.geometric(0.1, size=data.episodes))
    stopped = keep < data.lengths
    rows = np.concatenate([np.arange(a, a + n) for a, n in zip(data.starts[:-1], keep, strict=True)])
    starts = np.append(0, np.cumsum(keep))
    short = sw.Dataset.from_episodes(
        observations=[data.observations[rows[a:b]] for a, b in pairwise(starts)],
        actions=[data.actions[rows[a:b]] for a, b in pairwise(starts)],
        rewards=[data.rewards[rows[a:b]] for a, b in pairwise(starts)],
        distributions=[data.distributions[rows[a:b]] for a, b in pairwise(starts)],
        terminated=list(data.terminated & ~stopped),
    )
    short = replace(short, ends=Horizon("censored", 8))
    found = of(short)
    exact = ENDING.value_within(POLICY, 1.0, short.horizon.steps)
    assert abs(found.value - exact) < 3 * standard_error(found.influence(), short.groups) < 0.03 * abs(exact)


def test_what_an_episode_adds_is_what_leaving_it_out_takes_away():
    data = collect_tabular(ENDING, BEHAVIOUR, 800, 8, seed=7)
    found = of(data)
    left = [of(data.take(np.delete(np.arange(800), e))).value for e in range(40)]
    taken_away = 799 * (found.value - np.array(left))
    added = found.influence()[:40]
    assert np.corrcoef(taken_away, added)[0, 1] > 0.999
    assert np.std(taken_away - added) < 0.03 * np.std(added)


def test_intervals_hold_on_small_logs_of_many_pairs():
    """49 states with four actions and 50 episodes: six decisions for each."""
    family, scores, power = DOMAINS["random-mdp"], [], []
    for seed in range(12):
        source = family.problem(50_100 + seed % 2)
        data = source.collect(50, seed)
        best = source.problem.optimal(source.discount)
        step = 0.8 * source.behaviour + 0.2 * best
        exact = [
            source.problem.value_within(policy, source.discount, source.horizon) for policy in (step, source.behaviour)
        ]
        log = prepare(data, discount=source.discount)
        decision, _ = compare(OnRows(data.observations @ step), log, level=0.9, near=True)
        scores.append(decision.low > exact[0] - exact[1])
        power.append(decision.low > 0)
    assert np.mean(scores) <= 0.1
    assert np.mean(power) > 0.8  # by features it is a third


def test_doing_as_today_gains_nothing():
    data = collect_tabular(ENDING, BEHAVIOUR, 50, 6, seed=8)
    log = prepare(data, discount=1.0)
    behaviour = by_the_judge(log, data.distributions)
    assert behaviour.by_states
    decision, _ = compare(OnRows(data.distributions), log, near=True)
    assert decision.difference == pytest.approx(0.0, abs=1e-12)
    assert (decision.answer, decision.standard_error) == ("do not deploy", pytest.approx(0.0, abs=1e-12))


def test_wrong_propensities_change_nothing():
    data = collect_tabular(ENDING, BEHAVIOUR, 100, 6, seed=9)
    wrong = replace(data, propensities=0.7 * data.propensities, distributions=None)
    assert of(wrong).value == of(data).value


def test_untried_actions_count_as_unseen():
    data = collect_tabular(ENDING, BEHAVIOUR, 300, 6, seed=10)
    there = (data.observations.argmax(axis=1) == 1) & (data.actions == 2)
    kept = data.take(np.setdiff1d(np.arange(data.episodes), data.episode_of_step[there]))
    found = of(kept)
    # of every visit to that state, the policy's chance of the action there, and the steps that are still to come
    ones = replace(kept, rewards=np.ones(len(kept)))
    visits = [POLICY[1, 2] * visited_after(kept, 6 - left)[1] for left in range(1, 7)]
    to_come = [by_a_loop(ones, POLICY, 1.0, left, at=1) for left in range(1, 7)]
    after, at_once = np.dot(visits, to_come), np.sum(visits)
    beyond = 0.5  # nothing was tried just once, that could tell
    assert found.unseen == pytest.approx((beyond * after + (1 - beyond) * at_once) / by_a_loop(ones, POLICY, 1.0, 6))
    worth = [by_a_loop(kept, POLICY, 1.0, 6, at=s) for s in range(STATES)]
    spreads = beyond * after * np.ptp(np.append(kept.rewards, 0.0)), (1 - beyond) * at_once * np.ptp([*worth, 0.0])
    shown = standard_error(found.influence(), kept.groups)
    assert np.hypot(*spreads) / np.sqrt(12) <= min(found.allowance) < np.hypot(*spreads) / np.sqrt(12) + shown / 2


def test_how_often_untried_actions_lead_beyond_is_told_by_those_tried_once():
    """Five were tried once, and two of them led to states that nothing else shows."""
    chains = [[0, 1, 2, 1], [0, 1, 2, 1], [0, 3, 0], [0, 2, 4, 0]]
    data = sw.Dataset.from_episodes(
        observations=[np.eye(5)[states] for states in chains],
        actions=[[0, 0, 1, 1], [0, 0, 1, 1], [2, 0, 0], [1, 2, 0, 0]],
        rewards=[[0.0] * len(states) for states in chains],
        distributions=[np.full((len(states), 3), 1 / 3) for states in chains],
        terminated=[True] * 4,
    )
    counts = counts_of(prepare(sw.concat([data, data.take(np.array([0, 1]))]), discount=1.0))
    assert counts is not None
    single = {tuple(map(int, divmod(pair, 3))) for pair in np.flatnonzero(counts.rows.reshape(-1) == 1)}
    assert len(single) == 5
    assert counts.leads_beyond == pytest.approx((1 + 2) / (2 + 5))


def test_a_state_that_one_episode_shows_counts_as_unseen():
    data = collect_tabular(ENDING, BEHAVIOUR, 100, 6, seed=11)
    log = prepare(data, discount=1.0)
    counts = counts_of(log)
    assert counts is not None
    assert not counts.once.any()
    only = replace(data, units=np.zeros(100, int))
    again = counts_of(prepare(only, discount=1.0))
    assert again is not None
    assert again.once.all()


def test_rows_of_one_state_with_different_probabilities_are_not_counted():
    data = collect_tabular(ENDING, BEHAVIOUR, 50, 6, seed=12)
    log, policy = prepare(data, discount=1.0), data.observations @ POLICY
    assert in_states(Case(log, policy)) is not None
    policy[0] = policy[0][::-1]
    assert in_states(Case(log, policy)) is None


def test_many_states_single_decisions_and_averages_are_not_counted(monkeypatch):
    data = collect_tabular(ENDING, BEHAVIOUR, 50, 6, seed=13)
    noisy = replace(data, observations=RNG.normal(size=data.observations.shape).astype(np.float32))
    assert counts_of(prepare(noisy, discount=1.0)) is None
    assert counts_of(prepare(data, discount=1.0, objective="average")) is None
    assert counts_of(prepare(collect_tabular(ENDING, BEHAVIOUR, 50, 1, seed=13), discount=1.0)) is None
    monkeypatch.setattr(counting, "MOST_STATES", STATES - 1)
    assert counts_of(prepare(data, discount=1.0)) is None


def test_what_depends_on_the_step_too_is_left_to_features_of_state_and_time():
    """Rewards that fall from step to step; states tell nothing of it."""
    data = collect_tabular(ENDLESS, BEHAVIOUR, 100, 8, seed=14)
    assert counts_of(prepare(data, discount=1.0)) is not None
    wearing_off = replace(data, rewards=data.rewards * (1 - data.time / 16))
    assert counts_of(prepare(wearing_off, discount=1.0)) is None


def test_steps_alone_are_seldom_suspected():
    suspected = [
        counts_of(prepare(collect_tabular(mdp, BEHAVIOUR, 40, 6, seed), discount=1.0)) is None
        for seed in range(100)
        for mdp in (ENDING, ENDLESS)
    ]
    assert np.mean(suspected) <= 0.02
