"""What notebooks show: the numbers that the objects hold, none where the log does not tell, no foreign markup."""

import re
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest

import statewise as sw
from logs import make
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.improvement import Improvement
from statewise.learning.fit import Result
from statewise.ope.certify import Certificate
from statewise.ope.next_log import NextLog
from statewise.ope.walk import Step
from statewise.report.content import ReportContent
from statewise.report.formatting import number
from statewise.report.svg import Interval, intervals

MDP = TabularMDP.random(4, 2, seed=3, termination=0.3)
BEHAVIOUR = np.random.default_rng(0).dirichlet([4.0, 4.0], size=4)
GREEDY = np.eye(2)[MDP.action_values(BEHAVIOUR, 1.0).argmax(axis=1)]


@cache
def log():
    return collect_tabular(MDP, BEHAVIOUR, 400, 40, 0)


@cache
def decision(better=True):
    table = 0.6 * BEHAVIOUR + 0.4 * (GREEDY if better else 1 - GREEDY)
    return sw.gate(lambda seen: seen @ table, log(), estimator="per-decision", draws=50)


def shown(one) -> ElementTree.Element:
    """The picture and words, which must be well-formed, and without anything that runs or loads."""
    text = one._repr_html_()
    assert len(text) < 30_000
    assert not re.search(r"<script|<link|<style|<img|href|http(?!://www.w3.org/2000/svg)", text)
    return ElementTree.fromstring(text)


def words(one) -> str:
    return " ".join(" ".join(shown(one).itertext()).split())


def picture(one) -> ElementTree.Element:
    (svg,) = shown(one).iter("{http://www.w3.org/2000/svg}svg")
    assert svg.get("role") == "img"
    assert svg.get("aria-label")
    return svg


def test_a_log_shows_how_often_each_action_was_taken():
    data = make([4, 2, 3])
    said, svg = words(data), picture(data)
    assert "Log of 3 episodes, 9 decisions" in said
    widths = [float(bar.get("width")) for bar in svg.iter("{http://www.w3.org/2000/svg}rect")]
    shares = np.sort(np.bincount(data.actions, minlength=3) / 9)[::-1]
    np.testing.assert_allclose(np.array(widths) / widths[0], shares / shares[0], atol=0.01)


def test_names_of_a_log_are_text_alone():
    data = replace(make([4, 2]), action_names=("<script>alert(1)</script>", "b & c", "ok"))
    assert "<script>alert(1)</" in words(data)
    assert "b & c" in words(data)


def test_an_estimate_shows_its_interval():
    one = decision().estimate
    assert number(one.value) in words(one)
    circle = next(picture(one).iter("{http://www.w3.org/2000/svg}circle"))
    line = next(e for e in picture(one).iter("{http://www.w3.org/2000/svg}line") if e.get("stroke-width") == "3")
    left, right = float(line.get("x1")), float(line.get("x2"))
    place = (float(circle.get("cx")) - left) / (right - left)
    assert place == pytest.approx((one.value - one.low) / (one.high - one.low), abs=0.01)


def test_where_the_log_does_not_tell_there_is_no_number():
    one = replace(decision().estimate, verdict="not identified", value=123.456, low=111.0, high=133.0)
    for said in (words(one), one._repr_html_()):
        assert "123" not in said
        assert "111" not in said
    judged = replace(decision(), verdict="not identified", difference=77.7, low=66.6, high=88.8, estimate=one)
    assert not re.search("77|66\\.6|88|123", "".join(shown(judged).itertext()))


@pytest.mark.parametrize("better", [True, False])
def test_a_decision_shows_both_policies_and_the_gain(better):
    one = decision(better)
    said = words(one)
    assert said.startswith(one.answer.capitalize())
    assert len(list(picture(one).iter("{http://www.w3.org/2000/svg}circle"))) == 2
    assert number(one.difference) in said


def certificate(passed=True) -> Certificate:
    """Two steps, the second of which failed, and a third of which the log tells nothing."""
    first, second = decision(), decision(False)
    nothing = replace(first, verdict="not identified", difference=555.5)
    steps = (
        Step(0.1, first, first.low, passed),
        Step(0.5, second, second.low, False),
        Step(1.0, nothing, 444.4, False),
    )
    return Certificate(
        answer="deploy" if passed else "collect more data",
        reason="because",
        step=0.1 if passed else 0.0,
        policy=first if passed else None,
        difference=first.difference,
        low=first.low,
        high=first.high,
        level=0.95,
        tried=steps,
        forecast=(),
        decision=first,
        goal=nothing,
        hidden_reason=None,
        next=NextLog(passed, 0.5, 180, 0.8),
        candidate="cql",
        goal_policy=None,
        today=None,
    )


@pytest.mark.parametrize("passed", [True, False])
def test_a_certificate_shows_the_path(passed):
    one = certificate(passed)
    assert len(list(picture(one).iter("{http://www.w3.org/2000/svg}circle"))) == 2
    said = words(one)
    assert one.next.sentence in said
    assert said.startswith("Deploy Because" if passed else "Collect more data Because")
    assert not re.search("555|444", said)
    drawn = [line.get_xydata()[0].tolist() for line in one.plot().get_lines() if line.get_marker() == "o"]
    assert drawn == [[step.step, step.decision.difference] for step in one.tried[:2]]


def test_an_improvement_shows_its_files_too(tmp_path):
    one = Improvement(certificate(), ReportContent("deploy", "because"), tmp_path)
    said = words(one)
    for path in (one.policy_file, one.goal_file, one.report):
        assert str(path) in said
    assert one.certificate.next.sentence in said
    assert len(one.plot().get_lines()) == len(one.certificate.plot().get_lines())


def test_a_result_shows_its_curves():
    values = np.array([[1.0, 2.0, 4.0], [1.0, np.nan, 3.0]])
    one = Result((), {}, {"value": values, "entropy": values}, sw.OPPOSD(discount=0.9, updates=3), (0, 1))
    assert "OPPOSD, 2 seeds" in words(one)
    lines = [line.get("points").split() for line in picture(one).iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(line) for line in lines] == [3, 2]
    heights = [float(point.split(",")[1]) for point in lines[0]]
    assert (heights[0] - heights[1]) / (heights[0] - heights[2]) == pytest.approx(1 / 3, abs=0.01)
    ax = one.plot("entropy")
    np.testing.assert_array_equal(ax.get_lines()[1].get_ydata(), values[1])
    with pytest.raises(ValueError, match="expected one of value, entropy, got 'x'"):
        one.plot("x")
    nothing = replace(one, metrics={"value": np.full((1, 3), np.nan)})
    assert "svg" not in nothing._repr_html_()


def test_a_log_plots_its_returns():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert log().plot(ax) is ax
    assert sum(bar.get_height() for bar in ax.patches) == log().episodes


@pytest.mark.parametrize("rows", [[], [Interval("a", None)], [Interval("a", 0.0)], [Interval("a", 1e9, -1e9, 1e12)]])
def test_pictures_of_little_or_much_are_drawn(rows):
    svg = ElementTree.fromstring(intervals(rows, "x"))
    places = [float(e.get("cx")) for e in svg.iter("{http://www.w3.org/2000/svg}circle")]
    assert all(0 <= place <= 440 for place in places)
