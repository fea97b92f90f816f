"""The figure of rounds shows every value at its place."""

import re

import pytest

from statewise.loop import Round
from statewise.report import rounds as module
from statewise.report.rounds import write_rounds

DONE = (
    Round(1, 100, today=1.0, deployed=True, step=0.2, least=1.6, gain_at_least=0.5, value=1.8, goal=3.0, algorithm="a"),
    Round(
        2, 100, today=1.8, deployed=False, step=0.0, least=1.8, gain_at_least=0.0, value=1.8, goal=3.5, algorithm="b"
    ),
)


@pytest.fixture
def lines(monkeypatch, tmp_path):
    """What is drawn, by its label: the points of each line."""
    drawn = []

    class Spied(module.Figure):
        def savefig(self, *arguments, **named):
            drawn.append({line.get_label(): line.get_xydata().tolist() for line in self.axes[0].get_lines()})
            super().savefig(*arguments, **named)

    monkeypatch.setattr(module, "Figure", Spied)

    def lines(*arguments):
        assert write_rounds(*arguments) == arguments[1]
        return drawn[-1]

    return lines


def test_values_stand_at_their_rounds_in_the_worlds_own_rewards(lines, tmp_path):
    drawn = lines(DONE, tmp_path / "rounds.svg", 10.0)
    assert drawn["what is done, in truth"] == [[0, 10.0], [1, 18.0], [2, 18.0]]
    assert drawn["certified at least"] == [[1, 15.0]]  # today's true value and the certified gain
    assert drawn["the goal, in truth"] == [[1, 30.0], [2, 35.0]]


def test_the_same_rounds_give_a_figure_without_a_date(tmp_path):
    text = write_rounds(DONE, tmp_path / "rounds.svg").read_text()
    assert text.startswith("<?xml")
    assert "dc:date" not in text
    assert not re.search(r"\b20\d\d-\d\d-\d\d", text)
    assert [path.name for path in tmp_path.iterdir()] == ["rounds.svg"]


def test_rounds_that_certify_nothing_are_drawn_too(lines, tmp_path):
    assert lines(DONE[1:], tmp_path / "rounds.svg")["certified at least"] == []
