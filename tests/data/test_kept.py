"""Logs that were saved keep how their words, dates and gaps became numbers."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import statewise as sw
from awkward import LOGS
from statewise.data.formats import SCHEMA_KEY

HOW = {
    "clinic": {"propensity": "estimate"},
    "email": {"ends": "truncated"},
    "inventory": {"propensity": "estimate", "ends": "truncated"},
}
pytestmark = pytest.mark.filterwarnings("ignore::statewise.data.findings.LogWarning")


@pytest.fixture(params=LOGS)
def log(request, tmp_path):
    path = tmp_path / "raw.csv"
    path.write_text(LOGS[request.param][0](40) + "\n")
    return sw.load(path, **HOW[request.param])


@pytest.fixture
def saved(log, tmp_path):
    log.save(tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def test_the_schema_comes_back(log, saved):
    back = sw.load(saved)
    assert back.schema == log.schema
    assert back.fingerprint == log.fingerprint
    np.testing.assert_array_equal(back.observations, log.observations)
    assert (back.propensities is None) == (log.propensities is None)


def test_a_part_keeps_what_it_put_into_gaps_and_a_split_learns_it_anew(log, saved, tmp_path):
    part = log.split(0.5, seed=1)[0]
    part.save(tmp_path / "part.parquet")
    assert sw.load(tmp_path / "part.parquet").schema.fills() == part.schema.fills()
    for one, other in zip(sw.load(saved).split(0.5, seed=1), log.split(0.5, seed=1), strict=True):
        np.testing.assert_array_equal(one.observations, other.observations)


def test_it_can_be_read_as_the_log_of_a_policy_was(log, saved, tmp_path):
    """With what that one puts into gaps; from the raw file the same comes."""
    asked = replace(log.schema.with_fills([-7.0] * len(log.schema.fills())), settled=True)
    one, other = sw.load(saved, schema=asked), sw.load(tmp_path / "raw.csv", schema=asked)
    np.testing.assert_array_equal(one.observations, other.observations)
    assert one.schema.fills() == [-7.0] * len(log.schema.fills())
    assert one.episodes == other.episodes
    sw.concat([one, other])  # they are of one kind


def test_the_names_that_it_had_before_still_lead_to_its_columns(log, saved):
    back = sw.load(saved, columns=log.schema.columns)
    assert back.fingerprint == log.fingerprint


def test_another_schema_is_not_taken_for_this_one(log, saved):
    code = next(code for code in log.schema.codes if code.kind in ("words", "order"))
    other = replace(code, words=code.words[::-1])
    asked = replace(log.schema, codes=tuple(other if each is code else each for each in log.schema.codes))
    with pytest.raises(sw.LogError, match="there is no such column"):
        sw.load(saved, schema=asked)


def test_a_schema_that_makes_no_sense_is_a_fault(log, saved, tmp_path):
    stored = json.loads(pl.read_parquet_metadata(saved)[SCHEMA_KEY])
    for changed in ({**stored, "codes": 3}, {**stored, "colour": "red"}, 7):
        pl.read_parquet(saved).write_parquet(tmp_path / "odd.parquet", metadata={SCHEMA_KEY: json.dumps(changed)})
        with pytest.raises(sw.LogError, match=f"it cannot be read: its metadata '{SCHEMA_KEY}'"):
            sw.load(tmp_path / "odd.parquet")


def test_a_file_whose_columns_changed_is_read_as_it_stands(log, saved, tmp_path):
    frame = pl.read_parquet(saved)
    first = next(name for name in frame.columns if name.startswith("obs_"))
    metadata = {key: value for key, value in pl.read_parquet_metadata(saved).items() if key == SCHEMA_KEY}
    frame.drop(first).write_parquet(tmp_path / "less.parquet", metadata=metadata)
    back = sw.load(tmp_path / "less.parquet", propensity="estimate")
    assert back.schema.plain
    assert len(back.observation_names) == len(log.observation_names) - 1


@pytest.mark.filterwarnings("error")
def test_csv_cannot_keep_it_and_says_so(tmp_path):
    (tmp_path / "raw.csv").write_text(LOGS["email"][0](20))
    with pytest.warns(sw.LogWarning, match="guessed"):
        log = sw.load(tmp_path / "raw.csv", ends="truncated")
    with pytest.warns(sw.LogWarning, match="CSV cannot hold how words, dates and gaps became numbers"):
        log.save(tmp_path / "log.csv")
