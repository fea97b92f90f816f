"""Sentences about rows, in the singular and in the plural, by the numbers that a reader counts with."""

import numpy as np
import pytest

from statewise.data.findings import NOT_WHOLE, Findings, LogError, RowNames, rows_that


@pytest.mark.parametrize(
    ("count", "said", "sentence"),
    [
        (1, ("is empty",), "1 row is empty"),
        (2, ("is empty",), "2 rows are empty"),
        (1200, ("has no action",), "1,200 rows have no action"),
        (1, NOT_WHOLE, "1 row is not a whole number"),
        (3, NOT_WHOLE, "3 rows are not whole numbers"),
    ],
)
def test_rows_are_counted_in_words(count, said, sentence):
    assert rows_that(np.arange(count), *said) == sentence


def test_rows_are_named_as_the_reader_counts_them():
    lines = RowNames("line", 2, np.array([0, 1, 4]))  # two lines were left out before the last row
    findings = Findings(lines)
    findings.fault("x", "2 rows are empty", "Fill them in", np.array([0, 2]))
    findings.warn("y", "every row is 1", "Drop it")
    assert [str(item) for item in findings.items] == [
        "x: 2 rows are empty (lines 2, 6). Fill them in",
        "y: every row is 1. Drop it",
    ]
    assert findings.faults[0].to_dict() == {
        "severity": "fault",
        "column": "x",
        "rows": [0, 2],
        "problem": "2 rows are empty",
        "advice": "Fill them in",
    }
    with pytest.raises(LogError, match=r"^the log has 1 fault:\n- x: 2 rows are empty"):
        findings.raise_faults()
