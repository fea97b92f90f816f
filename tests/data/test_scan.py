"""A log read from files on disk is the log that `load` gives, whatever its order, and survives kills and damage."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.base import column
from statewise.data import scan as scanning
from statewise.data.device import row_table
from statewise.data.shards import ShardError

ROWS = ("observations", "actions", "rewards", "propensities", "distributions", "legal")
EPISODES = ("starts", "terminated", "final_observations", "episode_ids", "units", "loggers", "logged_by")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Shards of a hundred rows, and columns that count as long."""
    monkeypatch.setattr(scanning, "FEWEST", 100)
    monkeypatch.setattr(scanning, "MOST", 100)
    monkeypatch.setattr(column, "LONG", 200)


def table(episodes=60, seed=0):
    """Episodes of 5 to 20 decisions with numbers, words, gaps, final states, units, loggers and masks."""
    rng = np.random.default_rng(seed)
    frames = []
    for e in range(episodes):
        n = int(rng.integers(5, 20))
        chances = rng.dirichlet(np.ones(3), n)
        last = [None]
        frames.append(
            pl.DataFrame(
                {
                    "episode": [f"e{e * 7 % 61}"] * (n + 1),
                    "step": np.arange(n + 1),
                    "unit": [f"u{e // 3}"] * (n + 1),
                    "logger": [f"l{e // 25}"] * n + last,
                    "obs_x": rng.normal(size=n + 1),
                    "obs_ward": rng.choice(["a", "b", "c"], n + 1).tolist(),
                    "obs_lab": [None if rng.random() < 0.2 else float(v) for v in rng.normal(size=n + 1)],
                    "action": [*rng.integers(3, size=n).tolist(), *last],
                    "reward": [*rng.normal(size=n).tolist(), *last],
                    "terminated": [False] * (n - 1) + [bool(e % 2)] + [False],
                    **{f"propensity_{a}": [*chances[:, a].tolist(), *last] for a in range(3)},
                    **{f"legal_{a}": [True] * (n + 1) for a in range(3)},
                }
            )
        )
    return pl.concat(frames)


def in_files(frame, folder, files=3):
    folder.mkdir(exist_ok=True)
    size = -(-len(frame) // files)
    for i in range(files):
        frame[i * size : (i + 1) * size].write_parquet(folder / f"part-{i}.parquet")
    return folder


def same(scanned, loaded):
    for name in (*ROWS, *EPISODES):
        one, other = getattr(scanned, name), getattr(loaded, name)
        assert (one is None) == (other is None), name
        if other is not None:
            np.testing.assert_array_equal(np.asarray(one), other, err_msg=name)
    assert scanned.schema == loaded.schema
    assert scanned.horizon == loaded.horizon
    assert (scanned.action_names, scanned.observation_names) == (loaded.action_names, loaded.observation_names)
    assert scanned.fingerprint == loaded.fingerprint


@pytest.mark.parametrize("order", ["in order", "shuffled", "interleaved"])
def test_the_log_that_load_gives(order, tmp_path):
    frame = table()
    if order == "shuffled":
        frame = frame.sample(fraction=1.0, shuffle=True, seed=1)
    elif order == "interleaved":
        frame = frame.sort("step", maintain_order=True)
    scanned = sw.scan(in_files(frame, tmp_path / "log"), scratch=tmp_path / "scratch")
    loaded = sw.load(frame)
    same(scanned, loaded)
    assert isinstance(scanned.observations, column.Column)


def test_sources_of_all_kinds(tmp_path):
    frame, loaded = table(), sw.load(table())
    folder = in_files(frame, tmp_path / "log [1]")
    paths = sorted(folder.iterdir())
    for source in (folder, str(folder) + "/", paths, tmp_path / "log [[]1]" / "part-?.parquet"):
        same(sw.scan(source, scratch=tmp_path / "scratch"), loaded)


def test_faults_name_rows_of_the_whole_log(tmp_path):
    frame = table()
    decisions = np.flatnonzero(frame["action"].is_not_null().to_numpy())
    place = int(decisions[400])
    rewards = frame["reward"].to_list()
    rewards[place] = float("inf")
    frame = frame.with_columns(pl.Series("reward", rewards))
    with pytest.raises(sw.LogError, match=rf"reward: 1 row is not a finite number \(row {place}\)") as scanned:
        sw.scan(in_files(frame, tmp_path / "log"), scratch=tmp_path / "scratch")
    with pytest.raises(sw.LogError) as loaded:
        sw.load(frame)
    assert str(scanned.value) == str(loaded.value)
    assert scanned.value.faults[0].rows == (place,)


def heard(read):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read()
    return sorted(str(one.message) for one in caught)


def test_warnings_are_those_of_the_whole_log(tmp_path):
    frame = table().drop("obs_ward", "obs_lab").with_columns(pl.lit(2.0).alias("obs_same"))
    frame = frame.sort("step", maintain_order=True)
    folder = in_files(frame, tmp_path / "log")
    expected = heard(lambda: sw.load(frame))
    assert any("every row is 2" in one for one in expected)
    assert heard(lambda: sw.scan(folder, scratch=tmp_path / "scratch")) == expected
    assert heard(lambda: sw.scan(folder, scratch=tmp_path / "scratch")) == expected  # and when opened again


def test_episodes_must_begin_alike_in_all_shards(tmp_path):
    frame = table(20)
    lengths = frame.group_by("episode", maintain_order=True).len()
    begins = lengths["len"].cum_sum() - lengths["len"]
    names = lengths["episode"].filter(begins < 100)  # the first shard's; the others begin with 1
    frame = frame.with_columns(pl.col("step") + (~pl.col("episode").is_in(names.to_list())).cast(pl.Int64))
    with pytest.raises(sw.LogError, match="step"):
        sw.load(frame)
    with pytest.raises(sw.LogError, match="some episodes start at step 1, others at 0"):
        sw.scan(in_files(frame, tmp_path / "log"), scratch=tmp_path / "scratch")


def test_a_second_scan_opens_what_is_there(tmp_path):
    folder, stages = in_files(table(), tmp_path / "log"), []
    for _ in range(2):
        sw.scan(folder, scratch=tmp_path / "scratch", progress=lambda stage, *_: stages.append(stage))
    first_check = stages.index("checking shards")
    assert "reading shards" in stages[:first_check]
    assert set(stages[first_check:]) == {"checking shards"}


def test_other_contents_are_another_scan(tmp_path):
    folder = in_files(table(), tmp_path / "log")
    one = sw.scan(folder, scratch=tmp_path / "scratch")
    other = sw.scan(in_files(table(seed=1), folder), scratch=tmp_path / "scratch")
    assert one.fingerprint != other.fingerprint
    same(other, sw.load(table(seed=1)))


def test_damage_is_found(tmp_path):
    folder = in_files(table(), tmp_path / "log")
    sw.scan(folder, scratch=tmp_path / "scratch")
    (files,) = (tmp_path / "scratch").iterdir()
    with (files / "rewards").open("r+b") as file:
        file.seek(8 * json.loads((files / "shards.json").read_text())["shards"][0]["rows"])  # the next one's first
        file.write(b"\xff")
    with pytest.raises(ShardError, match="shard 1 of rewards was damaged"):
        sw.scan(folder, scratch=tmp_path / "scratch")


def _ended(script):
    return subprocess.run([sys.executable, "-c", script], env=os.environ, timeout=60).returncode


@pytest.mark.parametrize("order", [pytest.param("in order", marks=pytest.mark.long), "shuffled"])
def test_a_killed_scan_goes_on(order, tmp_path):
    """Killed at every fifth stage of its work, again and again, until it is done."""
    frame = table()
    frame = frame if order == "in order" else frame.sample(fraction=1.0, shuffle=True, seed=1)
    folder, scratch = in_files(frame, tmp_path / "log"), tmp_path / "scratch"
    script = textwrap.dedent(
        f"""
        import os, signal
        import statewise as sw
        from statewise.data import scan
        scan.FEWEST = scan.MOST = 100 + KILLS  # as if another amount of memory were given
        done = []
        def kill(*stage):
            done.append(stage)
            if len(done) == 5:
                os.kill(os.getpid(), signal.SIGKILL)
        sw.scan({str(folder)!r}, scratch={str(scratch)!r}, progress=kill)
        """
    )
    kills = 0
    while _ended(script.replace("KILLS", str(10 * kills))) == -signal.SIGKILL:
        kills += 1
        assert kills < 20
        (files,) = scratch.iterdir()
        with (files / "rewards").open("ab") as file:
            file.write(b"half a shard")  # as if the kill had come while it was written
    assert kills >= 2
    same(sw.scan(folder, scratch=scratch), sw.load(frame))


def test_no_files(tmp_path):
    with pytest.raises(sw.LogError, match=r"there are no \.parquet files"):
        sw.scan(tmp_path, scratch=tmp_path)
    with pytest.raises(sw.LogError, match="there is no such file"):
        sw.scan([tmp_path / "a.parquet"], scratch=tmp_path)
    for address in ("http://127.0.0.1:9/visits", "https://127.0.0.1:9/visits.csv"):  # port 9 is not asked
        with pytest.raises(sw.LogError, match=r"a web server does not list its files. Give the address of one \.parq"):
            sw.scan(address, scratch=tmp_path)
    with pytest.raises(ValueError, match="memory: expected 268 MB at least"):
        sw.scan(tmp_path, memory=1000)


def test_learners_draw_from_the_files_themselves(tmp_path):
    frame = table()
    scanned = sw.scan(in_files(frame, tmp_path / "log"), scratch=tmp_path / "scratch")
    one, other = row_table(scanned), row_table(sw.load(frame))
    np.testing.assert_array_equal(one.table, other.table)
    mapped = {line.split()[0] for line in Path("/proc/self/maps").read_text().splitlines() if "deleted" in line}
    place = one.table.unsafe_buffer_pointer()  # in a file that has no name any more, and not in a copy
    assert any(int(first, 16) <= place < int(last, 16) for first, last in (one.split("-") for one in mapped))
