"""File formats are one registry: what a user adds is read, written, inspected and named like those that come along."""

import json

import numpy as np
import polars as pl
import pytest

import statewise as sw
import statewise.cli
from logs import make
from statewise.data.findings import Findings
from statewise.data.formats import ACTIONS_KEY, FORMATS, Format, any_of, open_file, writable_endings, write_frame
from statewise.data.frame import Opened
from statewise.data.observations import read_observations, table_endings, write_table
from statewise.data.rawlog import Columns
from statewise.data.table import read


def read_lines(path, columns, findings):
    """A toy: the metadata on the first line, then one JSON object a row."""
    first, *rest = path.read_text().splitlines()
    known = json.loads(json.loads(first).get(ACTIONS_KEY, "null"))
    if not rest:
        findings.fault(str(path), "it has nothing below its first line", "Write it again")
        return None
    findings.warn(str(path), "it is a toy", "Use another")
    return Opened(pl.DataFrame([json.loads(line) for line in rest], infer_schema_length=None), actions=known)


def write_lines(frame, path, metadata):
    path.write_text("\n".join([json.dumps(dict(metadata)), *(json.dumps(row) for row in frame.iter_rows(named=True))]))


@pytest.fixture
def jsonl():
    FORMATS.add(".jsonl", Format(read_lines, write_lines))
    yield FORMATS[".jsonl"]
    del FORMATS._entries[".jsonl"]


@pytest.fixture
def log():
    return make([2, 1, 3], final=[True, False, True], units=["p", "q", "p"])


def command(capsys, monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["statewise", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        statewise.cli.main()
    out, err = capsys.readouterr()
    return ended.value.code, out, " ".join(err.split())


def test_an_added_format_is_saved_and_loaded(jsonl, log, tmp_path):
    log.save(tmp_path / "log.jsonl")
    back, findings = read(tmp_path / "log.jsonl")
    assert back.fingerprint == log.fingerprint
    assert "it is a toy" in [warning.problem for warning in findings.warnings]
    assert sw.load(tmp_path / "log.jsonl").fingerprint == log.fingerprint
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["log.jsonl"]


def test_its_metadata_comes_back(jsonl, tmp_path):
    one = {"observations": [[[0.0], [1.0]]] * 2, "actions": [[0, 1]] * 2, "rewards": [[0.0, 1.0]] * 2}
    more = sw.Dataset.from_episodes(**one, propensities=[[0.5, 0.5]] * 2, terminated=[True, False], action_count=4)
    more.save(tmp_path / "log.jsonl")
    assert sw.load(tmp_path / "log.jsonl").action_count == 4


def test_commands_know_it(jsonl, log, tmp_path, capsys, monkeypatch):
    log.save(tmp_path / "log.jsonl")
    code, out, _ = command(capsys, monkeypatch, "inspect", tmp_path / "log.jsonl", "--json")
    told = json.loads(out)
    assert not code
    assert told["summary"]["fingerprint"] == log.fingerprint
    code, _, _ = command(
        capsys, monkeypatch, "collect", "cartpole", "--episodes", 2, "--out", tmp_path / "cartpole.jsonl"
    )
    assert not code
    assert sw.load(tmp_path / "cartpole.jsonl").episodes == 2
    code, _, err = command(capsys, monkeypatch, "collect", "cartpole", "--out", tmp_path / "cartpole.xls")
    assert code == 2
    assert "cartpole.xls must end in .parquet, .csv or .jsonl" in err


def test_tables_of_observations_know_it(jsonl, tmp_path):
    assert table_endings() == [".parquet", ".csv", ".jsonl", ".json"]
    write_table({"age": [30.0, 41.0]}, tmp_path / "seen.jsonl")
    assert read_observations(tmp_path / "seen.jsonl").numbers(["age"])[:, 0].tolist() == [30, 41]


def test_messages_list_the_formats_there_are(jsonl, log, tmp_path):
    (tmp_path / "log.xlsx").write_bytes(b"anything")
    for path, said in ((tmp_path, "Give a"), (tmp_path / "log.xlsx", "Export it as")):
        _, findings = read(path)
        assert findings.faults[0].advice.startswith(f"{said} .parquet, .csv, .tsv, .txt or .jsonl")
    with pytest.raises(ValueError, match=r"^log.xlsx: expected a name that ends in .parquet, .csv or .jsonl$"):
        log.save(tmp_path / "log.xlsx")


def test_what_a_reader_finds_or_raises_is_a_fault(jsonl, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("{}")
    _, findings = read(path)
    assert [str(fault) for fault in findings.faults] == [f"{path}: it has nothing below its first line. Write it again"]
    path.write_text("no json\nat all")
    _, findings = read(path)
    assert [fault.problem for fault in findings.faults] == [
        "it cannot be read: Expecting value: line 1 column 1 (char 0)"
    ]


def test_a_format_may_be_read_only(tmp_path, log):
    assert writable_endings() == [".parquet", ".csv"]
    with pytest.raises(ValueError, match=r"log.tsv: expected a name that ends in .parquet or .csv"):
        log.save(tmp_path / "log.tsv")
    with pytest.raises(ValueError, match=r"x.txt: this format can only be read; write .parquet or .csv"):
        write_frame(pl.DataFrame({"a": [1]}), tmp_path / "x.txt")


@pytest.mark.parametrize(("ending", "separator"), [(".tsv", "\t"), (".txt", ";"), (".TXT", ",")])
def test_text_is_read_whatever_separates_it(tmp_path, ending, separator):
    path = tmp_path / f"seen{ending}"
    path.write_text(f"a{separator}b\n1{separator}2\n")
    opened = open_file(path, Columns(), Findings())
    np.testing.assert_array_equal(opened.frame.to_numpy(), [[1, 2]])


def test_endings_are_listed_as_a_sentence_would():
    assert any_of([".a"]) == ".a"
    assert any_of([".a", ".b", ".c"]) == ".a, .b or .c"
