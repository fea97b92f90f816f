"""A few hundred of the tables and files of `make test-long`; and the faults that it found, which stay here."""

import resource

import numpy as np
import pytest

from fuzz import files, tables
from statewise.base.decode import DecodeError, changed
from statewise.learning.presets import preset


@pytest.mark.parametrize(("kind", "count", "least"), [(tables, 100, 10), (files, 90, 5)])
def test_each_is_right_or_refused_in_a_sentence(kind, count, least, tmp_path):
    outcomes = [kind.check(seed, tmp_path) for seed in range(count)]
    assert set(outcomes) == {"read", "refused"}
    assert outcomes.count("read") >= least  # else nothing would have been compared
    assert outcomes.count("refused") >= least


@pytest.mark.parametrize("seed", [21209, 21301, 27711, 27959, 42410, 50758, 57214, 62421, 82409, 90245])
def test_what_broke_once(seed, tmp_path):
    assert tables.check(seed, tmp_path) in ("read", "refused")


@pytest.mark.long
@pytest.mark.parametrize(("kind", "count"), [(tables, 100_000), (files, 10_000)])
def test_each_of_many_is(kind, count, tmp_path):
    for seed in range(count):
        kind.check(seed, tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_500_000  # kilobytes, with pytest and JAX themselves


def test_the_judge_of_tables_notices_what_is_changed():
    """A table that is not altered is understood; one with a cell shifted is not the same."""
    seed = next(s for s in range(100) if len(tables.rows_of(np.random.default_rng(s))) > 4)
    rows = tables.rows_of(np.random.default_rng(seed))

    def text(rows):
        cells = ([tables.quoted(cell, ",") for cell in row] for row in [tables.HEADER, *rows])
        return ("\n".join(",".join(row) for row in cells) + "\n").encode()

    told = tables.understood(text(rows))
    rows[1][5] = "12345"
    other = tables.understood(text(rows))
    assert not np.array_equal(told["reward"], other["reward"], equal_nan=True)
    rows[1] = rows[1][:-1]
    with pytest.raises(ValueError, match="another number of fields"):
        tables.understood(text(rows))


def test_a_whole_number_beyond_all_floats_is_no_setting():
    for change in ({"actor": {"learning_rate": 10**400}}, {"critic": {"hidden": [10**400]}}):
        with pytest.raises(DecodeError, match=": expected"):
            files.check_ranges(changed(preset("default", "opposd"), change))
