"""Delimited text under fire: no row is filled, shifted or taken from another file, and what is odd has its line."""

import csv
import io

import numpy as np
import polars as pl
import pytest

import statewise as sw
from logs import make
from statewise.data import records
from statewise.data.findings import Findings, LogError
from statewise.data.formats import open_file
from statewise.data.observations import read_observations
from statewise.data.rawlog import Columns
from statewise.data.table import read, to_frame

HEADER = "episode,step,obs_a,action,reward,propensity,terminated,unit\n"
ROWS = ["1,0,0.5,0,0,0.5,0,p", "1,1,1.5,1,1,0.25,1,p", "2,0,2.5,1,1,0.25,1,q"]


def faults(path, text, **options):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    dataset, findings = read(path, **options)
    assert (dataset is None) == bool(findings.faults)
    return [str(fault).removeprefix(f"{path}: ") for fault in findings.faults]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.csv"


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".tsv"])
@pytest.mark.parametrize(
    ("meant", "other"), [("p [1]", "p 1"), ("a*", "ab"), ("a?", "ab"), ("d[2024]/log", "d2/log"), ("{a,b}", "a")]
)
def test_a_path_is_a_name_and_no_pattern(tmp_path, meant, other, ending):
    for name, value in ((other, 2.0), (meant, 1.0)):
        file = tmp_path / f"{name}{ending}"
        file.parent.mkdir(exist_ok=True)
        frame = pl.DataFrame({"age": [value]})
        frame.write_parquet(file) if ending == ".parquet" else file.write_text(frame.write_csv())
    assert read_observations(tmp_path / f"{meant}{ending}").numbers(["age"]).tolist() == [[1.0]]


def test_a_row_with_too_few_fields_is_not_filled(path):
    broken = [ROWS[0], "1,1,1.5,1,1,0.25,1", ROWS[2]]
    assert faults(path, HEADER + "\n".join(broken) + "\n") == [
        "expected 8 fields as in the header, got 7 (line 3). Give every row a field for every column; put text that "
        "contains the separator between quotation marks"
    ]


def test_rows_with_too_many_fields_are_counted(path):
    broken = [f"{ROWS[0]},x", ROWS[1], '2,0,2.5,1,"1,5",0.25,1,q,,']
    assert faults(path, HEADER + "\n".join(broken) + "\n") == [
        "expected 8 fields as in the header, got 9 in the first of these lines (lines 2, 4). Give every row a field "
        "for every column; put text that contains the separator between quotation marks"
    ]


def test_a_file_cut_within_a_line_is_refused_and_within_its_last_field_suspected(path):
    whole = HEADER + "\n".join(ROWS) + "\n"
    for missing in range(3, len(ROWS[2])):
        (fault,) = faults(path, whole[:-missing])
        assert fault.startswith("the file ends in the middle of a line: expected 8 fields, got ")
        assert "(line 4)" in fault
    path.write_text(whole[:-1])
    dataset, findings = read(path)
    assert dataset.episodes == 2
    assert "the last line has no line end, so it may be cut off" in [one.problem for one in findings.warnings]
    path.write_text(whole)
    assert "the last line has no line end" not in str(read(path)[1].items)


def test_points_beside_decimal_commas_are_asked_about(path):
    header, rows = HEADER.replace(",", ";"), [row.replace(",", ";").replace(".", ",") for row in ROWS]
    assert not faults(path, header + "\n".join(rows) + "\n")
    assert faults(path, header + "\n".join([*rows[:2], "2;0;1.500;1;1;0,25;1;q"]) + "\n") == [
        "obs_a: '1.500' has a point where other numbers have decimal commas (line 4). Write 1,500 or 1500, whichever "
        "is meant"
    ]
    asked = {".5": "Write ,5", "5.": "Write 5", "1.5e-5": "Write 1,5e-5 or 15e-5, whichever is meant"}
    for cell, advice in asked.items():
        assert faults(path, header + "\n".join([*rows[:2], f"2;0;{cell};1;1;0,25;1;q"]) + "\n") == [
            f"obs_a: '{cell}' has a point where other numbers have decimal commas (line 4). {advice}"
        ]
    ordinals = [row.replace(";p", ";p;1.").replace(";q", ";q;2.") for row in rows]  # which are words
    path.write_text(header.replace("unit", "unit;obs_day") + "\n".join(ordinals * 4) + "\n")
    assert "obs_day" not in [one.column for one in read(path)[1].faults]
    points = [row.replace(",", ".") for row in rows]
    assert not faults(path, header + "\n".join(points) + "\n")
    assert sw.load(path).observations[:, 0].tolist() == [0.5, 1.5, 2.5]
    names = [row.replace(";p", ";3.14").replace(";q", ";2.72") for row in rows]  # those of units are no numbers
    assert not faults(path, header + "\n".join(names) + "\n")


def test_blanks_around_decimal_commas_make_no_words(path):
    header, rows = HEADER.replace(",", ";"), [row.replace(",", ";").replace(".", ",") for row in ROWS]
    for blanks in ("\t", " ", "\t "):
        path.write_text(header + "\n".join(rows).replace(";1,5", f";{blanks}1,5") + "\n")
        assert sw.load(path).observations[:, 0].tolist() == [0.5, 1.5, 2.5]


def test_units_that_differ_in_blanks_only_are_suspected(path):
    path.write_text(HEADER + "\n".join([*ROWS, "3,0,1,0,1,0.5,1, p"]) + "\n")
    _, findings = read(path)
    (warning,) = [one for one in findings.warnings if one.column == "unit"]
    assert str(warning) == "unit: 'p' and ' p' differ only in blanks (line 5). Use one spelling if they are the same"


@pytest.mark.parametrize("first", [2**63 - 2, -(2**63), 2**63 - 3])
def test_steps_near_the_ends_of_integers_do_not_overflow(first):
    frame = pl.DataFrame(
        {
            "episode": [1, 1, 2],
            "step": pl.Series([first, first + 1, first], dtype=pl.Int64),
            "obs_a": [0.5, 1, 2],
            "action": [0, 1, 1],
            "reward": [0.0, 1, 1],
            "propensity": [0.5] * 3,
            "terminated": [False, True, True],
        }
    )
    dataset, findings = read(frame)
    assert dataset is not None
    assert f"no episode starts before step {first}" in [one.problem for one in findings.warnings]
    _, findings = read(frame.with_columns(step=pl.Series([-(2**63), 2**63 - 1, -(2**63)])))
    (fault,) = findings.faults
    assert fault.problem == "1 row has a step whose predecessor is missing"


def test_lines_are_right_after_quoted_line_breaks_also_in_the_header(path):
    header = 'episode,step,obs_a,"a\nnote",action,reward,propensity,terminated\n'
    rows = ['1,0,1,"two\nlines",0,1,0.5,0', "", '1,1,2,"a ""word"", and\nmore",1,1,0.5,0,x', "1,2,3,one,1,x,0.5,1"]
    text = header + "\n".join(rows) + "\n"
    line = next(i for i, one in enumerate(text.split("\n"), start=1) if one.startswith("1,1,2"))
    (fault,) = faults(path, text)
    assert f"got 9 (line {line})" in fault
    (fault,) = faults(path, text.replace(",x\n", "\n"))
    line = next(i for i, one in enumerate(text.split("\n"), start=1) if "one" in one)
    assert fault.startswith(f"reward: expected numbers, got text such as 'x' (line {line})")


def test_other_ends_of_lines_and_marks_out_of_place(path):
    whole = HEADER + "\n".join(ROWS) + "\n"
    path.write_bytes(whole.encode())
    log = sw.load(path)
    for text in (whole.replace("\n", "\r"), whole.replace("\n", "\r\n"), "\ufeff" + whole, "\n\n" + whole + "\n\n"):
        path.write_bytes(text.encode())
        assert sw.load(path).fingerprint == log.fingerprint
    assert (
        "a carriage return in the middle of a line (line 3)" in faults(path, whole.replace("1,1,1.5", "1,1\r,1.5"))[0]
    )
    assert "a quotation mark is not closed (line 3)" in faults(path, whole.replace("1,1,1.5", '1,1,"1.5'))[0]
    for cell in ('"1.5"0', '""1.5"0"', '""a""b"c, d"', '"1.5" '):
        (fault,) = faults(path, whole.replace("1,1,1.5", f"1,1,{cell}"))
        assert "a cell goes on after its closing quotation mark (line 3)" in fault
    for odd in (whole.replace("1,1,1.5", '1,1,1".5"'), whole.replace("1,1,1.5", '1,1, "1.5"')):
        assert len(faults(path, odd)) == 1
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        assert "is not encoded in UTF-8" in faults(path, whole.encode(encoding))[0]
    for nothing in ("", "\n", "\r\n\r\n", " \n"):
        assert faults(path, nothing) == ["the file is empty. Give one row for each decision"]


def test_a_header_of_nothing_but_separators_is_refused_at_once(path):
    assert "columns" in faults(path, "," * 2_000_000 + "\n")[0]
    assert "header" in faults(path, "a" * 200_000 + ",b\n")[0]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 24])
def test_records_are_those_of_the_csv_module_whatever_the_block(path, block, monkeypatch):
    monkeypatch.setattr(records, "BLOCK", block)
    rng = np.random.default_rng(block)
    cells = ["", "1", '"a,b"', '"two\nlines"', '"a ""word"""', "x y", '"\r\n"']
    for _ in range(60):
        rows = [",".join(rng.choice(cells, size=rng.integers(1, 4))) for _ in range(rng.integers(0, 6))]
        text = "\n".join(["a,b", *rows]) + "\n" * int(rng.integers(0, 2))
        path.write_bytes(text.encode())
        found = records.scan(path)
        reader = csv.reader(io.StringIO(text, newline=""))
        next(reader)
        lines, wanted = [2], []
        for row in reader:
            wanted.append(len(row))
            lines.append(reader.line_num + 1)
        assert found.fields.tolist() == wanted, text
        assert found.line.tolist() == lines[: len(wanted)], text


def test_words_that_look_like_formulas_are_written_harmless_and_read_back(tmp_path):
    names = ("=1+1", "+A", "-B", "@C", "'=D", "plain", "a=b", "'quoted'")
    log = make([3] * 20, actions=8, units=[f"{'=-@+'[i % 4]}u{i}" for i in range(20)])
    frame = to_frame(log)
    words = frame.with_columns(action=pl.Series([None if a is None else names[int(a)] for a in frame["action"]]))
    dataset = sw.load(words, actions=names)
    path = tmp_path / "log.csv"
    dataset.save(path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for column in ("action", "unit"):
        assert not any(row[column].startswith(("=", "+", "-", "@")) for row in rows)
    assert any(row["reward"].startswith("-") for row in rows)  # numbers stay numbers
    assert sw.load(path, actions=names).fingerprint == dataset.fingerprint


def test_a_broken_table_is_refused_by_act_too(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("age,weight\n30\n41,2\n")
    with pytest.raises(ValueError, match=r"expected 2 fields as in the header, got 1 \(line 2\)"):
        read_observations(path)
    findings = Findings()
    assert open_file(path, Columns(), findings) is None
    with pytest.raises(LogError):
        findings.raise_faults()
