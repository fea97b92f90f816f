"""Logs from the tables of other libraries, and back."""

import numpy as np
import polars as pl
import pytest

import statewise as sw
from logs import make, simulated

NAMES = ("observations", "actions", "rewards", "propensities", "distributions", "legal", "starts", "terminated")


@pytest.fixture(params=["final states", "masks", "units", "no propensities"])
def log(request):
    return {
        "final states": lambda: make([2, 1, 3]),
        "masks": lambda: simulated(5, 4, masked=True),
        "units": lambda: make([2, 1, 3], units=["p", "q", "p"], final=[True, False, True]),
        "no propensities": lambda: make([3, 2]),
    }[request.param]()


class Arrow:
    """A table of any library that speaks Arrow's interface, and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("way", ["polars", "lazy", "pandas", "arrow"])
def test_there_and_back(log, way):
    table = {
        "polars": log.to_polars,
        "lazy": lambda: log.to_polars().lazy(),
        "pandas": log.to_pandas,
        "arrow": lambda: Arrow(log),
    }[way]()
    back = sw.load(table)
    for name in (*NAMES, "final_observations", "units"):
        one, other = getattr(back, name), getattr(log, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_array_equal(one, other, err_msg=name)
    assert back.fingerprint == log.fingerprint


def test_frames_have_the_columns_of_a_saved_log(tmp_path):
    log = make([2, 1, 3])
    log.save(tmp_path / "log.parquet")
    assert log.to_polars().equals(pl.read_parquet(tmp_path / "log.parquet"))
    assert list(log.to_pandas().columns) == log.to_polars().columns
    assert pl.DataFrame(Arrow(log)).equals(log.to_polars())


def test_words_and_gaps_survive_arrow_and_pandas():
    pandas = pytest.importorskip("pandas")
    rows = {
        "episode": [1, 1, 2, 2],
        "obs_ward": ["a", None, "b", "a"],
        "obs_age": [3.0, 4.0, None, 5.0],
        "action": ["x", "y", "x", "y"],
        "reward": [0.0, 1.0, 0.0, 1.0],
        "propensity": [0.5] * 4,
        "terminated": [False, True, False, True],
    }
    logs = [sw.load(source) for source in (pl.DataFrame(rows), pandas.DataFrame(rows), Arrow(pl.DataFrame(rows)))]
    assert len({log.fingerprint for log in logs}) == 1
    assert logs[0].schema == logs[1].schema == logs[2].schema


@pytest.mark.parametrize("way", ["log.parquet", "log.csv", "polars"])
def test_doses_stay_doses(tmp_path, way):
    rows = {"episode": [1, 2, 3], "obs_x": [1.0, 2.0, 3.0], "action": [0, 20, 40], "reward": [0.0, 1.0, 2.0]}
    log = sw.load(pl.DataFrame(rows | {"propensity": [0.5] * 3, "terminated": [True] * 3}))
    assert log.action_names == ("0", "20", "40")
    if way != "polars":
        log.save(tmp_path / way)
    back = sw.load(log.to_polars() if way == "polars" else tmp_path / way)
    assert back.action_names == log.action_names
    assert back.fingerprint == log.fingerprint


def test_what_is_no_table_is_refused():
    with pytest.raises(
        TypeError, match="expected a path, a polars or pandas frame, an Arrow table, or a Minari dataset"
    ):
        sw.load([1, 2, 3])
    with pytest.raises(TypeError, match="a Dataset already"):
        sw.load(make([2]))


@pytest.mark.filterwarnings("ignore")  # Minari warns of metadata that a test has no use for
def test_minari_in_one_call_each(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    log = make([2, 1, 3])
    back = sw.load(log.to_minari("tests/log-v1"))
    np.testing.assert_array_equal(back.observations, log.observations)
    np.testing.assert_array_equal(back.propensities, log.propensities)
