"""Commands that are killed again and again end with the bytes of those that never were."""

import sys

import numpy as np
import polars as pl
import pytest

from kills import survives
from logs import make, simulated
from statewise.policies.network import Policy

SMALL = (
    "import sys; sys.path.insert(0, {tests!r}); "
    "import small; from pytest import MonkeyPatch; small.defaults(MonkeyPatch())"
)
SHARDS = "from statewise.data import scan; scan.FEWEST = scan.MOST = 300"
pytestmark = pytest.mark.long


def started(before, *arguments):
    """The command line in a process of its own, after some settings were made small."""
    return [sys.executable, "-c", f"{before}; from statewise.cli import main; main()", *map(str, arguments)]


def test_improve_survives_20_kills(tmp_path, pytestconfig):
    simulated(80, 8).save(tmp_path / "log.parquet")
    before = SMALL.format(tests=str(pytestconfig.rootpath / "tests"))
    (tmp_path / "plan.toml").write_text('beside = ["fitted-q"]\n')
    options = (
        "--algorithm",
        "behaviour-cloning",
        "--updates",
        "30",
        "--seeds",
        "2",
        "--config",
        tmp_path / "plan.toml",
    )
    survives(
        lambda out: started(before, "improve", tmp_path / "log.parquet", *options, "--out", out),
        tmp_path / "run",
        tmp_path / "killed" / "run",
    )


def test_certify_survives_20_kills(tmp_path):
    data = simulated(200, 8)
    data.save(tmp_path / "log.parquet")
    policy_of(data).save(tmp_path / "policy.safetensors")
    given = (tmp_path / "policy.safetensors", tmp_path / "log.parquet", "--out")
    survives(
        lambda out: started("pass", "certify", *given, out / "deploy.safetensors"),
        tmp_path / "whole",
        tmp_path / "killed",
    )


def test_a_scan_survives_20_kills(tmp_path):
    """Rows of an episode do not lie side by side, so that they are dealt out to files first."""
    make([15] * 400).save(tmp_path / "log.parquet")
    rows = pl.read_parquet(tmp_path / "log.parquet").sort("step", maintain_order=True)
    (tmp_path / "log").mkdir()
    for number in range(6):
        rows[number * 1000 : (number + 1) * 1000].write_parquet(tmp_path / "log" / f"{number}.parquet")
    survives(
        lambda out: started(SHARDS, "inspect", tmp_path / "log", "--scratch", out),
        tmp_path / "whole",
        tmp_path / "killed",
    )


def policy_of(data):
    weights = 3 * np.eye(3)[:, [1, 0, 2]]
    return Policy((weights,), (np.zeros(3),), np.zeros(3), np.ones(3), data.observation_names, ("0", "1", "2"), {})
