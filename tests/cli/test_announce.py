"""What `improve` says before it begins: the log, γ and why, who learns, and which parts there are."""

import polars as pl
import pytest

import statewise as sw
from awkward import clinic
from logs import make
from statewise.cli.announce import announcement
from statewise.improvement import Plan


def test_the_parts_of_a_log_and_its_discount():
    data = make([4] * 40)
    log, discount, learning, judging = announcement([data], sw.OPPOSD(), Plan())
    assert log.split(maxsplit=1)[1] == "160 decisions in 40 episodes"
    assert "γ         1, since " in discount
    assert learning == "learning  from 20 episodes, by opposd, offpac, cql"
    assert judging == "judging   by the other 20 episodes, kept out of every choice"
    halves = data.split(0.5, seed=0)
    assert [f"from {halves[0].episodes} " in learning, f"other {halves[1].episodes} " in judging] == [True, True]


@pytest.mark.parametrize(
    ("settings", "plan"), [(sw.CQL(discount=0.9), Plan()), (sw.CQL(), Plan(discount=0.9, beside=()))]
)
def test_a_discount_that_was_given_is_said_to_be(settings, plan):
    _, discount, learning, _ = announcement([make([4] * 40)], settings, plan)
    assert discount.startswith("γ         0.9, as given. ")
    assert learning.endswith(f"by {', '.join(dict.fromkeys(['cql', *plan.beside]))}")


def test_units_older_logs_reward_and_dates(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(clinic(60) + "\n")
    data = sw.load(path, propensity="estimate")
    log, _, learning, _ = announcement([data, data], sw.OPPOSD(), Plan())
    assert f", reward 'Score', {data.origin.first} to {data.origin.last}; " in log
    assert log.endswith("; the probabilities of actions are estimated")
    assert learning.startswith("learning  from 30 episodes, and 60 episodes of older logs, by ")
    rows = pl.read_csv(path, separator=";").height
    assert log.startswith(f"log       {rows:,} decisions in 60 episodes")
    # of 20, so that 14 are left to judge
    units = make([4] * 40, units=[f"u{e // 2}" for e in range(40)])
    assert announcement([units], sw.OPPOSD(), Plan())[2].startswith("learning  from 6 units, by ")
