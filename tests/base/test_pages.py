"""Pages of mapped files are given back, by those who walk over them and while others draw from them."""

import threading
import time

import numpy as np
import pytest

from statewise.base import pages
from statewise.base.column import PART, PARTS, PIECE, in_file, parts_of, to_draw_from
from statewise.base.pages import few_in_memory, of_files, release

pytestmark = pytest.mark.skipif(not pages._counts.exists(), reason="pages cannot be counted here")
SIZE = 1 << 26  # bytes
ROWS = SIZE // 8


@pytest.fixture
def table(tmp_path):
    made = in_file(ROWS, np.float64, tmp_path)
    made[:] = np.arange(ROWS)
    release()
    return made


def within(seconds, condition):
    """Whether it comes to hold, however busy the machine is."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_what_was_read_is_resident_until_it_is_released(table):
    before = of_files()
    assert np.asarray(table).sum() == ROWS * (ROWS - 1) / 2
    assert of_files() - before > 0.9 * SIZE
    release()
    assert of_files() - before < 0.1 * SIZE


def test_a_walk_leaves_little_behind(table):
    assert PART * PARTS * 8 <= SIZE / 2, "the walk must be longer than what it may keep"
    before, most = of_files(), 0
    for part in parts_of(ROWS):
        np.asarray(table)[part].sum()
        most = max(most, of_files() - before)
    assert most < 0.75 * SIZE
    assert of_files() - before < 0.1 * SIZE


def test_pages_are_given_back_meanwhile(table, monkeypatch):
    """By a thread: whoever draws does nothing, and draws the same numbers."""
    monkeypatch.setattr(pages, "LOOKS", 0.001)
    drawn = np.random.default_rng(0).integers(ROWS, size=1000)
    before = of_files()

    def few_stay():
        np.asarray(table)[: ROWS // 8].sum()
        time.sleep(0.02)
        return of_files() - before > 0.1 * SIZE

    with few_in_memory(most=SIZE // 4):
        for _ in range(20):
            np.testing.assert_array_equal(np.asarray(table)[drawn], drawn)
        np.asarray(table).sum()
        assert within(10, lambda: of_files() - before < 0.35 * SIZE)
        assert within(10, few_stay)
    assert of_files() - before < 0.1 * SIZE


def test_the_thread_ends_with_what_it_guards(table):
    def guards():
        return [one.name for one in threading.enumerate()].count("pages")

    def broken():
        with few_in_memory():
            assert guards() == 1
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert guards() == 0


def test_without_mapped_files_there_is_no_thread(monkeypatch):
    monkeypatch.setattr(pages, "_mappings", set())
    with few_in_memory():
        assert "pages" not in [one.name for one in threading.enumerate()]


def test_few_pages_come_with_a_drawn_row(table):
    """Of files that are written otherwise, the system may take in two megabytes with each."""
    rows = np.asarray(table).reshape(-1, 8)
    drawn = to_draw_from((rows[part] for part in parts_of(len(rows))), rows.shape, rows.dtype, beside=table)
    release()
    before = of_files()
    np.asarray(drawn)[:: len(rows) // 64].sum()
    assert of_files() - before < 64 * 2 * PIECE
    np.testing.assert_array_equal(np.asarray(drawn).ravel(), np.asarray(table))
