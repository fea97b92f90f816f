"""A new user's hour: from a file as it comes to an answer and to decisions, with two commands and two flags at most."""

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import statewise as sw
from awkward import LOGS
from small import alone, defaults, few_refits, few_steps
from statewise.cli.main import group
from statewise.data.schema import Schema
from statewise.learning.runs import RunFolder
from statewise.policies.act import arrange
from statewise.policies.exports import EXPORTS

# not needed, but for the time that a test may take
FAST = ["--updates", "2", "--seeds", "1"]
CLONED = ["--algorithm", "behaviour-cloning"]
FASTER = {"email": [], "clinic": CLONED, "inventory": CLONED}
MODEL = ["--propensity-model", "logistic"]


@pytest.fixture(scope="module", params=LOGS)
def answered(request, tmp_path_factory):
    """The log, its run, and what `improve` said."""
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    write, flags = LOGS[name]
    (folder / "log.csv").write_text(write())
    assert len(flags) <= 4  # two flags, each with its value
    with pytest.MonkeyPatch.context() as patch:
        defaults(patch)
        alone(patch)
        few_steps(patch)
        few_refits(patch)
        model = MODEL if "estimate" in flags else []
        arguments = ["improve", "log.csv", *flags, *FAST, *FASTER[name], *model, "--out", "run", "--json"]
        patch.chdir(folder)
        done = CliRunner().invoke(group, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    return name, folder, json.loads(done.stdout)


def learned():
    """The policy that `act` takes from the run in this folder."""
    return RunFolder.open("run").policy()[0]


def test_there_is_an_answer(answered):
    _, folder, answer = answered
    assert answer["answer"] in ("deploy", "do not deploy", "collect more data")
    assert (folder / "run" / "report.html").is_file()


def test_act_takes_the_raw_file(answered, monkeypatch, run):
    name, folder, _ = answered
    monkeypatch.chdir(folder)
    ended = run("act", "run", "log.csv", "--out", "decisions.csv", "--seed", "3")
    assert ended.returncode == 0, ended.stderr
    raw = pl.read_csv("log.csv", separator=";" if name == "clinic" else ",", infer_schema=False)
    decisions = pl.read_csv("decisions.csv")
    assert len(decisions) == len(raw)
    assert set(map(str, decisions["action"])) <= set(learned().action_names)
    assert "not in the policy's log" not in ended.stderr


def test_the_policy_sees_what_it_was_trained_on(answered, monkeypatch, run):
    """The rows of the log, encoded as `act` does, are the observations of the log as `load` reads it."""
    _, folder, _ = answered
    monkeypatch.chdir(folder)
    policy = learned()
    schema = Schema.of(policy.card)
    log = sw.load("log.csv", schema=schema)
    chances = {tuple(row) for row in np.round(policy.probabilities(log.observations), 9).tolist()}
    run("act", "run", "log.csv", "--out", "decisions.parquet")
    decided = pl.read_parquet("decisions.parquet").select(pl.col("^probability_.*$")).to_numpy()
    assert {tuple(row) for row in np.round(decided, 9).tolist()} == chances
    assert (
        json.loads((folder / "run" / "manifest.json").read_text())["schema"]["codes"]
        == json.loads(json.dumps(schema.as_json()))["codes"]
    )


def test_evaluate_needs_no_flag(answered, monkeypatch, run):
    name, folder, _ = answered
    monkeypatch.chdir(folder)
    with pytest.MonkeyPatch.context() as patch:
        defaults(patch)
        few_refits(patch)
        model = MODEL if "estimate" in LOGS[name][1] else []
        ended = run("evaluate", "run/goal.safetensors", "log.csv", "--estimator", "per-decision", *model, "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["gate"]["answer"] in ("deploy", "do not deploy", "collect more data")


def test_a_policy_that_saw_the_log_is_recognised(answered, monkeypatch, run):
    """What fills the gaps was learned from a part of it; it is the same log all the same."""
    _, folder, _ = answered
    monkeypatch.chdir(folder)
    log = sw.load("log.csv", schema=Schema.of(learned().card))
    assert log.fingerprint == learned().card["log"]


@pytest.mark.parametrize("format", ["onnx", "numpy"])
def test_exports_answer_the_raw_rows(answered, format, monkeypatch, run):
    _, folder, _ = answered
    monkeypatch.chdir(folder)
    policy = learned()
    if not hasattr(policy, "weights"):
        pytest.skip("only networks are exported")
    out = f"policy{EXPORTS[format].ending}"
    assert run("export", "run", "--format", format, "--out", out).returncode == 0
    codes = Schema.of(policy.card).codes
    frame = pl.read_csv(
        "log.csv", separator=_separator(folder), decimal_comma=_separator(folder) == ";", null_values="NA"
    )
    rows = [[_as_read(code, row[code.name]) for code in codes] for row in frame.head(200).to_dicts()]
    answer = EXPORTS[format].probabilities((folder / out).read_bytes(), rows)
    np.testing.assert_allclose(answer, policy.probabilities(arrange(policy, rows)), rtol=0, atol=1e-6)


def _separator(folder):
    return ";" if ";" in (folder / "log.csv").read_text().split("\n")[0] else ","


def _as_read(code, value):
    return float(value) if code.kind == "number" and value is not None else value


@pytest.mark.parametrize("name", LOGS)
def test_inspect_shows_every_column_and_writes_what_it_found(name, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    write, flags = LOGS[name]
    text = write()
    (tmp_path / "log.csv").write_text(text)
    shown = json.loads(run("inspect", "log.csv", *flags, "--write-config", "log.toml", "--json").stdout)
    header = text.split("\n")[0].split(";" if name == "clinic" else ",")
    assert sorted(row["column"] for row in shown["columns"]) == sorted(header)
    roles = {row["role"]: row["column"] for row in shown["columns"] if row["role"] not in ("observation", "left out")}
    assert roles == ROLES[name]
    assert all(row["guessed"] and row["flag"].startswith("--") for row in shown["columns"])
    observed = {row["column"] for row in shown["columns"] if row["role"] == "observation"}
    assert not observed & {*ROLES[name].values(), "clicked", "Comment"}
    again = json.loads(run("inspect", "log.csv", "--config", "log.toml", "--json").stdout)
    assert not any(row["guessed"] for row in again["columns"])
    assert again["summary"]["fingerprint"] == shown["summary"]["fingerprint"]


ROLES = {
    "clinic": {
        "episode": "Patient",
        "time": "Visit date",
        "action": "Treatment",
        "reward": "Score",
        "terminated": "Died",
    },
    "email": {
        "episode": "customer_id",
        "time": "sent_at",
        "action": "offer",
        "reward": "revenue",
        "propensity": "p_offer",
    },
    "inventory": {"episode": "SKU", "step": "Week", "action": "Order", "reward": "Profit"},
}
