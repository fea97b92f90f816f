"""What it means that episodes were cut off, and how far their value counts: against answers known otherwise."""

from dataclasses import replace

import numpy as np
import pytest

import statewise as sw
from statewise.data import horizon
from statewise.data.augment import pad, smooth
from statewise.data.discount import discount_of, suggested
from statewise.data.episodes import from_arrays
from statewise.data.horizon import (
    RECORDED,
    Horizon,
    beyond,
    moved_by_records,
    nothing_follows,
    recorded_weight,
    sentence,
    still_recorded,
)
from statewise.data.table import to_frame
from statewise.propensities.estimate import estimate_propensities


def log(lengths, terminated, **more) -> sw.Dataset:
    """Episodes of those lengths; every row earns 1 and was a coin flip."""
    rng = np.random.default_rng(0)
    return sw.Dataset.from_episodes(
        observations=[rng.normal(size=(n, 1)) for n in lengths],
        actions=[rng.integers(2, size=n) for n in lengths],
        rewards=[np.ones(n) for n in lengths],
        distributions=[np.full((n, 2), 0.5) for n in lengths],
        terminated=list(terminated),
        **more,
    )


LIVES = np.repeat(np.arange(1, 8), [32, 16, 8, 4, 2, 1, 1])  # half of those that are left end at every step
RECORDS = np.arange(1, 6)  # each life is recorded for 1, 2, … 5 steps: no chance in it, so that all shares are exact


@pytest.fixture(scope="module")
def censored() -> sw.Dataset:
    life, record = (each.ravel() for each in np.meshgrid(LIVES, RECORDS))
    return log(np.minimum(life, record), life <= record)


def test_kaplan_and_meier_find_the_exact_chances(censored):
    recorded, living = still_recorded(censored, 5)
    assert recorded == pytest.approx([1, 0.8, 0.6, 0.4, 0.2, 0])
    assert living == pytest.approx([1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32])


def test_weighted_rows_stand_for_all_lives(censored):
    """Σ weight at step t = the lives that reach t, with what is recorded of a fifth of them at the last."""
    assert censored.horizon == Horizon("censored", 5)
    weight = recorded_weight(censored)
    total = np.bincount(censored.time, weight, minlength=5)
    reached = [len(RECORDS) * np.sum(t < LIVES) for t in range(5)]
    assert total == pytest.approx(reached)
    assert weight.max() == pytest.approx(1 / 0.2)
    # the same of those that end there: the hazard is not changed by the weights
    ended = np.zeros(len(censored), bool)
    ended[censored.starts[1:] - 1] = censored.terminated
    at = np.bincount(censored.time[ended], weight[ended], minlength=5)
    assert at == pytest.approx([len(RECORDS) * np.sum(t + 1 == LIVES) for t in range(5)])


def test_geometric_lives_cut_off_at_random_have_their_true_mean():
    """T ~ geometric(q), records uniform on 1 … 40: E[min(T, H)] = (1 − (1 − q)ᴴ)/q, whatever was cut off."""
    rng = np.random.default_rng(0)
    q, n = 0.1, 4000
    life, record = rng.geometric(q, n), rng.integers(1, 41, n)
    data = log(np.minimum(life, record), life <= record)
    steps = data.horizon.steps
    assert abs(steps - 36) <= 4  # P(record > t) = 1 − t/40 falls below RECORDED after 36; few live so long
    estimate = recorded_weight(data).sum() / n
    truth = (1 - (1 - q) ** steps) / q
    error = truth / np.sqrt(n)  # of n lives seen whole; weights make it somewhat more
    assert abs(estimate - truth) < 4 * error
    assert data.returns().mean() < truth - 10 * error  # what the records alone would say
    assert beyond(data, 1.0) == pytest.approx((1 - q) ** steps, abs=0.02)
    assert beyond(data, 0.9) == pytest.approx(beyond(data, 1.0) * 0.9**steps)


def test_kaplan_and_meier_against_a_loop():
    rng = np.random.default_rng(1)
    lengths, terminated = rng.integers(1, 12, 60), rng.random(60) < 0.6
    data, steps = log(lengths, terminated), 9
    recorded, living = [1.0], [1.0]
    for t in range(steps):
        here = [(n, ended) for n, ended in zip(lengths, terminated, strict=True) if n > t]
        ends = sum(n == t + 1 and ended for n, ended in here)
        stops = sum(n == t + 1 and not ended for n, ended in here)
        living.append(living[-1] * (1 - ends / len(here)))
        recorded.append(recorded[-1] * (1 - stops / (len(here) - ends) if len(here) > ends else 1))
    for mine, loop in zip(still_recorded(data, steps), (recorded, living), strict=True):
        assert mine == pytest.approx(loop)


@pytest.mark.parametrize(("cut_off", "steps"), [("censored", None), ("censored", 4), ("continuing", 6)])
def test_what_episodes_move_through_the_chance_to_be_recorded(cut_off, steps):
    """Against leaving each of them out in turn."""
    rng = np.random.default_rng(5)
    life, record = rng.geometric(0.15, size=400), rng.integers(1, 9, size=400)
    data = log(np.minimum(life, record), life <= record)
    steps = data.horizon.steps if steps is None else steps
    data = replace(data, rewards=rng.normal(1.0 + data.time, 1.0), ends=Horizon(cut_off, steps))

    def mean(some: sw.Dataset) -> float:
        return float((recorded_weight(some) * some.rewards).sum() / some.episodes)

    counted = recorded_weight(data) * data.rewards
    moved = moved_by_records(data, counted)
    assert moved.mean() == pytest.approx(0.0, abs=1e-12)
    each = np.add.reduceat(counted, data.starts[:-1])
    found = each + moved - each.mean()
    left_out = [replace(data.take(np.arange(400) != one), ends=data.ends) for one in range(0, 400, 8)]
    assert all(some.horizon == data.horizon for some in left_out)
    expected = [399 * (mean(data) - mean(some)) for some in left_out]
    np.testing.assert_allclose(found[::8], expected, rtol=0.05, atol=0.05 * found.std())
    assert found.std() < 0.9 * each.std()


def test_nothing_moves_where_nothing_is_missing():
    whole = log([3, 3, 2], [False, False, True])
    assert whole.horizon.cut_off == "limit"
    np.testing.assert_array_equal(moved_by_records(whole, whole.rewards), 0.0)


def test_one_limit_is_a_limit():
    data = log([3, 20, 20, 20, 7], [True, False, False, False, True])
    assert data.horizon == Horizon("limit", 20)
    assert (recorded_weight(data) == 1).all()
    assert np.flatnonzero(nothing_follows(data)).tolist() == (data.starts[1:] - 1).tolist()
    assert sentence(data, 1.0) == "Episodes are cut off at step 20, the limit: the value counts up to it."


def test_all_that_end_by_themselves():
    data = log([3, 5, 1], [True] * 3)
    assert data.horizon == Horizon(None, 5)
    assert (recorded_weight(data) == 1).all()
    assert beyond(data, 1.0) == 0
    assert "ends by itself" in sentence(data, 1.0)


@pytest.mark.parametrize("ends", [True, False])
def test_logs_of_one_step(ends):
    data = log([1] * 6, [ends] * 6)
    assert data.horizon == Horizon(None if ends else "limit", 1)
    assert recorded_weight(data).tolist() == [1.0] * 6
    assert nothing_follows(data).all()
    assert discount_of(data, None) == 1
    assert log([1], [ends]).horizon.steps == 1


def test_records_that_stop_before_the_horizon_are_missing_from_it():
    """Of ten episodes three are recorded for 2 steps, the others for 4; none ends."""
    data = log([2] * 3 + [4] * 7, [False] * 10)
    assert data.horizon == Horizon("continuing", 4)
    weight = recorded_weight(data)
    assert weight[data.time == 0].tolist() == [1.0] * 10
    assert weight[data.time == 1] == pytest.approx([0] * 3 + [10 / 7] * 7)
    assert weight[data.time == 3] == pytest.approx([10 / 7] * 7)
    assert beyond(data, 0.5) == pytest.approx(0.5**4)
    assert (weight[~nothing_follows(data) & (np.append(data.time[1:], 0) == 0)] == 0).all()


def test_few_records_do_not_carry_the_horizon():
    """Weights are 1/`RECORDED` at most: one record in a hundred goes beyond step 5."""
    data = log([5] * 99 + [50], [False] * 100)
    assert data.horizon == Horizon("continuing", 5)
    assert recorded_weight(data).max() <= 1 / RECORDED
    assert log([5] * 89 + [50] * 11, [False] * 100).horizon.steps == 50


@pytest.mark.parametrize("cut_off", ["limit", "censored", "continuing"])
def test_the_owner_knows_better(cut_off):
    assert log([20] * 4 + [3], [False] * 4 + [True], cut_off=cut_off).horizon == Horizon(cut_off, 20)


def test_limits_of_their_own_are_ends():
    """Where the owner says so, nothing is missing from episodes of different lengths, and nothing follows them."""
    data = log([2] * 3 + [4] * 7, [False] * 10, cut_off="limit")
    assert data.horizon == Horizon("limit", 4)
    assert (recorded_weight(data) == 1).all()
    assert nothing_follows(data).sum() == 10
    assert "limits of their own" in sentence(data, 1.0)


def test_a_horizon_shorter_than_the_records():
    data = log([20] * 4 + [3], [False] * 4 + [True], horizon=10)
    assert data.horizon == Horizon("limit", 10)
    assert (recorded_weight(data) == (data.time < 10)).all()
    assert nothing_follows(data)[data.time < 10].sum() == 5
    assert sentence(data, 1.0) == "The value counts up to step 10, the horizon that was given."
    ended = log([20, 3], [True, True], horizon=10)  # no record stops, but the value counts no further
    assert ended.horizon == Horizon("limit", 10)
    # the owner's limit is one, even where every episode ends before it
    assert log([20, 3], [True, True], horizon=20).horizon == Horizon("limit", 20)


def test_a_horizon_longer_than_the_records():
    data = log([20] * 4, [False] * 4, horizon=100)
    assert data.horizon == Horizon("continuing", 20)
    assert "up to step 20 of 100" in sentence(data, 0.98)


def test_a_horizon_that_some_records_do_not_reach():
    data = log([2] * 3 + [9] * 7, [False] * 10, horizon=4)
    assert data.horizon == Horizon("continuing", 4)
    assert recorded_weight(data)[data.time < 4].sum() == pytest.approx(10 + 10 + 10 + 10)


def test_parts_keep_the_reading_of_the_whole():
    """A part with one cut-off episode alone would show a limit where the whole shows none."""
    data = log([2, 5, 7, 4, 3, 3], [False, False, False, True, True, True])
    assert data.horizon.cut_off == "censored"
    part = data.take(np.array([1, 3]))
    assert replace(part, ends=None).horizon.cut_off == "limit"
    assert part.horizon == Horizon("censored", 5)
    assert part.take(np.array([1])).horizon.cut_off == "censored"
    limited = log([9, 9, 4], [False, False, True])
    assert [each.horizon.cut_off for each in limited.split(0.5)] == ["limit", "limit"]


def test_sentences_of_records_that_stop(censored):
    assert sentence(censored, 1.0) == (
        "The record of 19 % of the episodes stops before they end: rows are weighted by the chance of still being "
        "recorded, and the value counts up to step 5, the last that enough records reach; 3.1 % of the episodes go on "
        "beyond it."
    )
    going_on = log([4, 9, 9, 9], [True, False, False, False], cut_off="continuing")
    assert sentence(going_on, 0.9).startswith("Episodes go on beyond their records (75 % were cut off): rows are")
    assert sentence(going_on, 0.9).endswith("29 % of the discounted future lies beyond it.")  # ¾ · .9⁹


# From the owner to the Dataset

SAID = Horizon("censored", 3)


@pytest.fixture(scope="module")
def said() -> sw.Dataset:
    return log([2, 4, 5, 3] * 6, [True, False, True, False] * 6, cut_off="censored", horizon=3)


def test_every_way_in_asks_the_owner(said, tmp_path):
    frame = to_frame(said)
    frame.write_csv(tmp_path / "log.csv")
    owner = {"cut_off": "censored", "horizon": 3}
    ends = np.isin(np.arange(len(said)), said.starts[1:] - 1)
    flat = from_arrays(
        said.observations,
        said.actions,
        said.rewards,
        terminals=np.repeat(said.terminated, said.lengths) & ends,
        timeouts=ends,
        distributions=said.distributions,
        **owner,
    )
    for data in (said, flat, sw.load(frame, **owner), sw.load(tmp_path / "log.csv", **owner)):
        assert data.ends == SAID
        assert data.fingerprint == said.fingerprint
    assert sw.load(frame).ends is None
    assert sw.load(frame).fingerprint != said.fingerprint


def test_parquet_keeps_what_the_owner_said(said, tmp_path):
    said.save(tmp_path / "log.parquet")
    assert sw.load(tmp_path / "log.parquet").ends == SAID
    assert sw.load(tmp_path / "log.parquet", horizon=2).ends == Horizon("censored", 2)
    assert sw.load(tmp_path / "log.parquet", cut_off="limit").ends == Horizon("limit", 3)
    log([2, 3], [True, False]).save(tmp_path / "plain.parquet")
    assert sw.load(tmp_path / "plain.parquet").ends is None


def test_no_conversion_loses_it(said):
    some = np.array([[1.0, 0.0], [0.5, 0.5]])
    part = replace(said, distributions=some[said.actions], propensities=some[said.actions, said.actions])
    assert pad(said, 9).ends == SAID
    assert smooth(part, 0.2).dataset.ends == SAID
    assert estimate_propensities(said, "logistic").ends == SAID


def test_what_an_owner_cannot_say(said):
    with pytest.raises(ValueError, match="cut_off: expected one of limit, censored, continuing, got 'limits'"):
        horizon.said("limits", None)
    with pytest.raises(ValueError, match="horizon: expected a number of steps, at least 1, got 0"):
        sw.load(to_frame(said), horizon=0)
    with pytest.raises(ValueError, match="horizon: expected a number of steps, at least 1, got -1"):
        log([2], [True], horizon=-1)


# γ


def test_the_rule_for_the_discount():
    """docs/choosing.md has it in words."""
    for expected, data in (
        (1, log([3, 9, 4], [True, True, True])),
        (1, log([3, 9, 4, 5], [True, True, False, False])),  # half end by themselves
        (0.98, log([3, 9, 4, 5], [True, False, False, False])),
        (1, log([3, 60, 60, 60], [True, False, False, False])),  # one limit, and one ends before it
        (1, log([50, 50], [False, False])),  # a short limit
        (0.98, log([51, 51], [False, False])),
        (0.98, log([50, 50], [False, False], cut_off="continuing")),
        (1, log([51, 51], [False, False], horizon=50)),
    ):
        assert suggested(data).discount == expected
        assert discount_of(data, None) == expected
        assert discount_of(data, 0.5) == 0.5


def test_a_clinic_whose_episodes_were_mostly_cut_off():
    """800 episodes of different lengths, 82 of them terminated: they go on, whatever the earliest of them do."""
    rng = np.random.default_rng(0)
    data = log(rng.integers(5, 60, 800), np.arange(800) < 82)
    assert data.horizon.cut_off == "continuing"
    assert suggested(data) == (0.98, "most episodes were cut off before they ended, and not at one limit")
