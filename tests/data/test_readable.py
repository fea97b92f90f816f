"""Features are said in the words of the log, and each condition holds exactly where its bounds do."""

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.data.encoding import Code
from statewise.data.readable import Column, columns_of, rounded, shown

NONE = (-np.inf, np.inf)
WARD = Column(Code("ward", "words", ("ICU", "North", "South"), other=True, gaps=True), 0)
PAIN = Column(Code("pain", "order", ("low", "medium", "high"), gaps=True, fill=1.0), 0)
AGE = Column(Code("age", gaps=True, fill=50.0), 3)


def test_the_columns_of_a_table_and_their_raw_values():
    raw = {
        "age": [61.0, None, 40.0, 33.0],
        "ward": ["ICU", "North", "ICU", "North"],
        "smoker": [True, False, True, True],
        "seen": ["2024-01-03", "2024-02-01", "2024-01-09", "2024-01-03"],
    }
    frame = pl.DataFrame({
        "episode": [0, 1, 2, 3], "step": [0] * 4, "action": [0, 1, 0, 1], "reward": [1.0, 0.0, 1.0, 0.0],
        "propensity": [0.5] * 4, "terminated": [True] * 4, **{f"obs_{name}": column for name, column in raw.items()},
    })  # fmt: skip
    data = sw.load(frame)
    columns = columns_of(data)
    assert [column.name for column in columns] == list(raw)
    assert [place for column in columns for place in column.features] == list(range(len(data.observation_names)))
    said = {column.name: column.values(data.observations) for column in columns}
    assert said["age"] == ["61", "missing", "40", "33"]
    assert said["smoker"] == ["true", "false", "true", "true"]
    assert (said["ward"], said["seen"]) == (raw["ward"], raw["seen"])
    assert columns[0].missing(data.observations).tolist() == [False, True, False, False]


def test_arrays_have_columns_of_numbers():
    data = sw.Dataset.from_episodes(
        observations=[[[0.25, 7.0]]], actions=[[0]], rewards=[[0.0]], propensities=[[0.5]], terminated=[True],
        observation_names=("x", "y"), action_count=2,
    )  # fmt: skip
    assert [(column.name, column.features) for column in columns_of(data)] == [("x", (0,)), ("y", (1,))]


@pytest.mark.parametrize(
    ("column", "bounds", "text"),
    [
        (AGE, {3: (30.0, 61.0)}, "30 < age ≤ 61"),
        (AGE, {3: (30.0, np.inf)}, "age > 30"),
        (AGE, {3: (-np.inf, -0.5)}, "age ≤ −0.5"),
        (AGE, {4: (0.5, np.inf), 3: (0.0, 1.0)}, "age is missing"),
        (AGE, {4: (-np.inf, 0.5)}, "age is known"),
        (AGE, {0: (0.0, 1.0)}, ""),
        (WARD, {1: (0.5, np.inf), 0: (-np.inf, 0.5)}, "ward is North"),
        (WARD, {1: (-np.inf, 0.5)}, "ward is not North"),
        (WARD, {0: (-np.inf, 0.5), 1: (-np.inf, 0.5), 3: (-np.inf, 0.5)}, "ward is South or missing"),
        (PAIN, {0: (-np.inf, 0.5)}, "pain is low"),
        (PAIN, {0: (0.5, np.inf)}, "pain is medium or high"),
        (Column(Code("smoker", "flag"), 0), {0: (0.5, np.inf)}, "smoker is true"),
        (Column(Code("seen", "date", origin="2024-01-31"), 0), {0: (1.0, np.inf)}, "seen after 2024-02-01"),
    ],
)
def test_conditions(column, bounds, text):
    assert column.condition(bounds) == text


def test_numbers_are_what_they_are_shown_as():
    assert [shown(value) for value in (61.04, -0.012345, 12345.6, 0.0)] == ["61", "−0.0123", "12,346", "0"]
    assert [rounded(value) for value in (61.04, -0.012345, 12345.6)] == [61.0, -0.0123, 12346.0]
