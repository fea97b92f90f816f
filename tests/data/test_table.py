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
    with pytest.raises(LogError, match=r"obs_a: 1 row is not a finite number \(line 3\)"):
        sw.load(tmp_path / "log.csv")


@pytest.mark.parametrize(
    ("name", "contents", "words"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("header.csv", b"episode,step,obs_a,action,reward,propensity,terminated\n", "there are no rows"),
        ("cut.parquet", b"PAR1 and then nothing", "it cannot be read"),
        ("log.xlsx", b"anything", "'.xlsx' is not a supported format. Export it as .parquet, .csv, .tsv or .txt"),
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

    def full_disk(frame, target, metadata):
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full_disk)
    with pytest.raises(OSError, match="No space left"):
        log.save(path)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["log.parquet"]


def test_padding_is_not_saved_as_a_log(log, tmp_path):
    from statewise.data.augment import pad

    with pytest.raises(ValueError, match="contains padding that was never logged; save the Dataset it was made from"):
        pad(log, horizon=9).save(tmp_path / "log.parquet")


def test_random_values_never_escape_as_a_traceback(tmp_path):
    rng = np.random.default_rng(0)
    values = ["0", "1", "2", "-1", "0.5", "1e400", "nan", "", "x", '"a,b"', "99999999999999999999999", "true", " 1"]
    refused = 0
    for i in range(300):
        path = tmp_path / f"{i}.csv"
        rows = [",".join(rng.choice(values, size=8)) for _ in range(rng.integers(1, 6))]
        path.write_text("\n".join(["episode,step,obs_a,action,reward,propensity,terminated,unit", *rows]))
        dataset, findings = read(path)
        assert (dataset is None) == bool(findings.faults)
        refused += dataset is None
    assert refused > 250


def test_names_that_look_like_numbers_stay_apart(tmp_path):
    path = tmp_path / "log.csv"
    head = "episode,step,obs_a,action,reward,propensity,terminated,unit\n"
    path.write_text(head + "01,0,1,0,1,0.5,1,007\n1,0,2,1,1,0.5,1,07\n")
    log = sw.load(path)
    assert log.episode_ids.tolist() == ["01", "1"]
    assert log.units.tolist() == ["007", "07"]


def test_spreadsheet_habits_are_forgiven(tmp_path):
    path = tmp_path / "LOG.CSV"
    path.write_text(
        "episode, step , obs_a, action, reward, propensity, terminated\r\n"
        "1, 0, 0.5, 0, 0, 0.5, FALSE\r\n1, 1, 1.5, 1, 1, 0.25, TRUE\r\n,,,,,,\r\n2, 0, 2.5, 1, 1, 0, TRUE\r\n"
    )
    with pytest.raises(LogError, match=r"propensity: 1 row is 0 or less \(line 5\)"):
        sw.load(path)
    path.write_text(path.read_text().replace("1, 0, TRUE", "1, 0.5, TRUE"))
    assert sw.load(path).rewards.tolist() == [0, 1, 1]


def test_repeated_columns_are_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("episode,step,reward,reward\n1,0,1,2\n")
    with pytest.raises(
        LogError, match=r"reward: there are several columns with this name\. Rename or drop all but one"
    ):
        sw.load(path)


def test_the_number_of_actions_is_kept_in_parquet(tmp_path):
    log = sw.Dataset.from_episodes(
        observations=[[[0.0], [1.0]]] * 2,
        actions=[[0, 1]] * 2,
        rewards=[[0.0, 1.0]] * 2,
        propensities=[[0.5, 0.5]] * 2,
        terminated=[True, False],
        action_count=4,
    )
    log.save(tmp_path / "log.parquet")
    with pytest.warns(sw.LogWarning, match="actions 2, 3 were never taken"):
        assert sw.load(tmp_path / "log.parquet").action_count == 4


def test_masks_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    legal = [rng.random((n, 3)) < 0.7 for n in (3, 4)]
    actions = [mask.argmax(axis=1) for mask in legal]
    legal = [mask | (np.arange(3) == taken[:, None]) for mask, taken in zip(legal, actions, strict=True)]
    log = sw.Dataset.from_episodes(
        observations=[rng.normal(size=(n + 1, 1)) for n in (3, 4)],
        actions=actions,
        rewards=[np.zeros(n) for n in (3, 4)],
        propensities=[np.full(n, 0.5) for n in (3, 4)],
        terminated=[True, False],
        legal=legal,
    )
    np.testing.assert_array_equal(log.legal, np.concatenate(legal))
    for name in ("log.parquet", "log.csv"):
        log.save(tmp_path / name)
        back, _ = read(tmp_path / name)
        assert back.fingerprint == log.fingerprint
    assert not log.legal.all()


def test_a_repeated_episode_is_not_saved(log, tmp_path):
    with pytest.raises(ValueError, match="contains an episode more than once; save the Dataset it was taken from"):
        log.take(np.array([0, 0])).save(tmp_path / "log.parquet")


def test_odd_kinds_of_columns(log):
    frame = to_frame(log)
    assert sw.load(frame.with_columns(pl.col("action").cast(pl.Decimal(5, 0)))).fingerprint == log.fingerprint
    categories = frame.with_columns(pl.col("unit").cast(pl.Categorical))
    assert sw.load(categories).units.tolist() == log.units.tolist()
    _, findings = read(frame.with_columns(obs_x0=pl.struct("step")))
    assert findings.faults[0].problem == "expected numbers, got Struct({'step': Int64})"
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({name: frame[name].to_list() for name in frame.columns}).convert_dtypes()
    assert sw.load(table).fingerprint == log.fingerprint


def test_a_log_does_not_change_with_the_frame_it_came_from(log):
    pandas = pytest.importorskip("pandas")
    frame = to_frame(log)
    table = pandas.DataFrame({name: frame[name].to_list() for name in frame.columns})
    loaded = sw.load(table)
    table.loc[0, "reward"] = -77.0
    assert loaded.fingerprint == log.fingerprint
    rewards = frame["reward"].to_numpy().copy()
    loaded = sw.load(frame.with_columns(reward=pl.Series(rewards)))
    rewards[:] = -77.0
    assert loaded.rewards.min() > -77


def test_lines_are_an_editors_also_after_text_that_goes_on_over_several(tmp_path):
    header = "episode,step,obs_a,note,action,reward,propensity,terminated\n"
    rows = ['1,0,1,"two\nlines",0,1,0.5,0', '1,1,2,"three\r\nof\nthem",1,1,0.5,0', "", "1,2,3,one,1,x,0.5,1"]
    path = tmp_path / "log.csv"
    path.write_text(header + "\n".join(rows) + "\n", newline="")
    line = next(i for i, text in enumerate(path.read_bytes().split(b"\n"), start=1) if b"one" in text)
    _, findings = read(path)
    (fault,) = findings.faults
    assert fault.column == "reward"
    assert fault.where == f"line {line}"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_letters_in_another_encoding_are_told_plainly(tmp_path, encoding):
    path = tmp_path / "log.csv"
    text = "episode,step,obs_a,action,reward,propensity,terminated\nJosé,0,1,0,1,0.5,1\n"
    path.write_bytes(text.encode(encoding))
    _, findings = read(path)
    (fault,) = findings.faults
    assert fault.problem == (
        "the text is not encoded in UTF-8 (spreadsheets call other encodings Unicode text, UTF-16 or ANSI)"
    )
    assert fault.advice == "Save it again as CSV UTF-8, or as Parquet"
