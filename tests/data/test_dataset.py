"""Dataset: ragged, immutable, split by whole episodes or units."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import statewise as sw
from logs import make
from statewise.data.device import device_log
from statewise.data.findings import LogWarning
from statewise.data.table import to_frame


def test_rows_and_episodes():
    data = make([2, 1, 3], final=[True, False, True])
    assert len(data) == 6
    assert data.lengths.tolist() == [2, 1, 3]
    assert data.time.tolist() == [0, 1, 0, 0, 1, 2]
    assert data.episode_of_step.tolist() == [0, 0, 1, 2, 2, 2]
    assert data.has_final_observation.tolist() == [True, False, True]
    assert data.final_observations[0, 0] == 2
    assert data.observations[2, 0] == 3
    assert data.terminated.tolist() == [True, False, True]
    assert data.truncated.tolist() == [False, True, False]


def test_propensity_is_the_taken_actions_share_of_the_distribution():
    data = make([4, 2])
    for i in range(len(data)):
        assert data.propensities[i] == data.distributions[i, data.actions[i]]


def test_returns_against_a_loop():
    data = make([3, 1, 5])
    for e in range(3):
        rewards = data.rewards[data.starts[e] : data.starts[e + 1]]
        expected = sum(0.9**t * r for t, r in enumerate(rewards))
        assert data.returns(0.9)[e] == pytest.approx(expected, rel=1e-12)


def test_it_cannot_be_changed():
    data = make([2, 2])
    with pytest.raises(ValueError, match="read-only"):
        data.rewards[0] = 5.0
    with pytest.raises(AttributeError):
        data.rewards = np.zeros(4)
    for derived in (data.lengths, data.time, data.episode_of_step, data.observations, data.starts):
        with pytest.raises(ValueError, match="read-only"):
            derived[0] = 1


def test_it_prints_its_shapes():
    text = repr(make([2, 3]))
    assert "2 episodes, 5 steps" in text
    assert "float64[5, 2]" in text
    assert "1 terminated, 1 truncated" in text


@settings(deadline=None, max_examples=30, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    lengths=st.lists(st.integers(1, 6), min_size=3, max_size=20),
    fractions=st.sampled_from([(0.7,), (0.5,), (0.1,), (0.95,), (0.5, 0.25), (0.34, 0.33)]),
    seed=st.integers(0, 5),
)
def test_split_parts_hold_every_episode_once(lengths, fractions, seed):
    data = make(lengths)
    parts = data.split(*fractions, seed=seed)
    assert len(parts) == len(fractions) + 1
    assert all(part.episodes >= 1 for part in parts)
    assert sorted(np.concatenate([part.episode_ids for part in parts])) == list(range(len(lengths)))
    for part in parts:
        for e, original in enumerate(part.episode_ids):
            rows = slice(data.starts[original], data.starts[original + 1])
            np.testing.assert_array_equal(
                part.observations[part.starts[e] : part.starts[e + 1]], data.observations[rows]
            )
            np.testing.assert_array_equal(part.final_observations[e], data.final_observations[original])


def test_split_keeps_units_whole():
    units = [e // 3 for e in range(30)]
    train, held_out = make([2] * 30, units=units).split(0.7, seed=1)
    assert not set(train.units) & set(held_out.units)
    assert len(set(train.units)) == 7


def test_split_of_too_few_is_refused():
    with pytest.raises(ValueError, match="1 unit cannot be split into 2 parts"):
        make([2, 2], units=["p", "p"]).split(0.5)
    with pytest.raises(ValueError, match="sum to less than 1"):
        make([2, 2]).split(0.6, 0.6)


def test_take_may_repeat():
    data = make([2, 1, 3])
    twice = data.take(np.array([2, 2, 0]))
    assert twice.lengths.tolist() == [3, 3, 2]
    np.testing.assert_array_equal(twice.rewards[:3], data.rewards[3:6])
    np.testing.assert_array_equal(twice.rewards[3:6], data.rewards[3:6])
    masked = data.take(np.array([False, True, True]))
    assert masked.episode_ids.tolist() == [1, 2]


def test_rows_lead_to_their_next_states():
    data = make([2, 1, 3], final=[True, False, True])
    rows = device_log(data, discount=0.9).rows.take(jnp.arange(6))
    # the first column counts logged states; the second episode's final state is not logged, so its last repeats
    assert rows.next_state[:, 0].tolist() == [1, 2, 3, 5, 6, 7]
    assert rows.last.tolist() == [0, 1, 1, 0, 0, 1]
    assert rows.onward.tolist() == [1, 0, 0, 1, 1, 0]
    assert rows.usable.tolist() == [1, 1, 0, 1, 1, 1]
    assert rows.action.tolist() == data.actions.tolist()
    np.testing.assert_allclose(rows.reward, data.rewards, rtol=1e-6)
    np.testing.assert_allclose(rows.propensity, data.propensities, rtol=1e-6)


def test_masks_reach_the_device():
    data = make([3, 2])
    legal = np.random.default_rng(0).random((5, 3)) < 0.5
    masked = dataclasses.replace(data, legal=legal)
    rows = device_log(masked, discount=0.9).rows.take(jnp.arange(5))
    np.testing.assert_array_equal(rows.legal, legal)
    np.testing.assert_array_equal(masked.take(np.array([1])).legal, legal[3:])


def test_draws_of_starts_and_ends():
    data = make([2, 1, 3])  # the first and the last terminate
    log = device_log(data, discount=0.9)
    ends = log.draw_terminal(jax.random.key(0), 200)[:, 0]
    assert set(ends.tolist()) == {2.0, 8.0}
    starts = log.draw_initial(jax.random.key(0), 200)[:, 0]
    assert set(starts.tolist()) == {0.0, 3.0, 5.0}
    # t = −1 beside t = 0, 1, …, each with weight γᵗ⁺¹, over all episodes
    later = sum(0.9 ** (t + 1) for n in (2, 1, 3) for t in range(n))
    assert float(log.first_share) == pytest.approx(3 / (3 + later), rel=1e-6)


def test_truncated_rows_with_a_logged_final_state_go_on():
    rows = device_log(make([2, 2]), discount=0.9).rows.take(jnp.arange(4))
    assert rows.onward.tolist() == [1, 0, 1, 1]
    assert rows.usable.tolist() == [1, 1, 1, 1]


def test_whole_episodes_are_drawn_with_their_masks():
    data = make([2, 1, 4])
    rows, valid = device_log(data, discount=0.9).draw_episodes(jax.random.key(0), 50)
    lengths = np.asarray(valid).sum(axis=1)
    assert set(lengths) == {2, 1, 4}
    for e in range(50):
        first = {2: 0, 1: 2, 4: 3}[int(lengths[e])]
        seen = rows.state[e, : lengths[e], 0]
        np.testing.assert_allclose(seen, data.observations[first : first + lengths[e], 0])


def test_missing_propensities_are_never_made_up():
    data = make([30])
    without = sw.load(_frame_without_propensities(data), propensity="estimate")
    with pytest.raises(
        ValueError, match="the log has no propensities: log them, or estimate them with `estimate_propensities`"
    ):
        device_log(without, discount=0.9)


def _frame_without_propensities(data):
    from statewise.data.table import to_frame

    frame = to_frame(data.take(np.array([0, 0])))
    return frame.drop([name for name in frame.columns if name.startswith("propensity")]).with_columns(
        episode=np.repeat([0, 1], 31)
    )


def test_ragged_columns_are_refused_in_words():
    with pytest.raises(
        sw.LogError, match=r"rewards: expected length 2, got 1 \(episode 0\)\. Give one entry per action"
    ):
        sw.Dataset.from_episodes(
            observations=[[[0.0], [1.0]]],
            actions=[[0, 1]],
            rewards=[[1.0]],
            propensities=[[0.5, 0.5]],
            terminated=[True],
        )
    with pytest.raises(sw.LogError, match=r"an episode has no decisions \(episode 1\)"):
        sw.Dataset.from_episodes(
            observations=[[[0.0]], []],
            actions=[[0], []],
            rewards=[[1.0], []],
            propensities=[[1.0], []],
            terminated=[1, 0],
        )
    with pytest.raises(
        sw.LogError, match=r"terminated: expected booleans, got text such as 'False'\. Give one True or"
    ):
        sw.Dataset.from_episodes(
            observations=[[[0.0]]], actions=[[0]], rewards=[[1.0]], propensities=[[1.0]], terminated=["False"]
        )
    with pytest.raises(sw.LogError, match="observation_names: expected 2 different names, got 1"):
        sw.Dataset.from_episodes(
            observations=[[[0.0, np.nan]]],
            actions=[[0]],
            rewards=[[1.0]],
            propensities=[[1.0]],
            terminated=[True],
            observation_names=["a"],
        )
    with pytest.raises(
        sw.LogError, match=r"propensities: expected arrays of shape \[steps\], got \(1, 1\) \(episode 0\)"
    ):
        sw.Dataset.from_episodes(
            observations=[[[0.0]]], actions=[[0]], rewards=[[1.0]], propensities=[[[1.0]]], terminated=[True]
        )
    with pytest.raises(sw.LogError, match="there are no episodes"):
        sw.Dataset.from_episodes(observations=[], actions=[], rewards=[], propensities=[], terminated=[])
    with pytest.raises(sw.LogError, match="neither propensities nor distributions"):
        sw.Dataset.from_episodes(observations=[[[0.0]]], actions=[[0]], rewards=[[1.0]], terminated=[True])


def test_d3rlpy_arrays_round_trip():
    data = make([2, 1, 3], final=[False] * 3)
    arrays = sw.to_arrays(data)
    assert arrays["terminals"].tolist() == [False, True, False, False, False, True]
    assert arrays["timeouts"].tolist() == [False, False, True, False, False, False]
    back = sw.from_arrays(**arrays)
    np.testing.assert_array_equal(back.starts, data.starts)
    np.testing.assert_array_equal(back.observations, data.observations)
    np.testing.assert_array_equal(back.terminated, data.terminated)
    np.testing.assert_array_equal(back.propensities, data.propensities)


def test_flat_masks_and_units_are_cut_like_the_rest():
    data = sw.from_arrays(
        np.arange(4.0),
        [[0], [1], [0], [1]],
        [0.0] * 4,
        [0, 1, 0, 1],
        propensities=[0.5] * 4,
        legal=np.ones((4, 2)),
        units=["p", "p", "q", "q"],
    )
    assert data.units.tolist() == ["p", "q"]
    assert data.legal.shape == (4, 2)
    with pytest.raises(sw.LogError, match="timeouts: expected length 4, got 2"):
        sw.from_arrays(np.arange(4.0), [0] * 4, [0.0] * 4, [0] * 4, [0, 0], propensities=[0.5] * 4)


def test_d3rlpy_arrays_that_stop_midway_are_an_episode_cut_off():
    back = sw.from_arrays(
        np.zeros((4, 1)) + np.arange(4)[:, None],
        [0, 1, 0, 1],
        [0.0] * 4,
        [0, 1, 0, 0],
        propensities=[0.5] * 4,
    )
    assert back.lengths.tolist() == [2, 2]
    assert back.terminated.tolist() == [True, False]


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_final_states_are_taken_out_whatever_the_chunk(chunk, monkeypatch):
    from statewise.data import build
    from statewise.data.table import to_frame

    data = make([4, 1, 6, 2], final=[True, False, True, True])
    monkeypatch.setattr(build, "CHUNK", chunk)
    assert sw.load(to_frame(data)).fingerprint == data.fingerprint


def test_what_load_would_warn_of_is_told_of_arrays_too():
    """Here the action that was never taken, the constant column and the single episode."""
    columns = {"observations": [[1.0], [1.0]], "actions": [0, 0], "rewards": [0.0, 1.0], "propensities": [0.5, 0.5]}
    lists = {name: [column] for name, column in columns.items()}
    with pytest.warns(LogWarning) as told:
        data = sw.Dataset.from_episodes(**lists, terminated=[True], action_count=2)
    with pytest.warns(LogWarning) as loaded:
        sw.load(to_frame(data), actions=2)
    assert [str(w.message).partition(": ")[2] for w in told] == [str(w.message).partition(": ")[2] for w in loaded]
    assert len(told) == 3
    with pytest.warns(LogWarning, match="never taken"):
        sw.from_arrays(**columns, terminals=[0, 1], action_count=2)
