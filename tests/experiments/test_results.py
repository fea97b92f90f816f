"""The numbers in the text of docs/results.md are those of its tables."""

import re
from pathlib import Path

import polars as pl
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "results.md"
TEXT = PAGE.read_text(encoding="utf-8").split("<!-- hard-example -->")[0]

# study, cell, method, what of the summary, digits
MEANS = [
    ("cartpole", "cartpole", "OPPOSD", "last_mean", 1),
    ("cartpole", "cartpole", "OPPOSD", "last_least", 0),
    ("cartpole", "cartpole", "Off-PAC", "last_mean", 1),
    ("cartpole", "cartpole", "Off-PAC", "last_least", 0),
    ("cartpole", "cartpole", "OPPOSD (paper)", "last_mean", 0),
    ("cartpole", "cartpole", "Off-PAC (paper)", "last_mean", 0),
    ("cartpole", "cartpole", "CQL", "last_mean", 1),
    ("cartpole", "cartpole", "SAC", "last_mean", 1),
    ("hiv", "hiv", "OPPOSD", "last_mean", 2),
    ("hiv", "hiv", "Off-PAC", "last_mean", 2),
    ("hiv", "hiv", "OPPOSD", "behaviour", 3),
    ("hiv", "hiv-weak", "OPPOSD", "last_mean", 2),
    ("hiv", "hiv-weak", "OPPOSD", "best_mean_of_the_curve", 1),
    ("hiv", "hiv-weak", "Off-PAC", "last_mean", 2),
    ("hiv", "hiv-weak", "OPPOSD, slow actor", "last_mean", 2),
    ("hiv", "hiv-weak", "Off-PAC, slow actor", "last_mean", 2),
    ("hiv-variants", "hiv", "discounted ratio", "last_mean", 2),
    ("hiv-variants", "hiv", "full", "last_mean", 2),
    ("hiv-variants", "hiv", "average", "last_mean", 2),
    ("where-it-matters", "hard example, aliased", "OPPOSD", "last_mean", 2),
    ("where-it-matters", "hard example, aliased", "Off-PAC", "last_mean", 2),
    ("where-it-matters", "CartPole, behaviour farther", "OPPOSD", "last_mean", 0),
    ("where-it-matters", "CartPole, behaviour farther", "Off-PAC", "last_mean", 0),
    ("where-it-matters", "CartPole, linear", "OPPOSD", "last_mean", 0),
    ("where-it-matters", "CartPole, linear", "Off-PAC", "last_mean", 0),
    ("where-it-matters", "CartPole, full network", "OPPOSD", "last_mean", 0),
    ("where-it-matters", "CartPole, full network", "Off-PAC", "last_mean", 0),
    ("where-it-matters", "CartPole, 50 episodes", "OPPOSD", "last_mean", 0),
    ("where-it-matters", "CartPole, 50 episodes", "Off-PAC", "last_mean", 0),
    ("where-it-matters", "CartPole, 150 episodes", "OPPOSD", "last_mean", 0),
    ("where-it-matters", "CartPole, 150 episodes", "Off-PAC", "last_mean", 0),
]
# study, cell, first, second, does the interval of the last iterates' difference lie above 0, below, or around it
DECIDED = [
    ("cartpole", "cartpole", "OPPOSD", "Off-PAC", 1),
    ("cartpole", "cartpole", "OPPOSD (paper)", "Off-PAC (paper)", 0),
    ("hiv", "hiv", "OPPOSD", "Off-PAC", 0),
    ("hiv", "hiv-weak", "OPPOSD", "Off-PAC", -1),
    ("hiv", "hiv-weak", "OPPOSD, slow actor", "Off-PAC, slow actor", 1),
    ("hiv", "hiv", "OPPOSD, no anchor", "Off-PAC, no anchor", 1),
    ("hiv-variants", "hiv", "discounted ratio", "full", 1),
    ("hiv-variants", "hiv-weak", "discounted ratio", "full", 0),
    ("hiv-variants", "hiv-weak", "discounted ratio", "average", 0),
    ("where-it-matters", "hard example, aliased", "OPPOSD", "Off-PAC", 1),
    ("where-it-matters", "CartPole, linear", "OPPOSD", "Off-PAC", 1),
    ("where-it-matters", "CartPole, full network", "OPPOSD", "Off-PAC", 1),
    ("where-it-matters", "CartPole, 150 episodes", "OPPOSD", "Off-PAC", 1),
    ("where-it-matters", "CartPole, 50 episodes", "OPPOSD", "Off-PAC", 1),
    ("where-it-matters", "CartPole, sees the angle alone", "OPPOSD", "Off-PAC", 0),
]


def table(study: str, name: str) -> pl.DataFrame:
    return pl.read_parquet(PAGE.parent / "results" / study / f"{name}.parquet")


@pytest.mark.parametrize(("study", "cell", "method", "column", "digits"), MEANS)
def test_a_number_in_the_words_is_in_the_table(study, cell, method, column, digits):
    row = table(study, "summary").row(by_predicate=(pl.col("cell") == cell) & (pl.col("method") == method), named=True)
    assert re.search(rf"(?<![\d.]){re.escape(f'{row[column]:.{digits}f}')}(?!\d)", TEXT)


@pytest.mark.parametrize(("study", "cell", "first", "second", "sign"), DECIDED)
def test_what_is_said_to_be_decided_is(study, cell, first, second, sign):
    pairs = table(study, "pairs").filter(of="last iterate", cell=cell, first=first, second=second)
    row = pairs.row(0, named=True)
    assert (row["low"] > 0) - (row["high"] < 0) == sign


def test_runs_that_end_below_the_behaviour_are_those_that_are_named():
    below = table("hiv", "summary").filter(pl.col("runs_below_behaviour") > 0)
    assert set(below.select("cell", "method", "runs_below_behaviour").rows()) == {
        ("hiv-weak", "OPPOSD (paper)", 10),
        ("hiv-weak", "Off-PAC (paper)", 10),
        ("hiv", "CQL", 2),
    }


def test_estimates_follow_the_truth_where_they_are_said_to():
    selection = table("hiv-selection", "selection")
    paper, ours = selection.filter(method="OPPOSD (paper)"), selection.filter(method="OPPOSD")
    quoted = [*paper["correlation"], *paper.filter(cell="hiv")["correlation_by_ratio"], *ours["select_truth"]]
    assert all(f"{number:.2f}" in TEXT for number in quoted)
    assert ours["identified"].to_list() == [0] * 4
    times = (ours["select_truth"] / ours["behaviour"]).round().to_list()
    assert times == [51, 51, 70, 70]


def test_without_an_anchor_runs_reach_the_top_or_fall():
    runs = table("hiv", "runs").filter(pl.col("cell") == "hiv").sort("update")
    last = runs.group_by("method", "dataset").agg(pl.col("score").last())
    for method, reach in (("OPPOSD, no anchor", 7), ("Off-PAC, no anchor", 2)):
        scores = last.filter(pl.col("method") == method)["score"]
        assert (scores > 9).sum() == reach
        assert (scores < 0.5).sum() == 10 - reach
