"""A job learns what `fit` would have learned, is kept, and is never run twice."""

import json
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import polars as pl
import pytest

from statewise.algorithms.acer import ACER
from statewise.algorithms.opposd import OPPOSD
from statewise.domains.cartpole import CARTPOLE
from statewise.domains.hard_example import BEHAVIOUR, HARD_EXAMPLE, SEEN
from statewise.experiments import manifest, records
from statewise.experiments.logs import log_of, play
from statewise.experiments.plots import write_figure
from statewise.experiments.results_page import add_to_page
from statewise.experiments.run import run
from statewise.experiments.stack import part_of, stacked
from statewise.experiments.study import Cell, named
from statewise.experiments.tables import tables_of
from statewise.learning import program as programs
from statewise.learning.fit import fit, keys_of, prepare
from statewise.learning.runs import RunError
from statewise.parts.actor import Actor
from statewise.parts.critic import Critic
from statewise.parts.ratio import ClosedForm
from statewise.policies.network import Policy

SMALL = OPPOSD(
    discount=1.0,
    ratio=ClosedForm(features=16, rank=6),
    critic=Critic(hidden=(8,), batch=40, steps=2, warm_steps=2),
    actor=Actor(hidden=(8,), batch=50, clone_steps=3, clone_batch=20),
    updates=3,
)
STUDY = """
[small]
title = "a small study"
kind = "curves"
measure = "undiscounted"
datasets = [0, 1]
every = 2
reach = 0.5
pairs = [["Off-PAC", "Fitted Q"]]

[[small.cells]]
name = "hard example"
domain = "hard-example"
episodes = 20
settings = { actor = { features = [0, 1, 2, 3] } }

[[small.methods]]
name = "Off-PAC"
algorithm = "offpac"
[small.methods.settings]
updates = 4
critic = { hidden = [8], batch = 40, steps = 2, warm_steps = 2 }
actor = { hidden = [8], batch = 50, clone_steps = 3, clone_batch = 20 }

[[small.methods]]
name = "Fitted Q"
algorithm = "fitted-q"
settings = { updates = 4, trees = 2 }
"""


def test_a_run_in_a_stack_is_the_run_by_itself(monkeypatch):
    """Side by side, as on an accelerator, and filled up to the longer log, or alone."""
    logs = [log_of(Cell("c", "cartpole", 12), seed) for seed in (0, 1)]
    shorter = int(np.argmin([len(data) for data in logs]))
    assert len(logs[0]) != len(logs[1])
    # of the shorter log, fewer episodes end: what fills it up is never drawn
    terminated = logs[shorter].terminated & (np.arange(12) % 3 > 0)
    logs[shorter] = replace(logs[shorter], terminated=terminated)
    ready = [prepare(SMALL, data)[0] for data in logs]
    assert ready[shorter].log.terminal.shape < ready[1 - shorter].log.terminal.shape
    monkeypatch.setattr(programs.jax, "default_backend", lambda: "gpu")  # where runs are mapped
    together = programs.program(SMALL, stacked(ready), keys_of([0, 1]), apart=True)
    begun = together.begin()
    stack, _ = together.advance(begun, 0, SMALL.updates)
    monkeypatch.undo()
    alone = fit(logs[shorter], SMALL, seeds=[shorter], checkpoint_every=SMALL.updates).policies[0]
    for i, weight in enumerate(alone.weights):
        np.testing.assert_allclose(stack.actor.network.weights[i][shorter], weight, rtol=2e-4, atol=2e-5)
    assert np.abs(alone.weights[-1] - begun.actor.network.weights[-1][shorter]).max() > 1e-4


def test_filled_up_rows_repeat_the_last_and_part_of_a_stack_is_its_log():
    config = ACER(discount=1.0)
    logs = [log_of(Cell("c", "cartpole", 12), seed) for seed in (0, 1)]
    ready = [prepare(config, data)[0] for data in logs]
    stack = stacked(ready)
    assert stack.log.horizon == max(data.lengths.max() for data in logs)
    for i, one in enumerate(ready):
        mine = jax.tree.map(lambda leaf: leaf[0], part_of(stack, [i]))
        steps = len(logs[i])
        np.testing.assert_array_equal(mine.log.rows.table[:steps], one.log.rows.table)
        np.testing.assert_array_equal(mine.behaviour[:steps], one.behaviour)
        assert (mine.log.rows.table[steps:] == one.log.rows.table[-1:]).all()


def test_logs_that_cannot_be_stacked_are_refused():
    logs = [log_of(Cell("c", "hard-example", episodes), 0) for episodes in (10, 11)]
    with pytest.raises(
        ValueError, match="logs to stack need the same number of episodes, and either all or none with terminated ones"
    ):
        stacked([prepare(SMALL, data)[0] for data in logs])


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "s.toml"
    path.write_text(STUDY)
    return named("small", path=path)


@pytest.fixture(scope="module")
def out(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    run(study, folder, lambda message: None)
    return folder


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.npz"))}


def test_an_interrupted_run_resumes_to_the_same_bytes(study, out, tmp_path):
    class Interrupted(Exception):
        pass

    def stop(message):
        if "Fitted Q, dataset 0" in message:
            raise Interrupted

    with pytest.raises(Interrupted):
        run(study, tmp_path, stop)
    assert 0 < len(files(tmp_path)) < len(files(out))
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("jobs/**/*.npz")}
    assert len(times) == 3
    messages = []
    run(study, tmp_path, messages.append)
    assert files(tmp_path) == files(out)
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    messages.clear()
    run(study, tmp_path, messages.append)
    assert messages == ["small: nothing left to run"]


def test_jobs_of_other_settings_are_never_mixed_in(study, out, tmp_path):
    other = replace(study, score_episodes=3)
    with pytest.raises(RunError, match=r"off-pac.*made with other settings; choose another folder"):
        run(other, out, lambda message: None)
    with pytest.raises(RunError, match="it holds a full run; choose another folder"):
        run(replace(study, quick=True), out, lambda message: None)


def test_the_manifest_records_what_was_run(study, out):
    written = json.loads((out / "manifest.json").read_text())
    assert written["study"]["datasets"] == [0, 1]
    assert written["settings"]["hard example"]["Off-PAC"]["actor"]["features"] == [0, 1, 2, 3]
    assert written["versions"]["jax"] == jax.__version__
    assert written["data"]["hard example"] == {str(s): log_of(study.cells[0], s).fingerprint for s in (0, 1)}
    job = records.read(records.job_path(out, study.cells[0], study.methods[0], 0))
    assert str(job["fingerprint"]) == log_of(study.cells[0], 0).fingerprint


def test_tables_say_what_the_files_hold(study, out):
    tables = tables_of(study, out)
    assert tables.missing == 0
    scores = np.array(
        [
            [
                records.read(records.job_path(out, study.cells[0], method, seed))["undiscounted"].mean(axis=1)
                for seed in (0, 1)
            ]
            for method in study.methods
        ]
    )
    summary = tables.frames["summary"]
    np.testing.assert_allclose(summary["last_mean"], scores[:, :, -1].mean(axis=1))
    np.testing.assert_allclose(summary["last_deviation"], scores[:, :, -1].std(axis=1, ddof=1))
    pairs = tables.frames["pairs"].filter(pl.col("of") == "last iterate")
    np.testing.assert_allclose(pairs["difference"], [(scores[0] - scores[1])[:, -1].mean()])
    behaviour = np.concatenate([log_of(study.cells[0], seed).returns(1.0) for seed in (0, 1)]).mean()
    np.testing.assert_allclose(summary["behaviour"], behaviour)
    assert summary["runs_below_behaviour"].to_list() == (scores[:, :, -1] < behaviour).sum(axis=1).tolist()
    firsts = [[next((u for u, s in zip((0, 2, 4), run, strict=True) if s >= 0.5), None) for run in m] for m in scores]
    assert summary["runs_that_reach"].to_list() == [sum(f is not None for f in method) for method in firsts]


def test_the_page_gets_one_section_a_study_and_its_files(study, out, tmp_path, monkeypatch):
    monkeypatch.setattr("statewise.experiments.results_page.named", lambda name, quick: study)
    tables = tables_of(study, out)
    from statewise.experiments.tables import write_tables

    write_tables(tables, out)
    first = [path.read_bytes() for path in write_figure(study, tables, out)]
    assert [path.read_bytes() for path in write_figure(study, tables, out)] == first
    page = tmp_path / "results.md"
    add_to_page(study, tables, out, page)
    page.write_text(page.read_text() + "\nwritten by hand\n")
    add_to_page(study, tables, out, page)
    text = page.read_text()
    assert text.count("## a small study") == 1
    assert "written by hand" in text
    assert "> Full run." in text
    assert "statewise reproduce small" in text
    for name in ("figure.svg", "figure.png", "manifest.json", "runs.parquet", "pairs.parquet"):
        assert (tmp_path / "results" / "small" / name).is_file()


def test_policies_are_played_side_by_side_as_they_are_alone():
    from statewise.domains.behaviours import with_noise
    from statewise.domains.simulate import episode_keys, returns, rollout
    from statewise.experiments.logs import SCORE_SEED

    cell, rng = Cell("c", "cartpole", 5), np.random.default_rng(0)
    policies = [
        Policy((rng.normal(size=(4, 2)),), (rng.normal(size=2),), np.zeros(4), np.ones(4), ("a",) * 4, ("0", "1"))
        for _ in range(3)
    ]
    earned = play(cell, policies, episodes=30)  # 90 episodes: more than are simulated side by side
    for policy, scores in zip(policies, earned.undiscounted, strict=True):
        alone = rollout(CARTPOLE, with_noise(policy, 1.0), episode_keys(SCORE_SEED, 30))
        np.testing.assert_array_equal(scores, returns(alone, 1.0))


def test_the_hard_example_is_scored_exactly_and_logged_as_it_is_seen():
    table = np.array([[0.8, 0.2], [0.6, 0.4], [0.6, 0.4], [0.5, 0.5], [0.5, 0.5]])
    logits = np.zeros((6, 2))
    logits[:4] = np.log(table[[0, 1, 3, 4]])  # is_s0, is_s1_or_s2, is_s3, is_s4
    policy = Policy((logits,), (np.zeros(2),), np.zeros(6), np.ones(6), tuple("abcdef"), ("l", "r"))
    np.testing.assert_allclose(policy.probabilities(SEEN), table)
    cell = Cell("h", "hard-example", 300)
    assert play(cell, [policy], 5).undiscounted[0, 0] == pytest.approx(HARD_EXAMPLE.value(table, 1.0))
    log = log_of(cell, 0)
    assert (log.observations[:, 1] == log.observations[:, 4] + log.observations[:, 5]).all()
    assert log.returns(1.0).mean() == pytest.approx(HARD_EXAMPLE.value(BEHAVIOUR, 1.0), abs=0.1)


@pytest.mark.parametrize(("lean", "least", "most"), [(0.5, 30, 200), (-0.5, 5, 15)])
def test_a_behaviour_may_lean_towards_balancing_or_away(lean, least, most):
    cell = Cell("c", "cartpole", 20, lean=lean)
    data = log_of(cell, 0)
    assert least < data.returns(1.0).mean() < most
    # the rule's own share, and what is left to chance; in between close to where it switches
    assert data.propensities.min() >= 0.25 - 1e-6
    assert data.propensities.max() <= 0.75 + 1e-6
    assert np.mean((data.propensities < 0.26) | (data.propensities > 0.74)) > 0.5


def test_jobs_run_without_the_table_and_picture_libraries():
    code = (
        "import sys, statewise.experiments.run; print([n for n in ('polars', 'click', 'rich', 'matplotlib', 'scipy', "
    )
    code += "'sklearn') if n in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "[]", out.stdout + out.stderr


def test_the_hard_example_on_the_command_line(tmp_path):
    from click.testing import CliRunner

    from statewise.cli.reproduce import command

    arguments = ["hard-example", "--out", str(tmp_path / "out"), "--docs", str(tmp_path / "results.md")]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    table = pl.read_parquet(tmp_path / "out" / "gradients.parquet")
    np.testing.assert_allclose(table["gradient OPPOSD"], 0.5, atol=1e-12)
    np.testing.assert_allclose(table["gradient Off-PAC"], 0.0, atol=1e-12)
    paths = pl.read_parquet(tmp_path / "out" / "paths.parquet")
    assert paths["path OPPOSD"][-1] == 1
    np.testing.assert_allclose(paths["path Off-PAC"], 0.3, atol=1e-12)
    assert "![The hard example" in (tmp_path / "results.md").read_text()
    for name in ("figure.png", "figure.svg", "manifest.json"):
        assert (tmp_path / "results" / "hard-example" / name).stat().st_size > 0
    # a folder whose parts were run elsewhere has no manifest of its own
    (tmp_path / "out" / "manifest.json").unlink()
    assert CliRunner().invoke(command, [*arguments, "--no-run"]).exit_code == 0
    assert manifest.read(tmp_path / "out")["study"]["name"] == "hard-example"
