"""What was looked at, what became of its rows, and what the tables of gains say."""

from dataclasses import replace

import pytest

import statewise as sw
from awkward import clinic
from logs import make
from reports import example
from statewise.ope.subgroups import GroupGain
from statewise.report.advice import next_steps
from statewise.report.content import ReportContent
from statewise.report.facts import LogFacts, facts_of, flow_of
from statewise.report.groups import sentences_of


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "visits.csv"
    path.write_text(clinic(60) + "\n")
    return sw.load(path, propensity="estimate")


def test_facts_of_a_file_and_of_several(visits):
    once = facts_of([visits], 0.98)
    assert once == LogFacts(
        names=("visits.csv",), decisions=len(visits), episodes=60, discount=0.98,
        discount_reason="most episodes were cut off before they ended, and not at one limit", reward="Score",
        episode="Patient", unit="", units=None, first=visits.origin.first, last=visits.origin.last,
    )  # fmt: skip
    twice = facts_of([replace(visits, origin=replace(visits.origin, first="2001-01-01")), visits], 0.9)
    assert (twice.names, twice.episodes) == (("visits.csv", "visits.csv"), 120)
    assert (twice.first, twice.last) == ("2001-01-01", visits.origin.last)
    assert twice.discount_reason == "as it was given"


def test_units_are_counted_once():
    data = make([2] * 6, units=["a", "a", "b", "b", "c", "c"])
    assert facts_of([data], 1.0).units == 3
    assert facts_of([data, data], 1.0).units == 3
    assert facts_of([make([2, 2])], 1.0).units is None


def test_the_flow_counts_rows_decisions_and_episodes(visits, tmp_path):
    learning, judging = visits.split(0.5, seed=0)
    flow = flow_of([visits], learning, judging, 12.3)
    assert [step.count for step in flow[:5]] == [f"{len(visits):,}"] * 2 + ["60", "30", "30"]
    assert flow[-1].count == "12"
    ends = make([3] * 20)
    assert [step.count for step in flow_of([ends], *ends.split(0.5), 5.0)[:2]] == ["60", "20"]  # no rows of a file
    ends.save(tmp_path / "ends.parquet")
    ends = sw.load(tmp_path / "ends.parquet")
    rows, decisions, *_ = flow_of([ends], *ends.split(0.5), 5.0)
    assert (rows.count, decisions.count) == ("80", "60")
    assert decisions.note == "20 more only say where an episode ended"


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ([(1, 2), (3, 4)], "Every group gains, beyond chance."),
        ([(-2, -1), (3, 4)], "a: this group loses, beyond chance."),
        ([(-2, -1), (-3, -2)], "a and b: these groups lose, beyond chance."),
        ([(-1, 1), (3, 4)], "No group is shown to lose. b gains, beyond chance. For the others, the log cannot tell."),
        ([(-1, 1), (-3, 4)], "No group is shown to lose, and none to gain: the log cannot tell."),
    ],
)
def test_what_groups_show(bounds, said):
    groups = tuple(
        GroupGain(name, "", 30, (low + high) / 2, float(low), float(high))
        for name, (low, high) in zip("ab", bounds, strict=True)
    )
    sentences = sentences_of(ReportContent("deploy", "x", subgroups=groups, periods=groups))
    assert sentences["subgroups"] == said
    common = bounds[0][0] <= bounds[1][1] and bounds[1][0] <= bounds[0][1]
    assert ("have values in common" in sentences["periods"]) == common


def test_what_to_do_next_follows_the_answer():
    deploy = next_steps(example())
    assert "Deploy policy.safetensors, beside this page: it follows the goal in 44 % of the decisions, and" in deploy[1]
    assert deploy[-1] == example().next_log.sentence
    assert "in every decision." in next_steps(replace(example(), step=1.0))[1]
    leaning = next_steps(replace(example(), way="geometric"))
    assert "it leans 44 % of the way from today towards the goal, in every decision." in leaning[1]
    wait = next_steps(replace(example(), answer="collect more data"))
    assert wait == ["Go on as today: nothing better is certain yet.", example().next_log.sentence]
    assert len(next_steps(ReportContent("not evaluated", "x"))) == 1
    assert all(step.endswith(".") for step in deploy + wait)
