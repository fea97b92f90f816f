"""Minari data sets, written and read by Minari itself."""

from pathlib import Path

import numpy as np
import pytest

import statewise as sw
from logs import make

minari = pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


@pytest.mark.filterwarnings("ignore")  # Minari warns of metadata that a test has no use for
def test_round_trip():
    log = make([2, 1, 3])
    sw.to_minari(log, "tests/log-v0")
    for source in ("minari:tests/log-v0", Path("minari:tests/log-v0"), minari.load_dataset("tests/log-v0")):
        back = sw.load(source)
        for name in (
            "observations",
            "actions",
            "rewards",
            "propensities",
            "starts",
            "terminated",
            "final_observations",
        ):
            np.testing.assert_array_equal(getattr(back, name), getattr(log, name), err_msg=name)
        assert back.action_count == log.action_count
        assert sw.load(source, cut_off="continuing", horizon=2).horizon == ("continuing", 2)


@pytest.mark.filterwarnings("ignore")
def test_missing_propensities_are_an_error_that_names_the_way_out():
    log = make([2, 1, 3])
    without = sw.to_minari(sw.Dataset(**{**vars(log), "propensities": None}), "tests/bare-v0")
    with pytest.raises(sw.LogError, match="uniform=True"):
        sw.load(without)
    assert (sw.from_minari(without, uniform=True).propensities == 1 / 3).all()


@pytest.mark.filterwarnings("ignore")
def test_reads_what_minaris_own_collector_wrote():
    """Its first info is the reset's; step t's is the one after."""
    gymnasium = pytest.importorskip("gymnasium")

    class Told(gymnasium.Wrapper):
        def reset(self, **options):
            self.steps = 0
            return self.env.reset(**options)[0], {"propensity": 0.99}

        def step(self, action):
            self.steps += 1
            *rest, _ = self.env.step(action)
            return *rest, {"propensity": 0.1 * self.steps}

    collector = minari.DataCollector(Told(gymnasium.make("CartPole-v1")), record_infos=True)
    collector.reset(seed=0)
    for action in (0, 1, 0, 1):
        collector.step(action)
    data = sw.load(collector.create_dataset("tests/collected-v0"))
    np.testing.assert_allclose(data.propensities, [0.1, 0.2, 0.3, 0.4])
    assert data.actions.tolist() == [0, 1, 0, 1]
