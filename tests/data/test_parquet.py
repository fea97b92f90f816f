"""Parquet under fire: damage is found, sizes are believed only within bounds, and odd columns are answered in words."""

import datetime
import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from logs import make
from statewise.base.memory import in_words, memory_of_machine
from statewise.data import parquet
from statewise.data.formats import ACTIONS_KEY, HORIZON_KEY
from statewise.data.table import read, save, to_frame

LOG = make([2, 1, 3] * 10, units=["p", "q", "r"] * 10)


def test_a_flipped_bit_anywhere_is_found(tmp_path):
    path = tmp_path / "log.parquet"
    save(LOG, path)
    whole = path.read_bytes()
    assert read(path)[0].fingerprint == LOG.fingerprint
    rng, refused = np.random.default_rng(0), 0
    for place in range(0, len(whole), 97):
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        dataset, findings = read(path)
        refused += dataset is None
        # one that hits the sum's own name leaves a file without a sum, in which nothing else has changed
        assert dataset is None or dataset.fingerprint == LOG.fingerprint, (place, findings.items)
    assert refused > 0.97 * len(range(0, len(whole), 97))


def test_files_of_others_carry_no_sum_and_files_written_again_are_told(tmp_path):
    path = tmp_path / "log.parquet"
    to_frame(LOG).write_parquet(path)
    assert not read(path)[1].items
    save(LOG, path)
    again = pl.read_parquet_metadata(path)
    to_frame(LOG).with_columns(more=1).write_parquet(path, metadata={parquet.CHECKSUM_KEY: again[parquet.CHECKSUM_KEY]})
    dataset, findings = read(path)
    assert dataset.fingerprint == LOG.fingerprint
    assert findings.warnings[0].problem.startswith("its checksum is that of another file")


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        (ACTIONS_KEY, "50000000", "or their number from 1 to 10,000, got 50000000"),
        (ACTIONS_KEY, "0", "expected different names of actions, or their number"),
        (ACTIONS_KEY, "true", "expected different names of actions, or their number"),
        (ACTIONS_KEY, '["a", 1, "c"]', "expected different names of actions, or their number"),
        (ACTIONS_KEY, '["a", "a", "c"]', "expected different names of actions, or their number"),
        (ACTIONS_KEY, json.dumps([*map(str, range(10_001))]), "name 10,001 actions, expected 10,000 at most"),
        (ACTIONS_KEY, "[" * 100_000, "its metadata do not hold the number or names of actions as JSON"),
        (ACTIONS_KEY, json.dumps("x" * 5_000_000), "its metadata hold 5 MB for the number or names of actions"),
        (HORIZON_KEY, '["limit"]', "expected a word and a number, got ['limit']"),
        (HORIZON_KEY, '[5, "limit"]', "expected a word and a number, got [5, 'limit']"),
        (HORIZON_KEY, '["never", 5]', "cut_off: expected one of limit, censored, continuing, got 'never'"),
        (HORIZON_KEY, "[null, 1000000000000000]", "horizon: expected 10,000,000 steps at most"),
        (HORIZON_KEY, "{", "its metadata do not hold the horizon as JSON"),
    ],
)
def test_metadata_are_bounded(tmp_path, key, text, reason):
    path = tmp_path / "log.parquet"
    to_frame(LOG).write_parquet(path, metadata={key: text})
    dataset, findings = read(path)
    assert dataset is None
    assert reason in findings.faults[0].problem


def test_more_rows_than_memory_holds_are_refused_before_they_are_read(tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    to_frame(LOG).write_parquet(path)
    monkeypatch.setattr(parquet, "memory_of_machine", lambda: 4000)
    monkeypatch.setattr(pl, "read_parquet", lambda *_, **__: pytest.fail("it was read"))
    dataset, findings = read(path)
    assert dataset is None
    assert str(findings.faults[0]).endswith("of memory. This machine has 4 kB; give a part of the log")
    rows, kinds = to_frame(LOG).height, to_frame(LOG).schema
    assert f"its {rows} rows of {len(kinds)} columns need" in findings.faults[0].problem


ODD = {
    "list": pl.Series([[1]] * 60),
    "array": pl.Series([[1, 2]] * 60, dtype=pl.Array(pl.Int64, 2)),
    "struct": pl.Series([{"a": 1}] * 60),
    "duration": pl.Series([datetime.timedelta(1)] * 60),
    "binary": pl.Series([b"x"] * 60),
    "nothing": pl.Series([None] * 60),
    "time": pl.Series([datetime.time(1)] * 60),
    "wide": pl.Series([2**100] * 60, dtype=pl.Int128),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_kinds_in_any_column_are_answered_in_words(tmp_path, kind):
    frame = to_frame(make([2] * 20, final=[True] * 20, units=["p", "q"] * 10))
    frame = frame.with_columns(**{f"legal_{a}": pl.lit(True) for a in range(3)})
    for column in frame.columns:
        path = tmp_path / "log.parquet"
        frame.with_columns(ODD[kind].alias(column)).write_parquet(path)
        dataset, findings = read(path)
        assert (dataset is None) == bool(findings.faults)
        if kind in ("list", "array", "struct", "duration", "binary"):
            named = [fault for fault in findings.faults if fault.column.startswith(column[:5])]
            assert ", got " in named[0].problem or "binary" in kind


def test_a_row_count_that_is_not_there_takes_no_memory(tmp_path):
    """A few kilobytes that stand for hundreds of millions of cells are read only as far as they must be."""
    path = tmp_path / "log.parquet"
    pl.select(episode=pl.repeat(0, 20_000_000, dtype=pl.Int8)).write_parquet(path)
    assert path.stat().st_size < 100_000
    # its own peak: what the system says of children counts this process, from which they began
    code = f"""
import atexit, sys
peak = lambda: next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
atexit.register(lambda: print(peak(), file=sys.stderr))
sys.argv = ["statewise", "inspect", {str(path)!r}]
import statewise.cli
statewise.cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot be used" in done.stdout
    assert int(done.stderr.split()[-2]) < 1_000_000  # kilobytes


def test_memory_in_words():
    assert memory_of_machine() > 1 << 28
    assert [in_words(n) for n in (12, 4000, 5.6e9, 3e14, 1e30)] == [
        "12 bytes",
        "4 kB",
        "5.6 GB",
        "300 TB",
        "more than a million TB",
    ]
