"""Gains by group: they sum up to the gain, hold the truth together, and stand where plain means put them."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.data.readable import columns_of
from statewise.ope.evaluate import prepare
from statewise.ope.gate import compare
from statewise.ope.subgroups import by_first_state, by_period, gains_of, named_columns, sensible_columns

STEPS, KEEPS = 3, 0.8
EFFECT = {"f": 1.0, "m": -0.5}  # of the treatment on health, by sex
TREATS = 0.8  # the new policy; today's treats half


def truth(sex: str) -> float:
    """Health is linear: h' = keeps·h + effect·treated + noise, and the reward is h'."""
    change, total = 0.0, 0.0
    for _ in range(STEPS):
        change = KEEPS * change + EFFECT[sex] * (TREATS - 0.5)
        total += change
    return total


def log(episodes: int, seed: int) -> sw.Dataset:
    rng = np.random.default_rng(seed)
    sex = rng.choice(list(EFFECT), episodes)
    effect = np.where(sex == "f", EFFECT["f"], EFFECT["m"])
    health = rng.normal(size=episodes)
    columns = []
    for step in range(STEPS):
        treated = rng.integers(2, size=episodes)
        after = KEEPS * health + effect * treated + 0.5 * rng.normal(size=episodes)
        rows = {
            "episode": range(episodes), "step": [step] * episodes, "obs_sex": sex, "obs_health": health,
            "action": treated, "reward": after, "propensity_0": [0.5] * episodes, "propensity_1": [0.5] * episodes,
            "terminated": [False] * episodes,
        }  # fmt: skip
        columns.append(pl.DataFrame(rows))
        health = after
    return sw.load(pl.concat(columns).sort("episode", "step"))


def more_treatment(observations):
    return np.tile([1 - TREATS, TREATS], (len(observations), 1))


def decided(data: sw.Dataset):
    return compare(more_treatment, prepare(data), near=True)[0]


@pytest.fixture(scope="module")
def judged():
    data = log(400, 0)
    return data, decided(data)


def test_groups_against_plain_means(judged):
    data, decision = judged
    groups = by_first_state(data, named_columns(data, ("sex", "health")))
    first = data.observations[data.starts[:-1]]
    female, health = first[:, 0] == 1, first[:, 2]
    middle = np.median(health)
    inside = [female, ~female, health <= middle, health > middle]
    assert [name for _, name in groups][:2] == ["sex: f", "sex: m"]
    assert [name.split()[:2] for _, name in groups][2:] == [["health", "≤"], ["health", ">"]]
    for one, members, expected in zip(gains_of(decision, data, groups), groups.values(), inside, strict=True):
        np.testing.assert_array_equal(members, expected)
        np.testing.assert_allclose(one.gain, (decision.difference + decision.influence)[expected].mean())
        assert one.low < one.gain < one.high
        assert one.episodes == expected.sum()


def test_gains_sum_up_to_the_gain(judged):
    data, decision = judged
    for groups in (by_first_state(data, named_columns(data, ("sex",))), by_period(data)):
        gains = gains_of(decision, data, groups)
        whole = sum(one.gain * one.episodes for one in gains) / data.episodes
        np.testing.assert_allclose(whole, decision.difference)


def test_all_intervals_hold_the_truth_together():
    """At 95 % for both groups together: of 20 logs about 19 hold both, and fewer than 16 three times in a thousand."""
    held, told_apart = 0, 0
    for seed in range(20):
        data = log(200, seed + 1)
        gains = gains_of(decided(data), data, by_first_state(data, named_columns(data, ("sex",))))
        held += all(one.low <= truth(one.name[-1]) <= one.high for one in gains)
        told_apart += gains[0].low > gains[1].high
    assert held >= 16
    assert told_apart >= 18  # the effect on one sex is harmful, and is not hidden by the other


def test_more_groups_have_wider_intervals(judged):
    data, decision = judged
    sex = by_first_state(data, named_columns(data, ("sex",)))
    alone, among = gains_of(decision, data, sex), gains_of(decision, data, sex | by_period(data))
    assert among[0].low < alone[0].low
    assert among[0].high > alone[0].high


def test_small_groups_are_left_out_and_units_stay_whole(judged):
    data, decision = judged
    few = np.zeros(data.episodes, bool)
    few[:19] = True
    assert gains_of(decision, data, {("x", "few"): few}) == ()
    few[19] = True
    assert len(gains_of(decision, data, {("x", "few"): few})) == 1


def test_which_columns(judged):
    data, _ = judged
    assert [column.name for column in sensible_columns(data, {})] == ["sex", "health"]
    with pytest.raises(ValueError, match="subgroups: there is no column 'age'; choose from sex, health"):
        named_columns(data, ("age",))
    several = {name: np.tile(getattr(data, name)[:, 2:], 6) for name in ("observations", "final_observations")}
    many = replace(data, **several, observation_names=tuple("abcdef"), schema=None)
    assert [column.name for column in sensible_columns(many, {"e": 0.5, "b": 0.1})] == ["e", "b", "a", "c"]
    constant = log(30, 3)
    constant = constant.take(constant.observations[constant.starts[:-1], 0] == 1)
    assert [column.name for column in sensible_columns(constant, {})] == ["health"]


def test_gaps_and_ties_make_groups_of_their_own():
    episodes = 60
    dose = [0.0] * 40 + [1.0] * 10 + [None] * 10
    frame = pl.DataFrame({
        "episode": range(episodes), "step": [0] * episodes, "action": [0, 1] * 30, "reward": [1.0] * episodes,
        "propensity": [0.5] * episodes, "terminated": [True] * episodes, "obs_dose": dose, "obs_x": range(episodes),
    })  # fmt: skip
    data = sw.load(frame)
    groups = by_first_state(data, columns_of(data)[:1])
    assert {name: int(members.sum()) for (_, name), members in groups.items()} == {
        "dose ≤ 0": 40, "dose > 0": 10, "dose: missing": 10,
    }  # fmt: skip


def test_periods_are_quarters_of_units_in_the_order_of_the_log():
    episodes = 16
    data = sw.Dataset.from_episodes(
        observations=[[[float(e)]] for e in range(episodes)], actions=[[e % 2] for e in range(episodes)],
        rewards=[[1.0]] * episodes, propensities=[[0.5]] * episodes, terminated=[True] * episodes,
        units=[f"p{9 - e // 2}" for e in range(episodes)],
    )  # fmt: skip
    periods = list(by_period(data).values())
    assert [np.flatnonzero(members).tolist() for members in periods] == [
        list(range(first, first + 4)) for first in range(0, episodes, 4)
    ]
