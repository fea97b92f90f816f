"""What becomes of each column: one meaning for logs, for rows to act on, and for what the log did not hold."""

import json
from dataclasses import replace
from datetime import date, datetime

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.data.encoding import Code
from statewise.data.findings import LogWarning
from statewise.data.learn_codes import Unreadable, encode, learn_code
from statewise.data.schema import Schema
from statewise.data.table import read

RAW = {
    "age": pl.Series([61.0, None, 50.0, float("nan"), 40.0]),
    "smoker": pl.Series([True, None, False, True, True]),
    "retired": pl.Series(["Yes", "no", None, " no", "no"]).str.replace("Yes", "yes"),
    "ward": pl.Series(["A", "B", None, "A ", "A"]),
    "since": pl.Series(["03.01.2024", "01.01.2024", "", "01.02.2024", "01.01.2024"]),
    "seen": pl.Series([datetime(2024, 1, 1, 12), datetime(2024, 1, 3), None, None, datetime(2024, 1, 2)]),
}
# by hand: the features of each column, row by row
EXPECTED = {
    "age": ([[61, 0], [50, 1], [50, 0], [50, 1], [40, 0]], ["age", "age missing"]),
    "smoker": ([[1, 0], [1, 1], [0, 0], [1, 0], [1, 0]], ["smoker", "smoker missing"]),
    "retired": ([[1, 0], [0, 0], [0, 1], [0, 0], [0, 0]], ["retired", "retired missing"]),
    "ward": ([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [1, 0, 0]], ["ward=A", "ward=other", "ward=missing"]),
    "since": ([[2, 0], [0, 0], [1, 1], [31, 0], [0, 0]], ["since", "since missing"]),
    "seen": ([[0.5, 0], [2, 0], [1, 1], [1, 1], [1, 0]], ["seen", "seen missing"]),
}


@pytest.mark.parametrize("name", RAW)
def test_columns_become_what_the_table_says(name):
    code = learn_code(RAW[name], name)
    features, names = EXPECTED[name]
    assert list(code.features) == names
    np.testing.assert_allclose(encode(code, RAW[name]).features, features)


@pytest.mark.parametrize("name", RAW)
def test_a_value_alone_means_what_it_means_in_its_column(name):
    """`serve` reads one JSON value after the other, `load` a whole column."""
    code = learn_code(RAW[name], name)
    alone = np.concatenate([code.encode([value]).features for value in RAW[name].to_list()])
    np.testing.assert_array_equal(alone, encode(code, RAW[name]).features)


def test_rare_words_share_a_feature_and_twenty_are_told_apart():
    cells = [f"w{i:02}" for i in range(25) for _ in range(60 - i)] + ["once", "other"]
    code = learn_code(pl.Series(cells), "w")
    assert code.words == tuple(f"w{i:02}" for i in range(20))
    features = encode(code, pl.Series(cells)).features
    assert code.features[-1] == "w=other"
    np.testing.assert_array_equal(features.sum(axis=1), 1)
    assert features[:, -1].sum() == sum(60 - i for i in range(20, 25)) + 2


def test_what_the_log_does_not_hold():
    ward, alone = Code("ward", "words", ("A", "B"), other=True), Code("ward", "words", ("A", "None"))
    assert ward.encode(["C", None, "A"]).features.tolist() == [[0, 0, 1], [0, 0, 1], [1, 0, 0]]
    assert ward.encode(["C", None]).unknown.tolist() == [True, False]
    assert alone.encode(["C", None]).features.tolist() == [[0, 0], [0, 0]]
    assert not alone.encode(["C", None]).refused.any()
    pain = Code("pain", "order", ("low", "high"), gaps=True, fill=1.0)
    assert pain.encode(["mild", None, "low"]).features.tolist() == [[1, 1], [1, 1], [0, 0]]
    for code, value in (
        (Code("age"), None),
        (Code("age"), "61"),
        (Code("age"), float("inf")),
        (Code("age", gaps=True, fill=1.0), "old"),
        (Code("smoker", "flag"), "perhaps"),
        (Code("since", "date", origin="2024-01-01"), "01.02.2024"),
        (Code("pain", "order", ("low", "high")), "mild"),
    ):
        assert code.encode([value]).refused.tolist() == [True], code


def test_numbers_that_are_names_and_words_in_order():
    assert learn_code(pl.Series([3.0, 4.0, 3.0, 4.0]), "ward", as_words=True).words == ("3", "4")
    code = learn_code(pl.Series(["low", "high", "mid", "high", None]), "pain", order=("low", "mid", "high"))
    assert encode(code, pl.Series(["high", None, "low"])).features.tolist() == [[2, 0], [1, 1], [0, 0]]
    with pytest.raises(Unreadable, match="'dire' is not in its order"):
        learn_code(pl.Series(["low", "dire"]), "pain", order=("low", "high"))


@pytest.mark.parametrize(
    ("cells", "format"),
    [
        (["2024-01-02", "2024-03-01"], None),
        (["2024-01-02T10:00:00", "2024-03-01"], None),
        (["02.01.2024", "01.03.2024"], "%d.%m.%Y"),
        (["02/01/2024", "25/03/2024"], "%d/%m/%Y"),
        (["01/02/2024", "03/25/2024"], "%m/%d/%Y"),
    ],
)
def test_dates_are_read_as_they_are_written(cells, format):
    code = learn_code(pl.Series(cells), "d")
    assert (code.kind, code.format, code.origin) == ("date", format, "2024-01-02")
    hours = 10 if "T" in cells[0] else 0
    assert encode(code, pl.Series(cells)).features[0, 0] == pytest.approx(hours / 24)
    assert code.encode([date(2024, 1, 4)]).features.tolist() == [[2.0]]


def table(rows=40, seed=0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "episode": np.repeat(np.arange(rows // 2), 2),
            "step": [0, 1] * (rows // 2),
            "obs_age": [None if rng.random() < 0.3 else float(rng.integers(20, 90)) for _ in range(rows)],
            "obs_ward": rng.choice(["A", "B"], rows),
            "action": rng.integers(0, 2, rows),
            "reward": rng.normal(size=rows),
            "propensity": [0.5] * rows,
            "terminated": [False, True] * (rows // 2),
        }
    )


def test_a_fill_is_learned_from_the_first_part_and_stands_in_all():
    log = sw.load(table())
    train, held_out = log.split(0.5, seed=1)
    raw = table().with_columns(obs_age=pl.col("obs_age").fill_null(float("nan")))
    known = raw["obs_age"].to_numpy()[np.isin(raw["episode"].to_numpy(), train.episode_ids)]
    median = np.nanmedian(known)
    assert median != log.schema.fills()[0]
    for part in (train, held_out):
        assert part.schema.fills() == [median]
        assert set(part.observations[part.observations[:, 1] == 1, 0]) == {median}
    settled = replace(log, schema=replace(log.schema, settled=True))
    assert settled.split(0.5, seed=1)[0].schema.fills() == log.schema.fills()


def test_what_fills_a_gap_is_no_part_of_the_log():
    log = sw.load(table())
    other = replace(log, observations=log.schema.fill(log.observations, [7.0]), schema=log.schema.with_fills([7.0]))
    assert not np.array_equal(other.observations, log.observations)
    assert other.fingerprint == log.fingerprint
    assert sw.load(table(seed=1)).fingerprint != log.fingerprint


def test_a_schema_reads_the_next_log_as_it_read_the_first():
    log = sw.load(table())
    stated = json.loads(json.dumps({"schema": log.schema.as_json()}))
    schema = Schema.of(stated)
    assert schema.codes == log.schema.codes
    unlike = table(seed=3).with_columns(
        obs_ward=pl.Series(["C", *table(seed=3)["obs_ward"][1:]]), obs_more=pl.lit(1.0), obs_age=pl.lit(30.0)
    )
    with pytest.warns(LogWarning, match="the policy's log does not hold 'C', which counts as none of the known words"):
        nxt = sw.load(unlike, schema=schema)
    assert nxt.observation_names == log.observation_names
    assert nxt.observations[0].tolist() == [30, 0, 0, 0]
    assert nxt.schema.settled
    _, findings = read(unlike.drop("obs_ward"), schema=schema)
    assert [fault.column for fault in findings.faults] == ["ward"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "colour"},
        {"fill": 3.0},
        {"gaps": True},
        {"words": ["A"]},
        {"kind": "order", "words": ["A"]},
        {"kind": "date", "origin": "yesterday"},
        {"kind": "words", "words": ["A", "A"]},
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(wrong):
    stated = json.loads(json.dumps(sw.load(table()).schema.as_json()))
    stated["codes"][0] = {"name": "age"} | wrong
    with pytest.raises(ValueError, match=r"age|kind|yesterday"):
        Schema.of({"schema": stated})


def test_an_end_without_observations_is_an_end_and_no_state():
    frame = pl.DataFrame(
        {
            "episode": [1, 1, 2, 2],
            "step": [0, 1, 0, 1],
            "obs_a": [1.0, None, 2.0, 3.0],
            "obs_b": ["x", None, "y", "x"],
            "action": [0, None, 1, 0],
            "reward": [1.0, None, 0.0, 0.0],
            "propensity": [0.5, None, 0.5, 0.5],
            "terminated": [None, True, False, False],
        }
    )
    log, findings = read(frame)
    assert findings.faults == []
    assert log.terminated.tolist() == [True, False]
    assert not log.has_final_observation.any()
    assert log.observation_names == ("a", "b=x", "b=other")
    not_numbers = frame.with_columns(pl.col("obs_a").fill_null(float("nan")), pl.col("obs_b").fill_null(" "))
    assert read(not_numbers)[0].fingerprint == log.fingerprint


def test_a_wrong_cell_has_one_fault_that_names_its_row():
    """Also after a row that holds nothing, and beside columns that are words."""
    cells = ["1.5", None, "2.5", "high", "3.5", "4.5"]
    frame = pl.DataFrame(
        {
            "episode": [1, 1, 2, 2, 3, 3],
            "step": [0, 1] * 3,
            "obs_a": cells,
            "obs_b": ["x", None, "y", "x", "x", "y"],
            "action": [0, None, 1, 0, 1, 0],
            "reward": [1.0, None, 0.0, 0.0, 1.0, 1.0],
            "propensity": [0.5, None, 0.5, 0.5, 0.5, 0.5],
            "terminated": [True, None, False, True, False, True],
        }
    )
    for log in (frame, frame.drop("obs_b")):
        _, findings = read(log)
        assert [(fault.column, fault.rows) for fault in findings.faults] == [("obs_a", (3,))]
