"""A folder of Parquet files is one log, for every command that takes a log, and gives what one file does."""

import json

import numpy as np
import polars as pl
import pytest

from logs import simulated
from statewise.base import column
from statewise.data import scan
from statewise.policies.network import Policy


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A log in one file, and in a folder of three; shards are small, and columns long."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(scan, "FEWEST", 300)
    monkeypatch.setattr(scan, "MOST", 300)
    monkeypatch.setattr(column, "LONG", 400)
    data = simulated(80, 12)
    data.save(tmp_path / "log.parquet")
    frame = pl.read_parquet(tmp_path / "log.parquet")
    (tmp_path / "log").mkdir()
    for i in range(3):
        frame[i * 320 : (i + 1) * 320].write_parquet(tmp_path / "log" / f"{i}.parquet")
    weights = np.random.default_rng(0).normal(size=(3, 3))
    Policy((weights,), (np.zeros(3),), np.zeros(3), np.ones(3), data.observation_names, ("0", "1", "2"), {}).save(
        tmp_path / "policy.safetensors"
    )
    return tmp_path


def answer(statewise, *arguments):
    code, out, err = statewise(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_inspect(folder, statewise):
    one, other = (answer(statewise, "inspect", folder / name) for name in ("log.parquet", "log"))
    assert one["summary"]["fingerprint"] == other["summary"]["fingerprint"]
    for of in (one, other):
        of.pop("log")
        for numbers in of["summary"]["observations"].values():
            for name in ("mean", "std"):  # rows are summed in another order
                numbers[name] = pytest.approx(numbers[name], rel=1e-12)
    assert other == one
    assert (folder / "cache" / "statewise" / "scans").is_dir()


def test_evaluate(folder, statewise):
    policy, usual = folder / "policy.safetensors", ("--estimator", "doubly-robust-state-ratio")
    one = answer(statewise, "evaluate", policy, folder / "log.parquet", *usual)
    other = answer(statewise, "evaluate", policy, folder / "log", "--scratch", folder / "here", "--memory", "1GB")
    assert (folder / "here").is_dir()
    assert [estimate["estimator"] for estimate in other["estimates"]] == ["behaviour", "doubly-robust-state-ratio"]
    for estimate, scanned in zip(one["estimates"], other["estimates"], strict=True):
        for number in ("value", "low", "high"):
            assert scanned[number] == pytest.approx(estimate[number], rel=1e-6)
    assert other["gate"]["answer"] == one["gate"]["answer"]


@pytest.mark.parametrize("size", ["8", "1KB", "much", "-3GB"])
def test_sizes(size, folder, statewise):
    code, _, err = statewise("inspect", folder / "log", "--memory", size)
    assert code == 2
    assert "expected a size of 300MB or more" in err


def test_faults_end_in_a_sentence(folder, statewise):
    frame = pl.read_parquet(folder / "log" / "1.parquet")
    frame.with_columns(pl.lit(-1.0).alias("reward") / 0).write_parquet(folder / "log" / "1.parquet")
    code, out, _ = statewise("inspect", folder / "log")
    assert code == 2
    assert "not finite numbers" in out
    (folder / "empty").mkdir()
    code, out, _ = statewise("inspect", folder / "empty")
    assert code == 2
    assert "it is a folder" in " ".join(out.split())


@pytest.mark.long
def test_improve(folder, statewise):
    small = ("--algorithm", "behaviour-cloning", "--updates", "5", "--seeds", "1", "--config", folder / "small.toml")
    (folder / "small.toml").write_text("beside = []\n")
    one, other = (
        answer(statewise, "improve", folder / name, *small, "--out", folder / f"run {name}")
        for name in ("log.parquet", "log")
    )
    assert other["answer"] == one["answer"]
    assert other["goal"]["value"] == pytest.approx(one["goal"]["value"], rel=1e-6)
    for tested, expected in zip(other["tried"], one["tried"], strict=True):
        assert tested["step"] == expected["step"]
        assert tested["at_least"] == pytest.approx(expected["at_least"], rel=1e-6)
    assert (folder / "run log" / "report.html").is_file()


def test_certify(folder, statewise):
    policy, more = folder / "policy.safetensors", ("--scratch", folder / "here", "--memory", "1GB")
    one = answer(statewise, "certify", policy, folder / "log.parquet")
    other = answer(statewise, "certify", policy, folder / "log", *more)
    assert (folder / "here").is_dir()
    assert (other["answer"], other["step"]) == (one["answer"], one["step"])
    assert other["gain"] == pytest.approx(one["gain"], rel=1e-6)
