"""A million rows in files are judged as they are in memory, with blocks, chunks and columns of their usual sizes."""

import numpy as np
import pytest

import statewise as sw
from logs import simulated
from statewise.base.column import Column


def policy(observations):
    chances = np.exp(np.asarray(observations, np.float64)[:, [1, 0, 2]])
    return chances / chances.sum(axis=1, keepdims=True)


@pytest.mark.long
def test_same_answer(tmp_path):
    (tmp_path / "log").mkdir()
    simulated(110_000, 10).save(tmp_path / "log" / "part.parquet")
    loaded = sw.load(tmp_path / "log" / "part.parquet")
    scanned = sw.scan(tmp_path / "log", scratch=tmp_path / "scratch")
    assert isinstance(scanned.rewards, Column)
    one, other = (sw.evaluate(policy, log, draws=50) for log in (loaded, scanned))
    assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high), rel=1e-6)
    np.testing.assert_allclose(other.influence, one.influence, rtol=1e-6, atol=1e-8)
