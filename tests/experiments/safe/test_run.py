"""A study of safe policy improvement: every log is scored exactly, kept, and never run twice."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.domains.random_mdp import problem
from statewise.experiments.plots import write_figure
from statewise.experiments.results_page import section
from statewise.experiments.run import run
from statewise.experiments.safe.finite_log import FiniteLog
from statewise.experiments.safe.run import blocks
from statewise.experiments.safe.spibb import SPIBB
from statewise.experiments.safe.tables import cvar
from statewise.experiments.study import named
from statewise.experiments.tables import tables_of
from statewise.learning.fit import fit
from statewise.learning.runs import RunError

STUDY = """
[small]
title = "a small study"
kind = "safe"
datasets = "300-302"
cells = [
  { name = "random MDPs", domain = "random-mdp", episodes = 40, settings = { least_count = 3.0 } },
  { name = "Wet Chicken", domain = "wet-chicken", episodes = 10 },
]

[[small.methods]]
name = "SPIBB"
algorithm = "spibb"

[[small.methods]]
name = "HCPI"
algorithm = "hcpi"

[[small.methods]]
name = "cloning"
algorithm = "behaviour-cloning"
most_datasets = 2
settings = { updates = 4, hidden = [8], batch = 40, learning_rate = 0.1 }
"""
TABULAR = ("SPIBB", "HCPI")


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
    """What was computed, except for how long it took."""
    arrays = {}
    for path in sorted(folder.rglob("*.npz")):
        with np.load(path) as file:
            arrays[path.name, path.parent.name, path.parent.parent.name] = {
                name: file[name].tolist() for name in file.files if name != "seconds"
            }
    return arrays


def test_every_method_runs_on_its_datasets(study):
    seeds = {(block.cell.name, block.method.name): block.seeds for block in blocks(study)}
    assert seeds["Wet Chicken", "SPIBB"] == (300, 301, 302)
    assert seeds["Wet Chicken", "cloning"] == (300, 301)
    assert len(seeds) == 6
    assert study.config(study.cells[0], study.methods[0]) == SPIBB(least_count=3.0)


def test_scores_are_exact_shares_of_the_possible_improvement(study, out):
    runs = tables_of(study, out).frames["runs"]
    source = problem(301)
    mdp = source.problem
    policy = SPIBB(least_count=3.0)(FiniteLog.of(source, source.collect(40, 301)))
    today, best, new = (mdp.value(one, 0.95) for one in (source.behaviour, mdp.optimal(0.95), policy))
    row = runs.filter(cell="random MDPs", method="SPIBB", dataset=301).row(0, named=True)
    assert row["score"] == pytest.approx((new - today) / (best - today), rel=1e-12)
    assert row["gain"] == pytest.approx(np.subtract(*source.play([policy, None], 1).discounted[:, 0]), rel=1e-9)
    assert not row["kept"]
    kept = runs.filter(pl.col("kept"))
    assert set(kept["method"]) <= {"HCPI"}
    assert len(kept) > 0
    assert (kept["score"] == 0).all()


def test_what_is_learned_from_many_logs_is_what_fit_learns_from_each(study, out):
    runs = tables_of(study, out).frames["runs"].filter(method="cloning")
    assert runs["dataset"].to_list() == [300, 301] * 2
    source, cell = problem(301), study.cells[0]
    mdp = source.problem
    alone = fit(sw.DOMAINS["random-mdp"].collect(40, 301), study.config(cell, study.methods[2]), seeds=[301])
    today, best = (mdp.value(one, 0.95) for one in (source.behaviour, mdp.optimal(0.95)))
    expected = (mdp.value(source.table(alone.policies[0]), 0.95) - today) / (best - today)
    assert runs.filter(cell="random MDPs", dataset=301)["score"][0] == pytest.approx(expected, abs=1e-4)
    assert abs(expected) > 1e-3


def test_a_run_is_resumed_and_other_settings_are_refused(study, out, tmp_path):
    class Interrupted(Exception):
        pass

    def stop(message):
        if "SPIBB" in message:
            raise Interrupted

    tabular = study.restricted(methods=TABULAR)
    with pytest.raises(Interrupted):
        run(tabular, tmp_path, stop)
    assert len(files(tmp_path)) == 1
    messages = []
    run(tabular, tmp_path, messages.append)
    assert messages[0] == "small: 3 blocks of logs left to run"
    whole = files(out)
    assert files(tmp_path) == {key: value for key, value in whole.items() if key[1] != "cloning"}
    other = named("small", path=_written(tmp_path, STUDY.replace("least_count = 3.0", "least_count = 4.0")))
    with pytest.raises(RunError, match="made with other settings; choose another folder"):
        run(other.restricted(methods=TABULAR), tmp_path, messages.append)


def test_several_processes_compute_the_same(study, out, tmp_path):
    run(study.restricted(methods=TABULAR), tmp_path, lambda message: None, processes=2)
    assert files(tmp_path) == {key: value for key, value in files(out).items() if key[1] != "cloning"}


def test_the_summary_says_what_the_runs_hold(study, out, monkeypatch):
    tables = tables_of(study, out)
    assert tables.missing == 0
    for row in tables.frames["summary"].iter_rows(named=True):
        runs = tables.frames["runs"].filter(cell=row["cell"], method=row["method"])
        assert row["mean"] == pytest.approx(runs["score"].mean())
        assert row["cvar_1_percent"] == row["least"] == min(runs["score"])
        assert row["new_policies"] == pytest.approx(1 - runs["kept"].mean())
        assert row["worse_than_today"] == pytest.approx((runs["gain"].to_numpy() < 0).mean())
    monkeypatch.setattr("statewise.experiments.results_page.named", lambda name, quick: study)
    text = section(study, tables, out)
    assert "### Wet Chicken" in text
    assert "dataset seeds: 300, 301, 302" in text
    first = [path.read_bytes() for path in write_figure(study, tables, out)]
    assert min(map(len, first)) > 1000
    manifest = json.loads((out / "manifest.json").read_text())
    assert set(manifest["data"]["random MDPs"]) == {"300-302", "300-301"}
    assert manifest["settings"]["random MDPs"]["SPIBB"] == {"discount": 0.95, "least_count": 3.0}


def test_cvar_is_the_mean_of_the_worst_hundredth():
    scores = np.random.default_rng(0).permutation(np.arange(1000.0))
    assert cvar(scores) == np.mean(np.arange(10))
    assert cvar(np.array([3.0, 1.0, 2.0])) == 1.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"300-302"', '"300"', "small.datasets: expected a list of seeds or a range such as '1000-1999', got '300'"),
        ('"wet-chicken"', '"cartpole"', "cell Wet Chicken: expected a finite problem, got 'cartpole'"),
        ('kind = "safe"', 'kind = "curves"', "every seed of 'random-mdp' is another problem; use kind = 'safe', or"),
        ('algorithm = "hcpi"', 'algorithm = "hcpy"', "there is no algorithm 'hcpy'"),
    ],
)
def test_mistakes_in_the_file_are_reported(old, new, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        named("small", path=_written(tmp_path, STUDY.replace(old, new)))


def test_other_studies_run_in_one_process(tmp_path):
    with pytest.raises(ValueError, match="processes: expected 1, since 'cartpole' runs in one process, got 4"):
        run(named("cartpole"), tmp_path, lambda message: None, processes=4)


def test_methods_run_without_the_table_and_picture_libraries():
    code = (
        "import sys; from statewise.experiments.safe import METHODS; import statewise.experiments.safe.run; "
        "METHODS.values(); print([n for n in ('polars', 'click', 'rich', 'matplotlib', 'scipy') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def _written(folder, text):
    path = folder / "changed.toml"
    path.write_text(text)
    return path
