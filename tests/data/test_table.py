"""Logs come back from every kind of file and frame as they went in."""

import numpy as np
import polars as pl
import pytest

import statewise as sw
from logs import make
from statewise.data.findings import LogError
from statewise.data.table import read, to_frame


@pytest.fixture
def log():
    return make([2, 1, 3], final=[True, False, True], units=["p", "q", "p"])


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
def test_files_round_trip(log, tmp_path, name):
    log.save(tmp_path / name)
    assert sw.load(tmp_path / name).fingerprint == log.fingerprint


def test_saving_twice_gives_the_same_bytes(log, tmp_path):
    for name in ("a.parquet", "b.parquet"):
        log.save(tmp_path / name)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_frames_of_both_libraries_round_trip(log):
    frame = to_frame(log)
    assert sw.load(frame).fingerprint == log.fingerprint
    assert sw.load(frame.lazy()).fingerprint == log.fingerprint
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({name: frame[name].to_list() for name in frame.columns})
    assert sw.load(table).fingerprint == log.fingerprint


def test_single_precision_stays_single(log, tmp_path):
    frame = to_frame(log).with_columns(pl.col("^obs_.*$").cast(pl.Float32))
    frame.write_parquet(tmp_path / "log.parquet")
    assert sw.load(tmp_path / "log.parquet").observations.dtype == np.float32


def test_spreadsheet_exports_are_read(tmp_path):
    (tmp_path / "german.csv").write_text(
        "episode;step;obs_a;action;reward;propensity;terminated\n"
        "1;0;0,5;0;0;0,5;FALSE\n1;1;1,5;1;1;0,25;TRUE\n2;0;2,5;1;0,5;0,25;TRUE\n",
        encoding="utf-8-sig",
    )
    log = sw.load(tmp_path / "german.csv")
    assert log.observations[:, 0].tolist() == [0.5, 1.5, 2.5]
    assert log.rewards.tolist() == [0, 1, 0.5]
    assert log.terminated.all()


def test_other_column_names(log):
    frame = to_frame(log).rename({"action": "drug", "obs_x0": "age", "obs_x1": "weight"})
    columns = sw.Columns(action="drug", observations=("age", "weight"))
    loaded = sw.load(frame, columns=columns)
    assert loaded.observation_names == ("age", "weight")
    np.testing.assert_array_equal(loaded.observations, log.observations)
    _, findings = read(frame, columns=sw.Columns(action="drug", observations=("age", "wieght")))
    assert "Did you mean 'weight'" in str(findings.faults[0])


def test_csv_faults_are_named_by_line(tmp_path):
    (tmp_path / "log.csv").write_text(
        "episode,step,obs_a,action,reward,propensity,terminated\n1,0,0.5,0,0,0.5,0\n1,1,NA,1,1,0.25,1\n"
    )
    with pytest.raises(LogError, match=r"obs_a: 1 row holds no finite number \(line 3\)"):
        sw.load(tmp_path / "log.csv")


@pytest.mark.parametrize(
    ("name", "contents", "words"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("header.csv", b"episode,step,obs_a,action,reward,propensity,terminated\n", "it has no rows"),
        ("cut.parquet", b"PAR1 and then nothing", "it cannot be read"),
        ("log.xlsx", b"anything", "is not a kind of log that can be read"),
    ],
)
def test_unreadable_files_are_answered_in_words(tmp_path, name, contents, words):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(LogError, match=words):
        sw.load(tmp_path / name)


def test_missing_file_suggests_its_neighbour(tmp_path):
    (tmp_path / "visits.csv").write_text("x\n")
    with pytest.raises(LogError, match=r"there is no such file\. Did you mean visits\.csv\?"):
        sw.load(tmp_path / "visit.csv")


def test_a_failed_write_leaves_the_old_file(log, tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    path.write_bytes(b"old")

    def full_disk(frame, target):
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full_disk)
    with pytest.raises(OSError, match="No space left"):
        log.save(path)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["log.parquet"]


def test_padding_is_not_saved_as_a_log(log, tmp_path):
    from statewise.data.augment import pad

    with pytest.raises(ValueError, match="padding that no one logged"):
        pad(log, horizon=9).save(tmp_path / "log.parquet")


def test_random_text_never_escapes_as_a_traceback(tmp_path):
    rng = np.random.default_rng(0)
    alphabet = list('episode,step;obs_\n\t 0123.-"naN')
    for i in range(200):
        path = tmp_path / f"{i}.csv"
        path.write_text("".join(rng.choice(alphabet, size=rng.integers(1, 200))))
        dataset, findings = read(path)
        assert dataset is None
        assert findings.faults
