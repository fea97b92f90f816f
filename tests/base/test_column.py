"""A column in a file gives what the same array in memory gives, bit by bit, and keeps long results in files."""

import gc
import os

import numpy as np
import pytest

from statewise.base import column, pages
from statewise.base.column import Column, by_parts, from_file, in_file, like, release

ROWS = 1000
RNG = np.random.default_rng(0)
NUMBERS, MATRIX = RNG.normal(size=ROWS), RNG.normal(size=(ROWS, 3))
INDEX, PLACES = RNG.integers(3, size=ROWS), RNG.integers(ROWS, size=2 * ROWS)
STARTS = np.arange(0, ROWS, 7)

# what is kept in a file, as long as the rows are, and what is not
LONG_RESULTS = {
    "product": lambda x, m, i: x * x + 1,
    "beside a plain array": lambda x, m, i: NUMBERS - x,
    "power": lambda x, m, i: 0.5**i,
    "with a matrix": lambda x, m, i: x[:, None] * m,
    "comparison": lambda x, m, i: x > 0,
    "into": lambda x, m, i: np.divide(x, i, out=np.ones(ROWS).view(Column), where=i > 0),
    "clip": lambda x, m, i: np.clip(x, -1, 1),
    "where": lambda x, m, i: np.where(x > 0, x, 0.0),
    "where of rows": lambda x, m, i: np.where((x > 0)[:, None], m, 0.0),
    "after": lambda x, m, i: np.append(x[1:], 0.0),
    "before": lambda x, m, i: np.append(1.0, x[:-1]),
    "joined": lambda x, m, i: np.concatenate([m, NUMBERS[:5, None] * np.ones(3)]),
    "chosen": lambda x, m, i: x[PLACES],
    "chosen rows": lambda x, m, i: m[PLACES],
    "masked": lambda x, m, i: m[x > -2],
    "chosen by a column": lambda x, m, i: x[np.asarray(i).view(Column)],
    "along": lambda x, m, i: np.take_along_axis(m, i[:, None].astype(np.int64), axis=1)[:, 0],
    "of other kind": lambda x, m, i: x.astype(np.float32),
    "running": lambda x, m, i: np.cumsum(x),
    "rows summed": lambda x, m, i: m.sum(axis=1),
    "rows times": lambda x, m, i: m @ MATRIX[:3],
    "differences": lambda x, m, i: np.diff(x, prepend=0.0),
    "copied": lambda x, m, i: x.copy(),
}
ROUNDED = ("mean", "std")  # parts are added in another order
SHORT_RESULTS = {
    "sum": lambda x, m, i: x.sum(),
    "mean": lambda x, m, i: m.mean(axis=0),
    "std": lambda x, m, i: m.std(axis=0, dtype=np.float64),
    "dot": lambda x, m, i: x @ x,
    "by episode": lambda x, m, i: np.add.reduceat(x, STARTS),
    "counts": lambda x, m, i: np.bincount(i, x),
    "quantiles": lambda x, m, i: np.quantile(x, [0.1, 0.5]),
    "average": lambda x, m, i: np.average(x, weights=x**2),
    "slice": lambda x, m, i: x[3:9],
    "one": lambda x, m, i: x[5],
    "cell": lambda x, m, i: m[4, 1],
    "few": lambda x, m, i: m[PLACES[:7], 1],
    "few rows": lambda x, m, i: m[PLACES[:300]],
    "any": lambda x, m, i: (x > 0).any(),
    "least": lambda x, m, i: m.min(axis=0),
}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Columns of a thousand are long, and computed a few at a time."""
    monkeypatch.setattr(column, "LONG", 500)
    monkeypatch.setattr(column, "PART", 64)
    monkeypatch.setattr(column, "PARTS", 3)


def columns(folder):
    made = []
    for values in (NUMBERS, MATRIX, INDEX):
        one = in_file(values.shape, values.dtype, folder)
        one[:] = values
        made.append(one)
    return made


@pytest.mark.parametrize("name", [*LONG_RESULTS, *SHORT_RESULTS])
def test_same_as_in_memory(name, tmp_path):
    compute = (LONG_RESULTS | SHORT_RESULTS)[name]
    expected, got = compute(NUMBERS, MATRIX, INDEX), compute(*columns(tmp_path))
    if name in ROUNDED:
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-13)
    else:
        np.testing.assert_array_equal(np.asarray(got), expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    assert isinstance(got, Column) == (name in LONG_RESULTS)


def test_in_place(tmp_path):
    x, m, _ = columns(tmp_path)
    x *= 2
    m += x[:, None]
    np.testing.assert_array_equal(np.asarray(m), MATRIX + 2 * NUMBERS[:, None])


def test_results_go_to_the_same_folder_and_leave_nothing(tmp_path):
    x, m, _ = columns(tmp_path)
    (m @ np.ones(3) + x).astype(np.float32)
    assert (x + 1).folder == str(tmp_path)
    assert list(tmp_path.iterdir()) == []  # they have no names


def test_release_loses_nothing(tmp_path):
    x, _, _ = columns(tmp_path)
    y = x + 1
    release()
    np.testing.assert_array_equal(np.asarray(y), NUMBERS + 1)


def test_files_are_closed_with_the_last_view(tmp_path):
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    gc.collect()
    before, mappings = open_files(), len(pages._mappings)
    x, _, _ = columns(tmp_path)
    view = x[3:7]
    del x, _
    gc.collect()
    np.testing.assert_array_equal(view, NUMBERS[3:7])
    del view
    gc.collect()
    assert (open_files(), len(pages._mappings)) == (before, mappings)


def test_reads_a_file(tmp_path):
    MATRIX.tofile(tmp_path / "matrix")
    read = from_file(tmp_path / "matrix", np.float64, 3, tmp_path)
    np.testing.assert_array_equal(np.asarray(read), MATRIX)
    with pytest.raises(ValueError, match="read-only"):
        read[0] = 1.0


def test_beside_an_array_in_memory_there_are_no_files():
    assert type(like(NUMBERS, ROWS)) is np.ndarray
    assert type(by_parts(lambda part: NUMBERS[part] + 1, ROWS, NUMBERS)) is np.ndarray
