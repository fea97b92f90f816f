"""The page puts the answer first, shows no number that is not identified, and loads nothing from elsewhere."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from reports import example, refused
from statewise.base.decode import DecodeError
from statewise.ope.estimate import Estimate
from statewise.ope.examples import Example, Moment
from statewise.ope.subgroups import GroupGain
from statewise.ope.support import Support
from statewise.policies.rule import Branch, Rule
from statewise.report.content import ActionMap, ReportContent, Worth, from_json, to_json
from statewise.report.facts import FlowStep
from statewise.report.forest import forest
from statewise.report.formatting import interval, number, spoken
from statewise.report.page import render


class Page(HTMLParser):
    """What a reader, or a screen reader, meets."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.pieces: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        # no line ends between a number and its sign; here all spaces are alike
        self.tags.append((tag, {name: (value or "").replace("\N{NO-BREAK SPACE}", " ") for name, value in attrs}))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] != "style":
            self.pieces.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())


@pytest.fixture(scope="module")
def html():
    return render(example())


def test_the_answer_comes_first(html):
    text = Page(html).text
    body = text[text.index("Treatment log") :]
    order = ["Deploy the new policy", "On 150 held-out episodes", "multiply the odds of an action by 2.1"]
    order += ["20.2 to 22.6", "about 27.9 at least 24.0: today and the gain"]
    order += ["at least 2.60 95 % sure; about 6.5", "19.6 to 48.2"]
    order += ["What to do next", "it follows the goal in 44 % of the decisions", "Log about 500 episodes"]
    order += [
        "What was looked at",
        "treatment.csv",
        "2019-03-01 to 2023-11-30",
        "500 episodes of 480 units",
        "judging patient",
    ]
    order += ["outcome, summed over an episode, discounted", "Discount γ 0.98", "a reward counts 2 % less: most"]
    order += ["Episodes are cut off at step 100, the limit: the value counts up to it."]
    order += [
        "How far does the log reach?",
        "What would change?",
        "The goal in a few words (OPPOSD)",
        "cell_count ≤ 340",
    ]
    order += ["Examples for an expert", "Who gains, who loses?", "ward: ICU: this group loses, beyond chance."]
    order += [
        "12 % of the episodes begin where",
        "Early and late",
        "What is it worth?",
        "The answer rests on these checks",
    ]
    order += ["What was not checked", "Actions that were tried: Whole distributions were not logged."]
    order += [
        "From the log to the answer",
        "Log: treatment.csv",
        "Which episodes count most",
        "Each line is one run, of OPPOSD, from",
    ]
    assert [text for text in order if text not in body] == []
    places = [body.index(text) for text in order]
    assert places == sorted(places)


def test_how_far_the_log_reaches_and_what_to_log_next(html):
    page = Page(html)
    (path,) = (one["aria-label"] for _, one in page.tags if "along the way to the goal" in one.get("aria-label", ""))
    assert path == (
        "The gain over today along the way to the goal, 4 steps tested. The step to deploy, 44 % of the way, gains at "
        "least 2.60. The last tested, 70 % of the way: not identified."
    )
    assert "Log about 500 episodes of the policy to deploy. " in page.text
    assert "cell_count ≤ 340" in page.text
    (nothing,) = (
        one["aria-label"]
        for _, one in Page(render(refused())).tags
        if "along the way to the goal" in one.get("aria-label", "")
    )
    assert "No step was certified. The last tested, 2 % of the way: not identified." in nothing
    bare = Page(render(replace(example(), path=(), next_log=None))).text
    assert "From today to the goal" not in bare


@pytest.mark.parametrize(
    ("gamma", "shown"),
    [
        (1.004, "however weak, could overturn this"),
        (1.058, "by 1.05 at one decision of an episode to overturn this: make it 51 % likely where the log says 50 %"),
        (2.97, "by 2.9 at one decision of an episode to overturn this: make it 75 % likely"),  # never rounded up
        (19.9, "by 19 at one decision"),
        (100.0, "by more than 100 at one decision"),
    ],
)
def test_how_strong_a_hidden_reason_would_have_to_be(gamma, shown):
    bare = ReportContent("deploy", "A reason.")
    assert shown in Page(render(replace(bare, hidden_reason=gamma))).text
    assert "overturn this" not in Page(render(bare)).text


def test_a_bad_check_says_what_would_help():
    first, *others = example().measures
    bad = replace(first, outcome="bad", remedy="More episodes would help")
    text = Page(render(ReportContent("collect more data", "A reason.", measures=(bad, *others)))).text
    assert f"{bad.meaning} So no number is believed. More episodes would help." in text
    assert "The heaviest episode carries 4.8 %. Measured: 0.08" in text
    assert "Measured: 0.08 skewness² / episodes. Good up to 0.05, doubtful up to 0.5, bad beyond." in text
    assert "Measured: 84 effective episodes or units, at least. Good from 30, doubtful from 10, bad below." in text


@pytest.mark.parametrize(
    ("answer", "headline"),
    [
        ("do not deploy", "Do not deploy the new policy"),
        ("collect more data", "Collect more data first"),
        ("not evaluated", "No answer yet"),
    ],
)
def test_every_answer_has_its_headline_even_with_nothing_else(answer, headline):
    page = Page(render(ReportContent(answer, "A reason.")))
    assert headline in page.text
    assert "A reason." in page.text


def test_what_is_not_identified_is_never_a_number():
    page = Page(render(refused()))
    rows = page.text[page.text.index("the goal (OPPOSD) what was learned") :]
    assert rows.startswith(
        "the goal (OPPOSD) what was learned not identified – not identified two episodes carry 93 % of the weight"
    )
    with pytest.raises(DecodeError, match="the new policy: expected no value, low or high, since it is not identified"):
        Worth("the new policy", "chosen", "not identified", "x", value=3.0)
    with pytest.raises(DecodeError, match="the new policy: expected a value, since it is weak"):
        Worth("the new policy", "chosen", "weak", "x")


def test_worth_of_an_estimate():
    nothing = Support(
        overlap=1.0,
        effective_share=1.0,
        effective=100.0,
        counted=100,
        counted_as="episodes",
        heaviest=1.0,
        tail=0.01,
        unsupported=0.0,
        mass=1.0,
        mass_error=0.0,
        agreement=0.5,
        carriers=(),
    )
    numbers = {"value": 2.0, "low": -np.inf, "high": 3.0, "standard_error": 0.5, "effective_sample_size": 9.0}
    arrays = {"influence": np.zeros(2), "shares": np.zeros(2)}
    estimate = Estimate(
        "e", **numbers, level=0.95, verdict="weak", reason="r", measures=(), diagnostics=nothing, **arrays
    )
    assert Worth.of("x", "chosen", estimate) == Worth("x", "chosen", "weak", "e", 2.0, None, 3.0, 9.0, "r")
    unknown = Worth.of("x", "chosen", replace(estimate, verdict="not identified"))
    assert (unknown.value, unknown.low, unknown.high) == (None, None, None)


def test_it_needs_nothing_from_elsewhere(html):
    page = Page(html)
    assert not {"script", "iframe", "object", "img", "video"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "action"):
            assert attributes.get(name, "#").startswith(("#", "data:,")), (tag, attributes)
    assert not re.search(r"url\((?!#)", html)
    assert "@import" not in html
    assert len(html.encode()) < 1_500_000


def test_names_are_unique_and_figures_are_described(html):
    page = Page(html)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    figures = [attributes for _, attributes in page.tags if attributes.get("role") == "img"]
    assert len(figures) == 12
    assert all(len(attributes["aria-label"]) > 30 for attributes in figures)
    assert sum(tag == "figcaption" for tag, _ in page.tags) == 12
    assert "0a0a0" not in html  # every colour is the page's own
    assert "0a0b0" not in html
    links = [attributes["href"][1:] for tag, attributes in page.tags if tag == "a"]
    assert set(links) <= set(ids)


def test_hostile_names_stay_text():
    bad = '<script>alert("x")</script>$x_1$&'
    content = replace(
        example(),
        title=bad,
        because=bad,
        value_name=bad,
        worths=(Worth(bad, "current", "supported", bad, 1.0, 0.5, 1.5, reason=bad),),
        action_map=ActionMap((bad,), bad, bad, (0.0, 1.0), (0.0, 1.0), ((0,),), ((0,),)),
        manifest={"a": bad},
        settings={bad: bad},
        goal_name=bad,
        facts=replace(example().facts, names=(bad,), reward=bad, unit=bad),
        rule=Rule((Branch((bad,), bad, 1.0, 1.0, 1.0),) * 2, 1.0, 1.0, 10),
        subgroups=(GroupGain(bad, bad, 30, 1.0, 0.5, 1.5),),
        examples=(Example(bad, bad, 1, (bad,), (Moment(1, (bad,), bad, "x", 1.0, 1.0, 1.0),)),),
        flow=(FlowStep(bad, bad, bad),),
    )
    html = render(content)
    assert "<script" not in html
    assert "$x_1$" in html


def test_the_same_content_gives_the_same_page(html):
    assert render(example()) == html


def test_json_round_trip():
    content = example()
    assert from_json(to_json(content)) == content


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "yes"}, "decision.answer: expected one of deploy, do not deploy, .*, got 'yes'"),
        ({"answer": None}, "decision.answer: expected one of .*, got None"),
        ({"becuase": "x"}, "decision.becuase: there is no such setting; did you mean 'because'?"),
        ({"because": 3}, "decision.because: expected text, got 3"),
        ({"level": "95"}, "decision.level: expected a number, got '95'"),
        ({"worths": {}}, "decision.worths: expected a list, got {}"),
        ({"worths": [{"name": "x"}]}, r"decision.worths\[0\]: 'role' is missing"),
        ({"chosen": {"run": "a", "seed": 1.5, "update": 2}}, "decision.chosen.seed: expected a whole number, got 1.5"),
        ({"weight_shares": [0.5, float("nan")]}, r"decision.weight_shares\[1\]: expected a number, got nan"),
        (
            {"overlap": {"edges": [0, 1], "shares": []}},
            "decision.overlap: expected one more edge than shares, got 2 edges and 0 shares",
        ),
    ],
)
def test_a_wrong_decision_is_named(change, message):
    with pytest.raises(DecodeError, match=message):
        from_json(json.dumps({"answer": "deploy", "because": "x"} | change))
    with pytest.raises(DecodeError, match="'because' is missing"):
        from_json('{"answer": "deploy"}')
    with pytest.raises(DecodeError, match="it is not JSON"):
        from_json("{")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not identified"), (0.0, "0.000"), (21.44, "21.4"), (196.43, "196.4"), (-3.214, "−3.21"),
        (0.1873, "0.187"), (6432.1, "6,432"), (1.5e7, "15.00 million"), (4.29e10, "42.90 billion"), (2.1e-5, "2.1e−05"),
    ],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


def test_an_interval_is_as_precise_at_both_ends():
    worth = Worth("x", "other", "supported", "y", 25.0, 9.04, 31.9)
    assert interval(worth) == "9.0 to 31.9"
    assert spoken(worth) == "25.0, between 9.0 and 31.9"


def test_headings_come_in_order_and_no_level_is_left_out(html):
    levels = [int(tag[1]) for tag, _ in Page(html).tags if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_measure_has_its_technical_sentence_behind_a_fold(html):
    text = Page(html).text
    for measure in example().measures:
        assert text.count(measure.meaning) == 1
        assert f"How it was measured : {measure.title}" in text


def test_a_forest_stands_on_one_scale_and_says_where_it_is_cut():
    groups = (GroupGain("a", "", 9, 2.0, 1.0, 3.0), GroupGain("b", "", 9, -1.0, -500.0, 0.0))
    drawn = forest(groups)
    first, second = drawn.bars
    assert second.low == 0.0
    assert (first.cut, second.cut) == ("", "cut-low")
    # places are linear in the gains
    per_unit = (first.at - second.at) / 3
    assert drawn.zero == pytest.approx(second.at + per_unit, abs=0.02)
    assert first.high - first.low == pytest.approx(2 * per_unit, abs=0.04)
    assert forest(()) is None
