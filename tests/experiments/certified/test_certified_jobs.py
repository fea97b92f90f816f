"""Studies of what logs certify: rows are exact, kept, and never computed twice."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import small
from chain import BEHAVIOUR, chain, linear
from statewise.cli.reproduce import command
from statewise.domains import DOMAINS
from statewise.experiments import manifest
from statewise.experiments.certified import jobs
from statewise.experiments.certified.answer import Answer
from statewise.experiments.plots import write_figure
from statewise.experiments.results_page import section
from statewise.experiments.run import run
from statewise.experiments.study import named
from statewise.experiments.tables import tables_of
from statewise.learning.runs import RunError
from statewise.policies.path import PathPolicy

STUDY = """
[small]
title = "a small study"
kind = "certified"
datasets = [300, 301]
score_episodes = 5
cells = [
  { name = "chain", domain = "chain", episodes = 200 },
  { name = "level chain", domain = "level-chain", episodes = 60, datasets = "310-311" },
]

[[small.methods]]
name = "cloning"
algorithm = "behaviour-cloning"
settings = { updates = 2 }
"""
TIMES = ["learning_s", "certifying_s"]
WORTH = ["today", "value", "goal", "best"]
LOG_FIELDS = ["cell", "seed", "answer", "candidate", "step", "low", *WORTH, "tried", *TIMES]
DONE = ["deployed", "candidate", "way", "step", "low"]
ROUND_FIELDS = ["domain", "seed", "round", "today", *DONE, "value", "goal", "seconds"]
GOAL = linear(np.array([[0.01, 0.99]] * 3))


@pytest.fixture(autouse=True)
def _worlds(monkeypatch):
    # both actions of the second pay the same: there is nothing to gain
    worlds = {"chain": chain(), "level-chain": chain(better=0.0)}
    monkeypatch.setattr(DOMAINS, "_entries", {**DOMAINS._entries, **worlds})


def at_once(logs, settings, *, discount, today=None, kept=None):
    """An answer without learning: a step towards the better action, where one is better."""
    better = logs[-1].rewards.max() > 0.6
    start = linear(BEHAVIOUR) if today is None else today
    found = {"candidate": "goal", "way": "mixture", "tried": (), "goal_policy": GOAL, "low": 0.01 * len(logs)}
    policy = PathPolicy(start, GOAL, 0.1) if better else None
    found |= {"policy": policy, "step": 0.1 if better else 0.0, "answer": "deploy" if better else "collect more data"}
    return Answer(SimpleNamespace(**found), 2.0, 1.0)  # pyright: ignore[reportArgumentType]


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(STUDY)
    return named("small", path=path)


@pytest.fixture
def in_rounds(study):
    return replace(study, kind="rounds", rounds=2, cells=study.cells[:1], datasets=(300,))


@pytest.fixture
def out(study, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    counted(monkeypatch)
    run(study, folder, lambda message: None)
    return folder


def rows(folder):
    """What was computed, except for how long it took."""
    return {
        f"{path.parent.name} {path.stem}": [
            {name: value for name, value in row.items() if not name.endswith("_s") and name != "seconds"}
            for row in json.loads(path.read_text())["rows"]
        ]
        for path in sorted(folder.glob("jobs/*/*.json"))
    }


def counted(monkeypatch, stop_at=None):
    """Answers at once, and keeps what was asked; the answer with that number never comes."""
    made = []

    def counting(logs, *arguments, **named):
        if len(made) + 1 == stop_at:
            raise KeyboardInterrupt
        made.append([log.fingerprint for log in logs])
        return at_once(logs, *arguments, **named)

    monkeypatch.setattr(jobs, "answer", counting)
    return made


def test_a_row_says_what_a_log_certified_and_what_that_is_worth(study, tmp_path, monkeypatch):
    small.defaults(monkeypatch)
    small.few_steps(monkeypatch)
    run(replace(study, cells=study.cells[:1], datasets=(301,)), tmp_path, lambda message: None)
    record = json.loads((tmp_path / "jobs" / "chain" / "301.json").read_text())
    (row,) = record["rows"]
    assert list(row) == LOG_FIELDS
    source = chain()
    assert (row["answer"], row["candidate"]) == ("deploy", "always 1")
    assert row["today"] == pytest.approx(source.problem.value(BEHAVIOUR, 1.0))
    mixed = (1 - row["step"]) * BEHAVIOUR + row["step"] * np.array([0, 1])
    assert row["value"] == pytest.approx(source.problem.value(mixed, 1.0), abs=1e-6)
    assert row["goal"] == row["best"] == pytest.approx(1.5)
    assert 0 < row["low"] <= row["value"] - row["today"] + 1e-9
    assert row["tried"][0][2]
    assert record["fingerprints"] == [source.collect(200, seed=301).fingerprint]


def test_what_was_learned_is_kept_and_certified_without_learning_again(study, tmp_path, monkeypatch):
    small.defaults(monkeypatch)
    small.few_steps(monkeypatch)
    one = replace(study, cells=study.cells[:1], datasets=(301,))
    run(one, tmp_path, lambda message: None)
    (path,) = (tmp_path / "learned" / "chain" / "301").iterdir()
    assert path.name == "behaviour-cloning.safetensors"
    before = rows(tmp_path)
    (tmp_path / "jobs" / "chain" / "301.json").unlink()
    monkeypatch.setattr("statewise.experiments.certified.answer.learned", None)
    run(one, tmp_path, lambda message: None)
    assert rows(tmp_path) == before
    (tmp_path / "jobs" / "chain" / "301.json").unlink()
    other = replace(one, methods=(replace(one.methods[0], settings={"updates": 3}),))
    with pytest.raises(RunError, match=r"cloning\.safetensors: made with other settings; choose another folder"):
        run(other, tmp_path, lambda message: None)


def test_where_nothing_is_certified_today_stays(study, out):
    (kept,) = rows(out)["level-chain 310"]
    assert (kept["low"], kept["step"], kept["value"]) == (None, 0.0, kept["today"])
    assert kept["today"] == pytest.approx(0.5)


def test_an_interrupted_study_is_resumed_and_other_settings_are_refused(study, out, tmp_path, monkeypatch):
    tmp_path = tmp_path / "begun"
    counted(monkeypatch, stop_at=3)
    with pytest.raises(KeyboardInterrupt):
        run(study, tmp_path, lambda message: None)
    assert list(rows(tmp_path)) == ["chain 300", "level-chain 310"]  # something of every cell comes first
    made, messages = counted(monkeypatch), []
    run(study, tmp_path, messages.append)
    assert messages[0] == "small: 2 logs left to run"
    assert len(made) == 2
    assert rows(tmp_path) == rows(out)
    with pytest.raises(RunError, match=r"300\.json: made with other settings; choose another folder"):
        run(replace(study, score_episodes=6), tmp_path, messages.append)


def test_rounds_are_resumed_after_the_last_that_is_done(in_rounds, tmp_path, monkeypatch):
    whole = counted(monkeypatch)
    run(in_rounds, tmp_path / "whole", lambda message: None)
    begun = tmp_path / "begun"
    counted(monkeypatch, stop_at=2)
    with pytest.raises(KeyboardInterrupt):
        run(in_rounds, begun, lambda message: None)
    ((first,),) = rows(begun).values()
    assert first["deployed"]
    rest = counted(monkeypatch)
    run(in_rounds, begun, lambda message: None)
    assert rest == whole[1:]
    assert rows(begun) == rows(tmp_path / "whole")
    both = json.loads((begun / "jobs" / "chain" / "300.json").read_text())["rows"]
    assert [list(row) for row in both] == [ROUND_FIELDS] * 2
    assert both[1]["today"] == both[0]["value"]


def test_rounds_whose_policies_are_gone_begin_anew(in_rounds, tmp_path, monkeypatch):
    counted(monkeypatch)
    run(replace(in_rounds, rounds=1), tmp_path, lambda message: None)
    (policy,) = tmp_path.rglob("*.safetensors")
    policy.unlink()
    made = counted(monkeypatch)
    run(in_rounds, tmp_path, lambda message: None)
    assert len(made) == 2


def test_several_processes_share_the_jobs(study, out, tmp_path, monkeypatch):
    asked = []

    def here(compute, parts, processes):
        asked.append(processes)
        return map(compute, reversed(parts))  # whichever is finished first

    monkeypatch.setattr(jobs, "side_by_side", here)
    run(study, tmp_path / "shared", lambda message: None, processes=3)
    assert asked == [3]
    assert rows(tmp_path / "shared") == rows(out)


def test_a_world_that_is_not_installed_is_skipped(study, tmp_path, monkeypatch):
    class Missing:
        discount = 1.0

        def collect(self, *_, **__):
            raise ImportError("this world needs a package")

    monkeypatch.setitem(DOMAINS._entries, "chain", Missing())
    messages = []
    run(replace(study, datasets=(300,), cells=study.cells[:1]), tmp_path, messages.append)
    assert messages[1] == "1 of 1: chain, 300: skipped; this world needs a package"
    assert rows(tmp_path) == {}


def log_row(cell, seed, low, today, value, best=1.0, **others):
    row = dict.fromkeys(LOG_FIELDS, 0.0) | {"cell": cell, "seed": seed, "answer": "deploy", "candidate": "x"}
    return row | {"low": low, "today": today, "value": value, "best": best, "tried": [], **others}


def written(study, folder, made):
    for (place, seed), own in made.items():
        job = jobs.Job(study.cells[place], seed)
        record = {"rows": own, "identity": jobs.identity(study, job.cell), "fingerprints": ["a" * 64], "commit": "c0"}
        jobs.write_record(job.path(folder), record)


def test_the_summary_of_logs(study, tmp_path, monkeypatch):
    times = {"learning_s": 10.0, "certifying_s": 2.5}
    made = {
        (0, 300): [log_row("chain", 300, 0.1, 0.2, 0.4, goal=0.6, **times)],
        (0, 301): [log_row("chain", 301, 0.3, 0.2, 0.4, goal=0.2, **times)],  # certified too much
        (1, 311): [log_row("level chain", 311, None, 0.5, 0.5, best=None, **times)],
    }
    written(study, tmp_path, made)
    tables = tables_of(study, tmp_path)
    assert tables.missing == 1
    first, second = tables.frames["summary"].rows(named=True)
    assert (first["logs"], first["certified"], first["bound_held"]) == (2, 2, 1)
    assert (first["today"], first["deployed"], first["times_today"]) == pytest.approx((0.2, 0.4, 2.0))
    assert (first["goal"], first["share_of_the_possible_gain"]) == pytest.approx((0.4, 0.25))
    assert first["certifying_per_learning"] == pytest.approx(0.25)
    assert (second["certified"], second["bound_held"], second["times_today"]) == (0, 0, 1.0)
    assert np.isnan(second["share_of_the_possible_gain"])
    monkeypatch.setattr("statewise.experiments.results_page.named", lambda name, quick: study)
    text = section(study, tables, tmp_path)
    assert "> Full run; 1 jobs are still missing." in text
    assert "- dataset seeds: 300, 301 (chain); 310, 311 (level chain)" in text
    assert "- commit: c0\n" in text
    assert "| chain | 301 | x | 0 | 0.3 | 0.2 | 0.2 | 0.2 |" in text
    assert "| level chain | 311 | – | – | – | – | 0.5 | 0 |" in text
    pictures = [path.read_bytes() for path in write_figure(study, tables, tmp_path)]
    assert [path.read_bytes() for path in write_figure(study, tables, tmp_path)] == pictures
    manifest.write(tmp_path, study)
    assert json.loads((tmp_path / "manifest.json").read_text())["data"]["chain"] == {"300": "a" * 64, "301": "a" * 64}


def test_the_summary_of_rounds(in_rounds, tmp_path, monkeypatch):
    def row(seed, number, today, value, low):
        named = {"domain": "chain", "seed": seed, "round": number, "candidate": "x", "way": "mixture", "step": 0.1}
        worth = {"today": today, "value": value, "goal": 3.0, "seconds": 4.0}
        return named | worth | {"deployed": low is not None, "low": low}

    made = {
        (0, 300): [row(300, 1, 1.0, 2.0, 0.5), row(300, 2, 2.0, 1.5, 0.2)],  # the second was certified, and is worse
        (0, 301): [row(301, 1, 2.0, 2.0, None)],
    }
    two = replace(in_rounds, datasets=(300, 301))
    written(two, tmp_path, made)
    tables = tables_of(two, tmp_path)
    assert tables.missing == 1
    first, second = tables.frames["summary"].rows(named=True)
    assert [first[name] for name in ("round", "runs", "mean", "least", "greatest")] == [1, 2, 2.0, 2.0, 2.0]
    assert first["times_the_first_behaviour"] == pytest.approx((2.0 + 1.0) / 2)
    names = ("deployed", "bound_held", "worse_than_before")
    assert [[one[name] for name in names] for one in (first, second)] == [[1, 1, 0], [1, 0, 1]]
    assert (second["runs"], second["mean"], second["times_the_first_behaviour"]) == (1, 1.5, 1.5)
    monkeypatch.setattr("statewise.experiments.results_page.named", lambda name, quick: two)
    text = section(two, tables, tmp_path)
    assert "| chain | 300 | 1, 2, 1.5 |" in text
    assert "| chain | 301 | 2, 2 |" in text
    assert min(path.stat().st_size for path in write_figure(two, tables, tmp_path)) > 1000


def test_without_any_job_the_command_says_so(tmp_path):
    done = CliRunner().invoke(command, ["certified", "--out", str(tmp_path), "--no-run"])
    assert done.exit_code != 0
    assert "it has no finished job of 'certified'" in str(done.exception)


def test_a_damaged_record_is_reported(study, tmp_path):
    path = jobs.Job(study.cells[0], 300).path(tmp_path)
    path.parent.mkdir(parents=True)
    for text, message in (("{", "it is damaged"), ('{"rows": 1}', "expected rows, and what they were made with")):
        path.write_text(text)
        with pytest.raises(RunError, match=f"300.json: {message}"):
            tables_of(study, tmp_path)
