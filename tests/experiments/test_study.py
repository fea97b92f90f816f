"""Studies are data: what is in the file is what runs, and a typo is reported in one sentence."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from statewise.experiments.study import named, studies
from statewise.learning.presets import preset
from statewise.parts.actor import Actor

# Which seeds of logs are whose: what is reported has never been tuned on.
REPORTED = {*range(10), *range(20, 30), *range(70, 100), *range(1000, 2000), *range(2020, 2040)}
EVALUATION = {100, 101}  # further logs, which estimates are made on
TUNING = {*range(300, 500)}  # every setting was chosen on these
RESULTS = Path(__file__).parents[2] / "docs" / "results"

GOOD = """
[small]
title = "t"
kind = "curves"
datasets = [0, 1]
cells = [{ name = "c", domain = "cartpole", episodes = 10 }]
methods = [{ name = "A", algorithm = "opposd" }, { name = "B", algorithm = "sac", every = 7 }]
pairs = [["A", "B"]]
quick = { datasets = [3], episodes = 4, most_updates = 5, every = 2 }
"""


def read(tmp_path, text, **options):
    (tmp_path / "s.toml").write_text(text)
    return named("small", path=tmp_path / "s.toml", **options)


def test_the_paper_is_read_and_reports_seeds_that_were_never_tuned_on():
    for quick in (False, True):
        known = studies(quick=quick)
        paper = {"hard-example", "cartpole", "hiv", "hiv-selection", "hiv-variants", "where-it-matters"}
        assert set(known) == {*paper, "safe-improvement", "suite", "certified", "rounds"}
        for study in known.values():
            assert study.quick == quick
            assert set(study.datasets).union(*(study.seeds_of(cell) for cell in study.cells)) <= REPORTED
            assert set(study.evaluation) <= EVALUATION
    assert not (REPORTED | EVALUATION) & TUNING
    assert [len(known["cartpole"].datasets), len(named("cartpole").datasets)] == [2, 10]


@pytest.mark.parametrize("study", sorted(path.parent.name for path in RESULTS.glob("*/runs.parquet")))
def test_published_runs_are_of_the_reported_seeds(study):
    runs, known = pl.read_parquet(RESULTS / study / "runs.parquet"), named(study)
    if known.kind not in ("certified", "rounds"):
        assert set(runs["dataset"]) == set(known.datasets) <= REPORTED
        return
    for cell in known.cells:  # a page may be made before all logs are done
        assert set(runs.filter(cell=cell.name)["dataset"]) <= set(known.seeds_of(cell)) <= REPORTED


def test_settings_are_the_presets_with_what_the_file_changes():
    study = named("hiv")
    with_anchor, without = (study.config(study.cells[0], study.methods[i]) for i in (0, 2))
    assert with_anchor.actor.anchor.weight == 1
    assert without.actor.anchor.weight == 0
    paper = next(method for method in study.methods if method.name == "OPPOSD (paper)")
    assert study.config(study.cells[0], paper) == preset("paper-hiv")
    study = named("where-it-matters")
    linear = next(cell for cell in study.cells if cell.name == "CartPole, linear")
    assert study.config(linear, study.methods[1]).actor == Actor(hidden=(), learning_rate=0.01)
    blind = next(cell for cell in study.cells if cell.name == "hard example, aliased")
    assert study.config(blind, study.methods[0]).actor == Actor(features=(0, 1, 2, 3))


def test_quick_is_the_same_study_but_small(tmp_path):
    study = read(tmp_path, GOOD, quick=True)
    assert (study.datasets, study.cells[0].episodes, study.every) == ((3,), 4, 2)
    assert [study.config(study.cells[0], method).updates for method in study.methods] == [5, 5]
    assert [study.stride(method) for method in study.methods] == [2, 2]
    assert len(list(read(tmp_path, GOOD).jobs())) == 4


def test_a_cell_may_have_seeds_and_a_preset_of_its_own(tmp_path):
    text = GOOD.replace('"curves"', '"certified"').replace(
        "episodes = 10", 'episodes = 10, datasets = "7-9", preset = "quick"'
    )
    study, small = read(tmp_path, text), read(tmp_path, text, quick=True)
    assert study.seeds_of(study.cells[0]) == (7, 8, 9)
    assert small.seeds_of(small.cells[0]) == (7,)  # as many as the quick run has seeds
    assert study.config(study.cells[0], study.methods[0]) == preset("quick", "opposd", discount=1.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'kind = "curves"',
            'kind = "curve"',
            "small.kind: expected one of exact, curves, selection, cells, safe, certified, rounds, got 'curve'",
        ),
        ('title = "t"', 'titel = "t"', "small.titel: there is no such setting; did you mean 'title'?"),
        ('title = "t"', "", "small: 'title' is missing"),
        ("episodes = 10", 'episodes = "ten"', "small.cells[0].episodes: expected a whole number, got 'ten'"),
        ("datasets = [0, 1]", "datasets = 3", "small.datasets: expected a list, got 3"),
        ("episodes = 10", "episods = 10", "small.cells[0].episods: there is no such setting; did you mean 'episodes'?"),
        ('domain = "cartpole"', 'domain = "carpole"', "there is no domain 'carpole'"),
        ('domain = "cartpole"', 'domain = "hiv", lean = 0.3', "only CartPole's behaviour can lean"),
        ("episodes = 10", 'episodes = 10, datasets = "2-1"', "small.cells[0].datasets: expected a list of seeds or a"),
        ("episodes = 10", "episodes = 10, datasets = [2]", "only studies of certified logs have seeds for each cell"),
        ('algorithm = "sac"', 'algorithm = "sacc"', "there is no algorithm 'sacc'; did you mean 'sac'?"),
        ('algorithm = "opposd"', 'algorithm = "opposd", preset = "papr"', "there is no preset 'papr'"),
        ('algorithm = "sac"', 'algorithm = "sac", preset = "paper-hiv"', "has no settings for sac"),
        (
            'algorithm = "opposd"',
            'algorithm = "opposd", settings = { critic = { stps = 3 } }',
            "A.critic.stps: there is no such setting; did you mean 'steps'?",
        ),
        ('["A", "B"]', '["A", "C"]', "small.pairs: expected two of its methods (A, B), got ['A', 'C']"),
        ('name = "B"', 'name = "A"', "two of its methods have the same name"),
        ("datasets = [3]", "dataset = [3]", "small.quick.dataset: there is no such setting; did you mean 'datasets'?"),
        ("[small]", "[small", "not a TOML file"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(ValueError, match=r"\w") as error:
        read(tmp_path, GOOD.replace(old, new, 1), quick=True)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_parts_that_do_not_exist_are_refused(tmp_path):
    study = read(tmp_path, GOOD)
    assert [method.name for method in study.restricted(methods=["B"]).methods] == ["B"]
    with pytest.raises(ValueError, match="there is no method 'C'; choose from A, B"):
        study.restricted(methods=["C"])
    with pytest.raises(ValueError, match="none of its methods has the preset 'paper'"):
        study.restricted(group="paper")
    with pytest.raises(ValueError, match="there is no study 'large'; choose from small"):
        named("large", path=tmp_path / "s.toml")


def test_the_command_line_lists_the_studies_of_the_file_without_jax():
    code = (
        "import sys; from statewise.cli.reproduce import command; print(*command.params[0].type.choices); "
        "print([name for name in ('jax', 'matplotlib') if name in sys.modules])"
    )
    listed, imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.splitlines()
    assert listed.split() == list(studies())
    assert imported == "[]"
