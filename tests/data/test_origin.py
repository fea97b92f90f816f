"""A log knows its file, its rows and its dates."""

import polars as pl
import pytest

import statewise as sw
from awkward import clinic
from statewise.data.origin import Origin, origin_of


def test_a_file_with_dates(tmp_path):
    path = tmp_path / "visits 2024.csv"
    path.write_text(clinic(40) + "\n")
    dates = [line.split(";")[1] for line in clinic(40).splitlines()[1:]]
    iso = sorted("-".join(reversed(day.split("."))) for day in dates)
    data = sw.load(path, propensity="estimate")
    assert data.origin == Origin("visits 2024.csv", len(dates), iso[0], iso[-1])
    part, _ = data.split(0.5)
    assert part.origin == data.origin  # a part is of the same file


@pytest.mark.parametrize(
    ("column", "first", "last"),
    [
        (["2024-03-01T10:00:30", "2024-02-28T23:59:59"], "2024-02-28 23:59:59", "2024-03-01 10:00:30"),
        (["2024-03-01", None], "2024-03-01", "2024-03-01"),
        ([3, 1], None, None),
        (["soon", "later"], None, None),
        ([None, None], None, None),
    ],
)
def test_when(column, first, last):
    frame = pl.DataFrame({"when": column})
    assert origin_of(frame, frame, "when") == Origin("", 2, first, last)
    assert origin_of("folder/a.parquet", frame, None) == Origin("a.parquet", 2)


def test_several_logs_and_arrays_have_none(tmp_path):
    data = sw.Dataset.from_episodes(
        observations=[[[0.0]], [[0.5]]], actions=[[0], [1]], rewards=[[0.0], [1.0]],
        propensities=[[0.5], [0.5]], terminated=[True, True],
    )  # fmt: skip
    assert data.origin is None
    data.save(tmp_path / "log.parquet")
    again = sw.load(tmp_path / "log.parquet")
    assert again.origin == Origin("log.parquet", 2)
    assert again.fingerprint == data.fingerprint
    assert sw.concat([again, again]).origin is None
