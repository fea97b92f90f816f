"""What is learned from a log in files is what is learned from the same log in memory, up to rounding."""

import numpy as np
import pytest

import statewise as sw
from logs import simulated
from statewise.base import column
from statewise.data import scan as scanning


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["opposd", "cql", "fitted-q"])
def test_same_policy(algorithm, tmp_path, monkeypatch):
    monkeypatch.setattr(scanning, "FEWEST", 300)
    monkeypatch.setattr(scanning, "MOST", 300)
    monkeypatch.setattr(column, "LONG", 400)
    (tmp_path / "log").mkdir()
    simulated(80, 12).save(tmp_path / "log" / "part.parquet")
    loaded = sw.load(tmp_path / "log" / "part.parquet")
    scanned = sw.scan(tmp_path / "log", scratch=tmp_path / "scratch")
    assert isinstance(scanned.observations, column.Column)
    one, other = (sw.fit(log, algorithm, updates=3).policies[0] for log in (scanned, loaded))
    seen = loaded.observations
    # means of observations are summed in another order
    np.testing.assert_allclose(one.probabilities(seen), other.probabilities(seen), rtol=1e-6, atol=1e-9)
