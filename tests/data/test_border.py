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
    "misspelt column": (good().rename({"reward": "rewrad"}), "reward", (), "Did you mean 'rewrad'"),
    "missing column": (good().drop("reward"), "reward", (), "say what it is called: `Columns(reward=...)`"),
    "no propensity": (good().drop("propensity"), "propensity", (), "`propensity='estimate'`"),
    "no terminated": (good().drop("terminated"), "terminated", (), "`ends='terminated'`"),
    "no observations": (good().drop("obs_x"), "obs_*", (), "no observation column"),
    "NaN observation": (put("obs_x", 1, float("nan")), "obs_x", (1,), "no finite number"),
    "empty observation": (put("obs_x", 3, None), "obs_x", (3,), "no finite number"),
    "infinite observation": (put("obs_x", 5, float("inf")), "obs_x", (5,), "no finite number"),
    "NaN reward": (put("reward", 4, float("nan")), "reward", (4,), "no finite number"),
    "infinite reward": (put("reward", 0, float("-inf")), "reward", (0,), "no finite number"),
    "missing action": (put("action", 5, None), "action", (5,), "no action"),
    "action missing at the end, reward given": (put("reward", 3, 1.0), "action", (3,), "no action"),
    "fractional action": (put("action", 1, 0.5), "action", (1,), "not whole numbers"),
    "negative action": (put("action", 1, -1), "action", (1,), "below 0"),
    "identifier as action": (put("action", 1, 123456), "action", (1,), "identifier"),
    "text action": (put("action", 1, "stop"), "action", (1,), "text such as 'stop'"),
    "zero propensity": (put("propensity", 2, 0.0), "propensity", (2,), "0 or less"),
    "propensity above one": (put("propensity", 2, 1.5), "propensity", (2,), "more than 1"),
    "missing propensity": (put("propensity", 2, None), "propensity", (2,), "no finite number"),
    "sum is not one": (
        whole(good(), propensity_1=(0, 0.3)),
        "propensity_0…1",
        (0,),
        "do not sum to 1, but for example to 0.8",
    ),
    "disagreeing distribution": (
        whole(put("propensity", 4, 0.4)),
        "propensity",
        (4,),
        "another probability",
    ),
    "impossible taken action": (
        whole(good(), propensity_0=(0, 0.0), propensity_1=(0, 1.0)),
        "propensity_0…1",
        (0,),
        "probability 0 for the action that was taken",
    ),
    "hole in the distributions": (
        good().with_columns(propensity_0=0.5, propensity_2=0.5),
        "propensity_1",
        (),
        "no such column",
    ),
    "repeated step": (put("step", 5, 0), "step", (5,), "already has"),
    "missing step": (put("step", 6, 7), "step", (6,), "predecessor is missing"),
    "missing first step": (
        good().with_columns(step=pl.Series([0, 1, 2, 3, 1, 2, 3])),
        "step",
        (4,),
        "predecessor is missing",
    ),
    "fractional step": (put("step", 1, 0.5), "step", (1,), "not whole numbers"),
    "terminated in the middle": (put("terminated", 4, True), "terminated", (4,), "before the episode's last"),
    "unreadable terminated": (put("terminated", 4, "maybe"), "terminated", (4,), "it holds 'maybe'"),
    "no episode": (put("episode", 4, None), "episode", (4,), "belong to no episode"),
    "illegal action": (masked(legal_1=(1, False)), "action", (1,), "not legal"),
    "two units in one episode": (
        good().with_columns(unit=pl.Series([1, 1, 2, 2, 3, 3, 3])),
        "unit",
        (2,),
        "another unit",
    ),
    "illegal action with a chance": (
        whole(masked(legal_1=(0, False))),
        "legal_0…1",
        (0,),
        "an illegal action with a probability above 0",
    ),
    "empty mask": (masked(legal_1=(5, None)), "legal_0…1", (5,), "no word on whether an action is legal"),
    "truncated in the middle": (
        good().with_columns(truncated=pl.Series([False, True, False, None, False, False, True])),
        "truncated",
        (1,),
        "before the episode's last",
    ),
    "last decision without its action": (put("propensity", 3, 0.5), "action", (3,), "no action"),
    "dates as numbers": (
        good().with_columns(obs_x=pl.lit("2020-01-01").str.to_date()),
        "obs_x",
        (0, 1, 2, 3, 4),
        "it holds Date, not numbers",
    ),
    "no unit": (good().with_columns(unit=pl.Series(["p"] * 6 + [None])), "unit", (6,), "belong to no unit"),
    "NaN as unit": (good().with_columns(unit=pl.Series([1.0] * 6 + [float("nan")])), "unit", (6,), "no unit"),
    "NaN as episode": (
        good().with_columns(episode=pl.Series([1.0] * 6 + [float("nan")])),
        "episode",
        (6,),
        "belong to no episode",
    ),
    "masks and distributions of different width": (
        whole(masked()).with_columns(legal_2=True),
        "legal_*",
        (),
        "there are 3 of them for 2 actions",
    ),
    "no rows": (good().head(0), "log", (), "no rows"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_fault_is_named_by_column_and_row(case):
    frame, column, rows, words = FAULTS[case]
    dataset, findings = read(frame)
    assert dataset is None
    (fault,) = [finding for finding in findings.faults if finding.column == column and words in str(finding)]
    assert fault.rows == rows


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
    assert fault.advice.endswith(f"Rename the column, or say what it is called: `Columns({name}=...)`")


def test_rows_are_named_as_the_source_counts_them_after_sorting():
    shuffled = put("reward", 4, float("nan"))[[6, 5, 4, 3, 2, 1, 0]]
    _, findings = read(shuffled)
    (fault,) = findings.faults
    assert fault.rows == (2,)


def test_many_bad_rows_are_counted_and_five_shown():
    frame = pl.concat([good().with_columns(episode=pl.lit(str(i)) + pl.col("episode")) for i in range(4)])
    _, findings = read(frame.with_columns(propensity=pl.col("propensity") * 8))
    (fault,) = findings.faults
    assert "24 rows hold more than 1 (rows 0, 1, 2, 4, 5 and 19 more)" in str(fault)


SUSPICIOUS = {
    "single episode": (good().head(4), "episode", "single episode"),
    "action never taken": (good().with_columns(action=pl.col("action") * 2), "action", "action 1 was never"),
    "constant observation": (good().with_columns(obs_c=pl.lit(7.0)), "obs_c", "it is 7 in every row"),
    "unsorted steps": (good()[[1, 0, 2, 3, 4, 5, 6]], "step", "had to be sorted"),
    "interleaved episodes": (good()[[0, 4, 1, 5, 2, 6, 3]], "step", "had to be sorted"),
    "late first step": (good().with_columns(step=pl.col("step") + 7), "step", "no episode has a step below 7"),
    "empty end": (put("terminated", 6, None), "terminated", "nothing where an episode ends, which is taken as false"),
    "no step column": (good().drop("step"), "step", "order of the log"),
}


@pytest.mark.parametrize("case", SUSPICIOUS)
def test_suspicion_is_a_warning(case):
    frame, column, words = SUSPICIOUS[case]
    with pytest.warns(LogWarning) as caught:
        dataset = sw.load(frame)
    assert dataset.episodes >= 1
    (message,) = [str(warning.message) for warning in caught]
    assert message.startswith(f"{column}: ")
    assert words in message


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
    assert "there are 2 of them for 5 actions" in str(fault)


def test_actions_beyond_the_declared_number_are_a_fault():
    _, findings = read(good(), actions=1)
    (fault,) = findings.faults
    assert fault.column == "action"
    assert fault.rows == (1, 4, 6)
