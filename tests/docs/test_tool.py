"""What the documentation lists is what the code has: every page is as `tools/docs.py` would write it."""

import pytest

import docs
import statewise as sw


@pytest.fixture(scope="module")
def pages():
    return docs.pages()


def test_pages_are_as_the_tool_writes_them(pages):
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date: run `python tools/docs.py`"


@pytest.mark.parametrize("name", docs.LISTS)
def test_every_list_is_on_one_page(name, pages):
    assert sum(f"<!-- {name} -->" in text for text in pages.values()) == 1


def test_the_reference_has_every_public_name():
    lines = docs.api().splitlines()
    for name in sw.__all__:
        assert [line for line in lines if line.endswith(f".{name}") or line == f"### {name}"], name


def test_a_name_in_no_group_is_an_error(monkeypatch):
    monkeypatch.setitem(docs.HOMES, "forgotten", "statewise.nowhere")
    with pytest.raises(ValueError, match="look for forgotten"):
        docs.api()


@pytest.mark.parametrize(
    ("bounds", "unit", "cells"),
    [
        ((0.01, 0.05), "of decisions", "| ≤ 1 % | ≤ 5 % | of decisions |"),
        ((30.0, 10.0), "episodes, at least", "| ≥ 30 | ≥ 10 | episodes |"),
        ((2.0, None), "standard errors", "| ≤ 2 | any | standard errors |"),
    ],
)
def test_bounds_are_shown_with_their_units(bounds, unit, cells, monkeypatch):
    measure = sw.Measure("A title", "A meaning.", bounds, lambda _: 0.0, lambda _: "", unit=unit)
    monkeypatch.setattr(sw, "MEASURES", {"one": measure})
    assert docs.measures().splitlines()[2:] == [f"| A title | A meaning. {cells}"]


def test_propensities_that_algorithms_need(pages):
    rows = [[cell.strip() for cell in row.split("|")] for row in pages[docs.DOCS / "reference.md"].splitlines()]
    needs = {row[1].strip("`"): row[-2] for row in rows if len(row) == 6}
    assert needs["opposd"] == needs["offpac"] == "of the action taken"
    assert needs["acer"] == "of every action"
    assert needs["cql"] == needs["fitted-q"] == "not needed"


def test_settings_that_differ_are_named():
    assert docs._settings(sw.OPPOSD(critic=sw.Critic(batch=7), updates=9), sw.OPPOSD()) == [
        "critic.batch=7",
        "updates=9",
    ]
    (other,) = docs._settings(sw.OPPOSD(ratio=sw.RatioNetwork(steps=3)), sw.OPPOSD())
    assert other == "ratio=RatioNetwork(steps=3)"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One line.", "One line."),
        ("V = Σₜ γᵗ rₜ. Precup, Sutton, Singh (2000).", "V = Σₜ γᵗ rₜ."),
        ("Broken\nover lines. More.\n\nAnd more.", "Broken over lines."),
        ("No full stop\n\nAn equation.", "No full stop"),
    ],
)
def test_first_sentences(text, first):
    assert docs._first_sentence(text) == first
