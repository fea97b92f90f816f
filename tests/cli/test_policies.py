"""`act`, `export`, `serve`: a policy in the hands of someone who has only its file."""

import json
import socket

import numpy as np
import polars as pl
import pytest

from logs import make
from processes import statewise as in_own_process


@pytest.fixture
def saved(policy, tmp_path):
    policy.save(tmp_path / "p.safetensors")
    return tmp_path / "p.safetensors"


def test_act_finds_columns_by_name(run, policy, saved, tmp_path):
    (tmp_path / "o.csv").write_text("patient;c;a;b\nx;3,5;1;2\ny;0,5;-1;0\n")  # as a European spreadsheet exports it
    out = run("act", saved, tmp_path / "o.csv", "--keep", "patient", "--choose", "likeliest", "--json")
    assert out.returncode == 0, out.stderr
    rows = json.loads(out.stdout)
    expected = policy.probabilities(np.array([[1, 2, 3.5], [-1, 0, 0.5]]))
    assert [row["patient"] for row in rows] == ["x", "y"]
    assert [row["action"] for row in rows] == [policy.action_names[a] for a in expected.argmax(axis=1)]
    found = [[row[f"probability_{name}"] for name in policy.action_names] for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    (tmp_path / "o.csv").write_text("obs_a,obs_b,obs_c,step,legal_0,legal_1,legal_2,legal_3\n1,2,3,0,0,0,1,0\n")
    out = run("act", saved, tmp_path / "o.csv", "--out", tmp_path / "d.parquet")
    assert "Not used: step." in out.stderr
    assert pl.read_parquet(tmp_path / "d.parquet")["action"].to_list() == ["two"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "'c' is missing; the policy needs 'a', 'b', 'c'"),
        ("a,b,c\n1,,3\n1,2,3\n", "o.csv: column 'b', line 2: expected a finite number, got an empty cell"),
        ("a,b,c\n1,x,3\n", "o.csv: column 'b', line 2: expected a finite number, got 'x'"),
        (
            "a,b,c\n1,2,3\n1,inf,3\n1,NaN,3\n",
            "column 'b', line 3: expected a finite number, got 'inf', and 1 more like it",
        ),
        ("a,b,c\n", "there are no rows"),
        ("", "the file is empty"),
        ("a,a,b,c\n1,1,1,1\n", "several columns with this name"),
        (
            "a,b,c,legal_0,legal_1,legal_2,legal_3\n1,2,3,2,0,0,0\n",
            "'legal_0', line 2: expected true or false, or 1 or 0, got 2",
        ),
    ],
)
def test_act_answers_a_wrong_table_by_a_sentence(run, saved, tmp_path, text, words):
    (tmp_path / "o.csv").write_text(text)
    (tmp_path / "d.csv").write_text("a good file")
    out = run("act", saved, tmp_path / "o.csv", "--out", tmp_path / "d.csv")
    assert out.returncode == 2
    assert words in out.stderr
    assert (tmp_path / "d.csv").read_text() == "a good file"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["act", "absent", "absent.csv"], "absent: there is no such file"),
        (["act", "p.safetensors", "absent.csv"], "there is no such file"),
        (["act", "p.safetensors", "o.csv", "--keep", "name"], "has no column 'name'"),
        (["act", "p.safetensors", "o.csv", "--out", "x.txt"], "must end in .parquet, .csv or .json"),
        (["act", ".", "o.csv"], "it is not a run folder"),
        (["act", "o.csv", "o.csv"], "it is not a policy file"),
        (["export", "p.safetensors", "--format", "onnx", "--out", "x.py"], "must end in .onnx"),
        (["export", "p.safetensors", "--format", "pickle", "--out", "x.py"], "there is no export format 'pickle'"),
        (["export", "p.safetensors", "--format", "numpy", "--out", "o.csv/x.py"], "cannot be written"),
        (["export", "o.csv", "--format", "numpy", "--out", "x.py"], "it is not a policy file"),
        (["export", ".", "--format", "numpy", "--out", "x.py"], "it is not a run folder"),
        (["serve", "o.csv"], "it is not a policy file"),
        (["serve", "p.safetensors", "--port", "70000"], "is not in the range"),
        (["report", "absent"], "it is not a run folder"),
        (["report", "p.safetensors"], "it is not a run folder"),
    ],
)
def test_mistakes_are_answered_by_a_sentence(run, saved, tmp_path, monkeypatch, arguments, words):
    (tmp_path / "o.csv").write_text("a,b,c\n1,2,3\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.chdir(tmp_path)
    out = run(*arguments)
    assert out.returncode == 2
    assert words in out.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_port_in_use_is_told(run, saved):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        out = run("serve", saved, "--port", port)
    assert out.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port} (Address already in use" in out.stderr


@pytest.mark.parametrize(("kind", "name"), [("onnx", "x.onnx"), ("numpy", "x.py")])
def test_a_full_disk_leaves_the_good_file(saved, tmp_path, kind, name):
    """A limit on the size of files stands for the full disk."""
    (tmp_path / name).write_text("a good file")
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)); import statewise.cli as c; c.main()"
    )
    out = in_own_process("export", saved, "--format", kind, "--out", tmp_path / name, start=["-B", "-c", limited])
    assert out.returncode == 2
    assert f"{name}: it could not be written (File too large)" in out.stderr
    assert "Traceback" not in out.stderr
    assert (tmp_path / name).read_text() == "a good file"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.safetensors", name]


def test_export_says_which_policy(run, saved, tmp_path):
    out = run("export", saved, "--format", "numpy", "--out", tmp_path / "x.py")
    assert out.returncode == 0, out.stderr
    assert "the policy in that file, for a, b, c" in out.stdout


def test_trees_act_and_say_why_they_are_not_exported(run, trees, tmp_path):
    """From a file and from a run alike."""
    from statewise.learning.runs import RunFolder

    folder = RunFolder.create(tmp_path / "run")
    folder.write_manifest({"seeds": [0]})
    folder.write_policy(0, 3, trees)
    trees.save(tmp_path / "t.safetensors")
    (tmp_path / "o.csv").write_text("a,b\n1,0\n-1,0\n")
    for source in (tmp_path / "run", tmp_path / "t.safetensors"):
        out = run("act", source, tmp_path / "o.csv", "--choose", "likeliest", "--json")
        assert out.returncode == 0, out.stderr
        assert [(row["action"], row["probability_yes"]) for row in json.loads(out.stdout)] == [
            ("yes", pytest.approx(0.8)),
            ("no", pytest.approx(0.1)),
        ]
        out = run("export", source, "--format", "numpy", "--out", tmp_path / "x.py")
        assert out.returncode == 2
        assert (
            "expected a network, or a step between networks, got a TreePolicy: only those can be exported" in out.stderr
        )
        assert not (tmp_path / "x.py").exists()


def test_report_of_a_run(run, tmp_path):
    """With a decision it says the decision; without one, that there is none; a wrong one is named."""
    from reports import example
    from statewise.learning.runs import RunFolder
    from statewise.report.content import to_json

    folder = RunFolder.create(tmp_path / "run")
    folder.write_manifest({"algorithm": "OPPOSD", "seeds": [0, 1], "config": {"discount": 0.98}})
    folder.write_metrics({name: np.ones((2, 7)) for name in ("value", "ratio_ess", "entropy")})
    out = run("report", tmp_path / "run", "--json")
    assert out.returncode == 0, out.stderr
    told = json.loads(out.stdout)
    assert told["answer"] == "not evaluated"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "No answer yet" in page
    assert page.count("<svg") == 3
    decision = {**json.loads(to_json(example())), "curves": [], "manifest": {}, "folder": ""}
    (tmp_path / "run" / "decision.json").write_text(json.dumps(decision))
    out = run("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert "page.html: deploy. On 150 held-out episodes" in out.stdout
    assert (tmp_path / "page.html").read_text().count("<svg") == 12
    (tmp_path / "run" / "decision.json").write_text('{"answer": "deploy"}')
    out = run("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert out.returncode == 2
    assert "decision.json: decision: 'because' is missing" in out.stderr
    assert (tmp_path / "page.html").read_text().count("<svg") == 12


def test_a_tracker_that_is_not_there_is_told_before_learning(run, tmp_path):
    make([2, 3]).save(tmp_path / "log.parquet")
    out = run("fit", tmp_path / "log.parquet", "--out", tmp_path / "run", "--mlflow", "nowhere://x")
    assert out.returncode == 2
    assert "MLflow at nowhere://x: " in out.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "contents", "words"),
    [
        ("manifest.json", b"{", "its manifest.json is damaged"),
        ("manifest.json", b"[]", "its manifest.json is not that of a run"),
        ("metrics.npz", b"PK nonsense", "metrics.npz: it is damaged"),
        ("metrics.npz", b"", "metrics.npz: it is damaged"),
        ("decision.json", b"\xff", "decision.json: "),
        ("policy.safetensors", b"x", "policy.safetensors: it is not a policy file"),
    ],
)
def test_a_damaged_run_is_told(run, tmp_path, name, contents, words):
    from statewise.learning.runs import RunFolder

    folder = RunFolder.create(tmp_path / "run")
    folder.write_manifest({"seeds": [0]})
    (folder.path / name).write_bytes(contents)
    command = ("act", folder.path, tmp_path / "x.csv") if name.startswith("policy") else ("report", folder.path)
    out = run(*command)
    assert out.returncode == 2
    assert words in out.stderr
