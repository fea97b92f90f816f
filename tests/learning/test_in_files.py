"""What is learned from a log in files is what is learned from the same log in memory, and takes no more memory."""

import threading

import numpy as np
import polars as pl
import pytest

import statewise as sw
from logs import simulated
from statewise.base import column, pages
from statewise.data import scan as scanning
from statewise.data.device import row_table


def small_parts(monkeypatch):
    monkeypatch.setattr(scanning, "FEWEST", 300)
    monkeypatch.setattr(scanning, "MOST", 300)
    monkeypatch.setattr(column, "LONG", 400)


def both(data, folder):
    (folder / "log").mkdir()
    data.save(folder / "log" / "part.parquet")
    return sw.load(folder / "log" / "part.parquet"), sw.scan(folder / "log", scratch=folder / "scratch")


@pytest.mark.parametrize("masked", [False, True])
def test_same_rows_to_draw_from(masked, tmp_path, monkeypatch):
    """Bit by bit, wherever parts and pieces end: those of a file end in the middle of rows."""
    small_parts(monkeypatch)
    monkeypatch.setattr(column, "PART", 100)
    monkeypatch.setattr(column, "PIECE", 1000)
    loaded, scanned = both(simulated(80, 12, masked=masked), tmp_path)
    assert isinstance(scanned.rewards, column.Column)
    expected, got = row_table(loaded), row_table(scanned)
    np.testing.assert_array_equal(np.asarray(got.table), np.asarray(expected.table))
    f, table = expected.features, np.asarray(expected.table)
    for row in range(len(loaded) - 1):
        if row + 1 not in loaded.starts:
            np.testing.assert_array_equal(table[row, f : 2 * f], table[row + 1, :f])


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["opposd", "cql", "fitted-q"])
def test_same_policy(algorithm, tmp_path, monkeypatch):
    small_parts(monkeypatch)
    loaded, scanned = both(simulated(80, 12), tmp_path)
    assert isinstance(scanned.observations, column.Column)
    one, other = (sw.fit(log, algorithm, updates=3).policies[0] for log in (scanned, loaded))
    seen = loaded.observations
    # means of observations are summed in another order
    np.testing.assert_allclose(one.probabilities(seen), other.probabilities(seen), rtol=1e-6, atol=1e-9)


@pytest.mark.long
def test_same_policy_while_pages_are_given_back(tmp_path, monkeypatch):
    """All of them, two thousand times a second: not a bit changes."""
    small_parts(monkeypatch)
    _, scanned = both(simulated(80, 12), tmp_path)
    one = sw.fit(scanned, updates=5).policies[0]
    monkeypatch.setattr(pages, "MOST", -(1 << 40))
    monkeypatch.setattr(pages, "LOOKS", 0.0005)
    other = sw.fit(scanned, updates=5).policies[0]
    for got, expected in zip(other.weights + other.biases, one.weights + one.biases, strict=True):
        np.testing.assert_array_equal(got, expected)


def long_log(rows, folder):
    """Episodes of ten decisions that look at nothing, in a file."""
    rng, step = np.random.default_rng(0), np.arange(rows) % 10
    observations = {f"obs_{j}": rng.normal(size=rows).astype(np.float32) for j in range(8)}
    columns = {"episode": np.arange(rows) // 10, "step": step, **observations}
    columns |= {
        "action": rng.integers(4, size=rows),
        "reward": rng.normal(size=rows),
        "propensity": np.full(rows, 0.25),
    }
    folder.mkdir()
    pl.DataFrame(columns | {"terminated": step == 9}).write_parquet(folder / "part.parquet")
    return sw.scan(folder, scratch=folder / "scratch")


@pytest.mark.long
def test_a_long_log_does_not_fill_memory(tmp_path, monkeypatch):
    """Pages of files stay near their bound, though all rows are walked over, and drawn from all over."""
    log = long_log(8_000_000, tmp_path / "log")
    monkeypatch.setattr(pages, "MOST", 1 << 27)
    monkeypatch.setattr(pages, "LOOKS", 0.005)
    monkeypatch.setattr(column, "PARTS", 8)
    pages.release()
    before, most, ended = pages.of_files(), 0, threading.Event()

    def watch():
        nonlocal most
        while not ended.wait(0.005):
            most = max(most, pages.of_files() - before)

    watching = threading.Thread(target=watch)
    watching.start()
    try:  # with few rows an update: the system takes in 64 kB with each
        actor = sw.Actor(batch=100, clone_batch=50, clone_steps=500)
        sw.fit(log, sw.OPPOSD(actor=actor, critic=sw.Critic(batch=50, steps=2, warm_steps=500)), updates=50)
    finally:
        ended.set()
        watching.join()
    table = 4 * 24 * len(log)  # bytes of what rows are drawn from; the columns have 56 a row beside that
    assert most < table / 2
