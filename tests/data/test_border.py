"""Every fault in a log is found, named by column and row, and all at once."""

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.data.findings import LogError, LogWarning
from statewise.data.table import read


def good() -> pl.DataFrame:
    """Two episodes of three decisions each; the first ends in a logged final state."""
    return pl.DataFrame(
        {
            "episode": ["a"] * 4 + ["b"] * 3,
            "step": [0, 1, 2, 3, 0, 1, 2],
            "obs_x": [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 2.5],
            "action": [0, 1, 0, None, 1, 0, 1],
            "reward": [0.0, 0.0, 1.0, None, 0.0, 2.0, 0.0],
            "propensity": [0.5, 0.25, 0.5, None, 0.25, 0.5, 0.25],
            "terminated": [False, False, True, None, False, False, False],
        }
    )


def put(column: str, row: int, value) -> pl.DataFrame:
    values = good()[column].to_list()
    values[row] = value
    return good().with_columns(pl.Series(column, values, strict=False))


def whole(frame: pl.DataFrame, **rows) -> pl.DataFrame:
    """Adds whole distributions (.5, .25, .25 …) that agree with the logged propensities."""
    zero = [0.5, 0.75, 0.5, None, 0.75, 0.5, 0.75]
    values = {"propensity_0": zero, "propensity_1": [None if p is None else 1 - p for p in zero]}
    for name, (row, value) in rows.items():
        values[name][row] = value
    return frame.with_columns(**{name: pl.Series(column) for name, column in values.items()})


def masked(**rows) -> pl.DataFrame:
    values = {"legal_0": [True] * 7, "legal_1": [True] * 7}
    for name, (row, value) in rows.items():
        values[name][row] = value
    return good().with_columns(**{name: pl.Series(column) for name, column in values.items()})


FAULTS = {
    "misspelt column": (
        good().rename({"reward": "rewrad"}),
        (),
        "reward: there is no such column",
        "Did you mean 'rewrad'? Rename the column, or give its name: `Columns(reward=...)`",
    ),
    "missing column": (
        good().drop("reward"),
        (),
        "reward: there is no such column",
        (
            "The log's columns are episode, step, obs_x, action, propensity, terminated. Rename the column, or give "
            "its name: `Columns(reward=...)`"
        ),
    ),
    "no propensity": (
        good().drop("propensity"),
        (),
        "propensity: there is no such column",
        (
            "The log's columns are episode, step, obs_x, action, reward, terminated. If probabilities were not "
            "logged, estimate them: `propensity='estimate'`"
        ),
    ),
    "no terminated": (
        good().drop("terminated"),
        (),
        "terminated: there is no such column",
        (
            "The log's columns are episode, step, obs_x, action, reward, propensity. If all episodes ended by "
            "themselves, use `ends='terminated'`; if cut off, `ends='truncated'`"
        ),
    ),
    "no observations": (
        good().drop("obs_x"),
        (),
        "obs_*: there are no observation columns",
        "Start their names with obs_, or list them: `Columns(observations=...)`",
    ),
    "NaN observation": (
        put("obs_x", 1, float("nan")),
        (1,),
        "obs_x: 1 row is not a finite number (row 1)",
        "Fill in or drop missing values; a policy cannot act on them",
    ),
    "empty observation": (
        put("obs_x", 2, None),
        (2,),
        "obs_x: 1 row is not a finite number (row 2)",
        "Fill in or drop missing values; a policy cannot act on them",
    ),
    "infinite observation": (
        put("obs_x", 5, float("inf")),
        (5,),
        "obs_x: 1 row is not a finite number (row 5)",
        "Fill in or drop missing values; a policy cannot act on them",
    ),
    "NaN reward": (
        put("reward", 4, float("nan")),
        (4,),
        "reward: 1 row is not a finite number (row 4)",
        "Write 0 where a decision earned nothing",
    ),
    "infinite reward": (
        put("reward", 0, float("-inf")),
        (0,),
        "reward: 1 row is not a finite number (row 0)",
        "Write 0 where a decision earned nothing",
    ),
    "missing action": (
        put("action", 5, None),
        (5,),
        "action: 1 row has no action (row 5)",
        "Only an episode's last row may leave action and reward empty; it then holds the final state",
    ),
    "action missing at the end, reward given": (
        put("reward", 3, 1.0),
        (3,),
        "action: 1 row has no action (row 3)",
        "Only an episode's last row may leave action and reward empty; it then holds the final state",
    ),
    "fractional action": (
        put("action", 1, 0.5),
        (1,),
        "action: 1 row is not a whole number (row 1)",
        "Number the actions 0, 1, 2, …",
    ),
    "negative action": (
        put("action", 1, -1),
        (1,),
        "action: 1 row is below 0 (row 1)",
        "Number the actions 0, 1, 2, …",
    ),
    "identifier as action": (
        put("action", 1, 123456),
        (1,),
        "action: 1 row is 10000 or more (row 1)",
        "Number the actions 0, 1, 2, …; this looks like an identifier",
    ),
    "text action": (
        put("action", 1, "stop"),
        (1,),
        "action: expected numbers, got text such as 'stop' (row 1)",
        "Use numbers only, or words only",
    ),
    "zero propensity": (
        put("propensity", 2, 0.0),
        (2,),
        "propensity: 1 row is 0 or less (row 2)",
        "Log the probability, above 0 and at most 1, with which the action was chosen",
    ),
    "propensity above one": (
        put("propensity", 2, 1.5),
        (2,),
        "propensity: 1 row is more than 1 (row 2)",
        "Log the probability, above 0 and at most 1, with which the action was chosen",
    ),
    "missing propensity": (
        put("propensity", 2, None),
        (2,),
        "propensity: 1 row is not a finite number (row 2)",
        "Log the probability, above 0 and at most 1, with which the action was chosen",
    ),
    "sum is not one": (
        whole(good(), propensity_1=(0, 0.3)),
        (0,),
        "propensity_0…1: 1 row has probabilities that do not sum to 1 but to 0.8, for example (row 0)",
        "Log the whole distribution over actions, with more digits if it was rounded",
    ),
    "disagreeing distribution": (
        whole(put("propensity", 4, 0.4)),
        (4,),
        "propensity: 1 row differs from the probability of the action in propensity_0…1 (row 4)",
        "Correct one of them, or leave this column out: it follows from the whole distribution",
    ),
    "impossible taken action": (
        whole(good(), propensity_0=(0, 0.0), propensity_1=(0, 1.0)),
        (0,),
        "propensity_0…1: 1 row has probability 0 for the action that was taken (row 0)",
        "An action that was taken has a probability above 0; check that the columns are in the order of the actions",
    ),
    "hole in the distributions": (
        good().with_columns(propensity_0=0.5, propensity_2=0.5),
        (),
        "propensity_1: there is no such column",
        "Give one propensity column for every action",
    ),
    "repeated step": (
        put("step", 5, 0),
        (5,),
        "step: 1 row repeats a step of its episode (row 5)",
        "Keep one row for each decision",
    ),
    "missing step": (
        put("step", 6, 7),
        (6,),
        "step: 1 row has a step whose predecessor is missing (row 6)",
        "Number every episode 0, 1, … without gaps: add the missing rows, or drop the whole episode",
    ),
    "missing first step": (
        good().with_columns(step=pl.Series([0, 1, 2, 3, 1, 2, 3])),
        (4,),
        "step: 1 row has a step whose predecessor is missing (row 4)",
        "Number every episode 0, 1, … without gaps: add the missing rows, or drop the whole episode",
    ),
    "fractional step": (
        put("step", 1, 0.5),
        (1,),
        "step: 1 row is not a whole number (row 1)",
        "Number each episode's decisions 0, 1, 2, …",
    ),
    "terminated in the middle": (
        put("terminated", 4, True),
        (4,),
        "terminated: 1 row is true before the last decision of its episode (row 4)",
        "Start a new episode after the row that ends one",
    ),
    "unreadable terminated": (
        put("terminated", 4, "maybe"),
        (4,),
        "terminated: expected true or false, got 'maybe' (row 4)",
        "Write true or false, or 1 or 0",
    ),
    "no episode": (
        put("episode", 4, None),
        (4,),
        "episode: some rows have no episode (row 4)",
        "Give every row an episode",
    ),
    "illegal action": (
        masked(legal_1=(1, False)),
        (1,),
        "action: 1 row has an action marked illegal by legal_0…1 (row 1)",
        "Correct the mask or the action",
    ),
    "two units in one episode": (
        good().with_columns(unit=pl.Series([1, 1, 2, 2, 3, 3, 3])),
        (2,),
        "unit: 1 row has a different unit from the previous row of the same episode (row 2)",
        "An episode belongs to one unit (patient, student, user)",
    ),
    "illegal action with a chance": (
        whole(masked(legal_1=(0, False))),
        (0,),
        "legal_0…1: 1 row has an illegal action with a probability above 0 (row 0)",
        "Correct the mask or propensity_*",
    ),
    "empty mask": (
        masked(legal_1=(5, None)),
        (5,),
        "legal_0…1: 1 row has an empty cell (row 5)",
        "Write true or false for every action",
    ),
    "truncated in the middle": (
        good().with_columns(truncated=pl.Series([False, True, False, None, False, False, True])),
        (1,),
        "truncated: 1 row is true before the last decision of its episode (row 1)",
        "Start a new episode after the row that ends one",
    ),
    "last decision without its action": (
        put("propensity", 3, 0.5),
        (3,),
        "action: 1 row has no action (row 3)",
        "Only an episode's last row may leave action and reward empty; it then holds the final state",
    ),
    "times of day": (
        good().with_columns(obs_x=pl.lit("12:30:00").str.to_time()),
        (0, 1, 2, 3, 4),
        "obs_x: expected numbers, got Time (rows 0, 1, 2, 3, 4 and 2 more)",
        "Give numbers, true and false, words, or dates",
    ),
    "a word among numbers": (
        put("obs_x", 1, "high"),
        (1,),
        "obs_x: expected numbers, got text such as 'high' (row 1)",
        "Write a number or leave the cell empty; if its numbers are names, use `Columns(words=...)`",
    ),
    "free text": (
        good().with_columns(obs_x=pl.Series([f"note {row}" for row in range(7)])),
        (),
        "obs_x: there are 7 different words, and none of them is frequent",
        "Leave it out: names and free text do not describe a state",
    ),
    "nothing observed": (
        good().with_columns(obs_y=pl.lit(None, dtype=pl.Float64)),
        (),
        "obs_y: every row is empty",
        "Leave it out",
    ),
    "no unit": (
        good().with_columns(unit=pl.Series(["p"] * 6 + [None])),
        (6,),
        "unit: some rows have no unit (row 6)",
        "Give every row a unit",
    ),
    "NaN as unit": (
        good().with_columns(unit=pl.Series([1.0] * 6 + [float("nan")])),
        (6,),
        "unit: some rows have no unit (row 6)",
        "Give every row a unit",
    ),
    "NaN as episode": (
        good().with_columns(episode=pl.Series([1.0] * 6 + [float("nan")])),
        (6,),
        "episode: some rows have no episode (row 6)",
        "Give every row an episode",
    ),
    "masks and distributions of different width": (
        whole(masked()).with_columns(legal_2=True),
        (),
        "legal_*: there are 3 columns for 2 actions",
        "Give one column for every action",
    ),
    "no rows": (good().head(0), (), "log: there are no rows", "Give one row for each decision"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_fault_is_named_by_column_and_row(case):
    frame, rows, problem, advice = FAULTS[case]
    dataset, findings = read(frame)
    assert dataset is None
    assert (rows, f"{problem}. {advice}") in [(fault.rows, str(fault)) for fault in findings.faults]


def test_good_log_has_no_findings():
    dataset, findings = read(good())
    assert findings.items == []
    assert dataset is not None
    assert dataset.episodes == 2


def test_distributions_and_masks_that_fit_are_read():
    frame = whole(good()).with_columns(legal_0=True, legal_1=True)
    dataset, findings = read(frame)
    assert findings.items == []
    np.testing.assert_allclose(dataset.distributions.sum(axis=1), 1)
    assert dataset.legal.all()


def test_all_faults_are_told_at_once():
    frame = put("propensity", 2, 0.0).with_columns(
        reward=pl.Series([None, 0.0, 1.0, None, 0.0, 2.0, 0.0]), step=pl.Series([0, 1, 2, 3, 0, 0, 1])
    )
    with pytest.raises(LogError) as caught:
        sw.load(frame)
    assert {fault.column for fault in caught.value.faults} == {"propensity", "reward", "step"}
    assert "3 faults" in str(caught.value)


def test_unreadable_and_missing_columns_hide_no_other_fault():
    frame = (
        put("obs_x", 1, "x").drop("reward").with_columns(propensity=pl.lit(2.0), step=pl.Series([0, 1, 2, 3, 0, 1, 3]))
    )
    _, findings = read(frame)
    assert {"obs_x", "reward", "propensity", "step"} <= {fault.column for fault in findings.faults}


@pytest.mark.parametrize("name", ["unit", "truncated", "step"])
def test_a_column_that_was_named_must_exist(name):
    _, findings = read(good(), columns=sw.Columns(**{name: "patient"}))
    (fault,) = findings.faults
    assert fault.column == "patient"
    assert fault.advice.endswith(f"Rename the column, or give its name: `Columns({name}=...)`")


def test_rows_are_named_as_the_source_counts_them_after_sorting():
    shuffled = put("reward", 4, float("nan"))[[6, 5, 4, 3, 2, 1, 0]]
    _, findings = read(shuffled)
    (fault,) = findings.faults
    assert fault.rows == (2,)


def test_many_bad_rows_are_counted_and_five_shown():
    frame = pl.concat([good().with_columns(episode=pl.lit(str(i)) + pl.col("episode")) for i in range(4)])
    _, findings = read(frame.with_columns(propensity=pl.col("propensity") * 8))
    (fault,) = findings.faults
    assert "24 rows are more than 1 (rows 0, 1, 2, 4, 5 and 19 more)" in str(fault)


SUSPICIOUS = {
    "single episode": (
        good().head(4),
        "episode: there is a single episode",
        "Nothing can be held out, and intervals need many episodes",
    ),
    "action never taken": (
        good().with_columns(action=pl.col("action") * 2),
        "action: action 1 was never taken",
        "Nothing can be learned about an action that is not in the log",
    ),
    "constant observation": (
        good().with_columns(obs_c=pl.lit(7.0)),
        "obs_c: every row is 7",
        "A constant column carries no information; drop it if that is a mistake",
    ),
    "unsorted steps": (
        good()[[1, 0, 2, 3, 4, 5, 6]],
        "step: the rows were not in order and had to be sorted",
        "Check that the log was exported completely",
    ),
    "interleaved episodes": (
        good()[[0, 4, 1, 5, 2, 6, 3]],
        "step: the rows were not in order and had to be sorted",
        "Check that the log was exported completely",
    ),
    "late first step": (
        good().with_columns(step=pl.col("step") + 7),
        "step: no episode starts before step 7",
        "Check that no first decisions are missing",
    ),
    "empty end": (
        put("terminated", 6, None),
        "terminated: 1 row is empty where an episode ends, which counts as false (row 6)",
        "Write true where the world ended an episode, false where it was cut off",
    ),
    "no step column": (
        good().drop("step"),
        "step: there is no such column, so rows are taken in the order of the log",
        "Add a column that numbers the decisions of each episode 0, 1, 2, …",
    ),
}


@pytest.mark.parametrize("case", SUSPICIOUS)
def test_suspicion_is_a_warning(case):
    frame, problem, advice = SUSPICIOUS[case]
    with pytest.warns(LogWarning) as caught:
        dataset = sw.load(frame)
    assert dataset.episodes >= 1
    assert [str(warning.message) for warning in caught] == [f"{problem}. {advice}"]


@pytest.mark.parametrize("order", [[1, 0, 2, 3, 4, 5, 6], [0, 4, 1, 5, 2, 6, 3]])
def test_sorting_restores_the_log(order):
    sorted_log, _ = read(good())
    dataset, _ = read(good()[order])
    assert dataset.fingerprint == sorted_log.fingerprint


def test_missing_columns_may_be_declared():
    dataset, findings = read(good().drop("propensity", "terminated"), propensity="estimate", ends="truncated")
    assert not findings.faults
    assert dataset.propensities is None
    assert dataset.truncated.all()
    dataset, _ = read(good()[[4, 0, 5, 1, 6, 2, 3]].drop("terminated"), ends="terminated")
    assert dataset.terminated.all()


def test_a_number_of_actions_that_other_columns_deny_is_a_fault():
    _, findings = read(whole(good()), actions=5)
    (fault,) = findings.faults
    assert str(fault) == "propensity_*: there are 2 columns for 5 actions. Give one column for every action"


def test_actions_beyond_the_declared_number_are_a_fault():
    _, findings = read(good(), actions=1)
    (fault,) = findings.faults
    assert str(fault) == (
        "action: 3 rows are 1 or more (rows 1, 4, 6). "
        "Expected 0, since other columns or `actions=...` set the number of actions to 1"
    )
    assert fault.rows == (1, 4, 6)
