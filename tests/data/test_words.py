"""Logs as people write them: actions called by words, capitals anywhere; and what is said where that cannot work."""

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.data.findings import LogWarning
from statewise.data.table import read
from statewise.policies.network import Policy
from statewise.policies.probabilities import probabilities_of

SHEET = """Patient;Day;Obs_Pulse;Action;Reward;Propensity;Terminated
A;1;80,5;Drug B;0;0,5;no
A;2;79,5;none;1;0,25;yes
B;1;70,0;Drug A;2,5;0,25;yes
"""
COLUMNS = sw.Columns(episode="patient", step="day")


@pytest.fixture
def log(tmp_path):
    (tmp_path / "sheet.csv").write_text(SHEET)
    return sw.load(tmp_path / "sheet.csv", columns=COLUMNS)


def test_words_are_actions_by_alphabet_and_capitals_do_not_matter(log):
    assert log.action_names == ("Drug A", "Drug B", "none")
    assert log.actions.tolist() == [1, 2, 0]
    assert log.observations[:, 0].tolist() == [80.5, 79.5, 70]
    assert log.observation_names == ("Pulse",)
    assert log.episode_ids.tolist() == ["A", "B"]


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
def test_words_come_back_from_files(log, tmp_path, name):
    log.save(tmp_path / name)
    back = sw.load(tmp_path / name)
    assert back.action_names == log.action_names
    assert back.fingerprint == log.fingerprint


def test_a_part_without_some_action_keeps_every_name(log, tmp_path):
    part = log.take(np.array([0]))
    part.save(tmp_path / "part.parquet")
    with pytest.warns(LogWarning, match="action Drug A was never taken"):
        back = sw.load(tmp_path / "part.parquet")
    assert back.action_names == log.action_names
    assert back.actions.tolist() == [1, 2]


def test_names_can_be_given_for_words_and_for_numbers(tmp_path):
    (tmp_path / "sheet.csv").write_text(SHEET)
    names = ("none", "Drug A", "Drug B")
    assert sw.load(tmp_path / "sheet.csv", columns=COLUMNS, actions=names).actions.tolist() == [2, 0, 1]
    numbers = SHEET.replace("Drug B", "2").replace("Drug A", "1").replace("none", "0")
    (tmp_path / "numbers.csv").write_text(numbers)
    log = sw.load(tmp_path / "numbers.csv", columns=COLUMNS, actions=names)
    assert (log.action_names, log.actions.tolist()) == (names, [2, 0, 1])


def policy(names):
    return Policy((np.zeros((1, 3)),), (np.zeros(3),), np.zeros(1), np.ones(1), ("Pulse",), names, {})


def test_a_policy_must_mean_the_same_by_its_actions(log):
    assert probabilities_of(policy(log.action_names), log).shape == (3, 3)
    for names in (("Drug B", "Drug A", "none"), ("0", "1", "2")):
        with pytest.raises(ValueError, match="the log's Drug A, Drug B, none"):
            probabilities_of(policy(names), log)


def changed(**columns) -> pl.DataFrame:
    rows = 60
    usual = {
        "episode": [str(row) for row in range(rows)],
        "obs_x": [float(row) for row in range(rows)],
        "action": ["left", "right"] * (rows // 2),
        "reward": [1.0] * rows,
        "propensity": [0.5] * rows,
        "terminated": [True] * rows,
    }
    return pl.DataFrame({name: column for name, column in (usual | columns).items() if column is not None})


@pytest.mark.parametrize(
    ("frame", "actions", "column", "sentence"),
    [
        (
            changed(action=["left", "1"] * 30),
            None,
            "action",
            "expected numbers, got text such as 'left' (rows 0, 2, 4, 6, 8 and 25 more). "
            "Use numbers only, or words only",
        ),
        (
            changed(action=[f"gave {row} mg" for row in range(60)]),
            None,
            "action",
            "there are 60 different words. Use one word for each kind of action; names and free text are not actions",
        ),
        (changed(), ("left", "up"), "action", "'right' is not one of the actions. The actions are left, up"),
        (
            changed(),
            3,
            "action",
            "there are 2 words such as 'left', but 3 actions were expected. "
            "Give all names in the order of the numbers, for example `actions=('left', 'right')`",
        ),
        (
            changed(propensity_0=[0.5] * 60, propensity_1=[0.5] * 60),
            None,
            "action",
            "there are 2 words such as 'left', but propensity_0, … number the actions. "
            "Give all names in the order of the numbers, for example `actions=('left', 'right')`",
        ),
        (
            changed(obs_x=None, age=[1] * 60, name=["x"] * 60, Ward=[1.5] * 60),
            None,
            "obs_*",
            "there are no observation columns. Start their names with obs_, or list them: `Columns(observations=...)`",
        ),
        (
            changed(step=["01.02.2024"] * 60),
            None,
            "step",
            "expected numbers, got text such as '01.02.2024' (rows 0, 1, 2, 3, 4 and 55 more). "
            "Number each episode's decisions 0, 1, 2, …; if the rows are in order of time, this column is not needed",
        ),
    ],
    ids=["mixed", "free text", "unknown", "count", "distributions", "no observations", "dates"],
)
def test_what_cannot_be_used_is_said_with_a_way_out(frame, actions, column, sentence):
    dataset, findings = read(frame, actions=actions)
    assert dataset is None
    assert [str(fault) for fault in findings.faults] == [f"{column}: {sentence}"]


def test_words_that_differ_by_capitals_alone_are_told():
    with pytest.warns(
        LogWarning, match="'Left' and 'left' count as two actions. Use one spelling if they are the same"
    ):
        sw.load(changed(action=["left", "Left"] * 30, step=[0] * 60))


def test_two_columns_that_differ_by_capitals_alone_are_not_guessed_between():
    frame = changed(step=[0] * 60).rename({"reward": "Reward"})
    assert read(frame)[1].faults == []
    _, findings = read(frame.with_columns(pl.col("Reward").alias("REWARD")))
    assert [fault.column for fault in findings.faults] == ["reward"]


def test_the_columns_of_the_log_are_listed_once():
    _, findings = read(pl.DataFrame({"x": [1.0], "y": [2.0]}))
    assert len(findings.faults) == 6
    assert sum("The log's columns are x, y. " in str(fault) for fault in findings.faults) == 1


def test_what_is_known_only_after_the_decision_is_no_observation():
    frame, columns = changed(step=[0] * 60), sw.Columns(observations=("obs_x", "reward", "obs_x"))
    _, findings = read(frame, columns=columns)
    assert [(fault.column, fault.problem) for fault in findings.faults] == [
        ("obs_x", "it is listed twice"),
        ("reward", "it is not known before the decision"),
    ]


@pytest.mark.parametrize("column", ["obs_x", "reward"])
def test_numbers_that_learning_cannot_hold_are_refused(column):
    _, findings = read(changed(step=[0] * 60, **{column: [1.0] * 59 + [-1e30]}))
    assert [(fault.column, fault.rows) for fault in findings.faults] == [(column, (59,))]
    assert findings.faults[0].problem == "1 row is beyond ±1e+18"
