"""Metrics arrive where they were sent, as each tracker's own library reads them, also when a run was interrupted."""

import numpy as np
import polars as pl
import pytest

from statewise.learning.runs import RunFolder
from statewise.learning.trackers.parquet import ParquetTracker
from statewise.learning.trackers.tensorboard import TensorBoardTracker

SEEDS = [3, 5]
rng = np.random.default_rng(0)
METRICS = {
    "value": rng.normal(size=(2, 30)),
    "gradient_norm": rng.normal(size=(2, 30)),
    "finite": np.ones((2, 30, 3), dtype=bool),
}


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    folder.write_manifest({"seeds": SEEDS, "data": "abc", "config": {"actor": {"rate": 0.1}, "discount": 0.9}})
    return folder


def advance(folder, tracker, update):
    folder.write_metrics({name: values[:, :update] for name, values in METRICS.items()})
    tracker(update)


def test_parquet(folder):
    tracker = ParquetTracker(folder)
    for update in (10, 30):
        advance(folder, tracker, update)
    frame = pl.read_parquet(folder.path / "metrics.parquet")
    assert len(frame) == 60
    row = frame.filter((pl.col("seed") == 5) & (pl.col("update") == 7)).row(0, named=True)
    assert row["value"] == METRICS["value"][1, 6]
    assert row["gradient_norm"] == METRICS["gradient_norm"][1, 6]
    assert row["finite_2"] is True


def test_tensorboard_by_its_own_reader(folder, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for stops in ((10, 20), (30,)):  # the second time as after an interruption
        tracker = TensorBoardTracker(folder, tmp_path / "events")
        for update in stops:
            advance(folder, tracker, update)
        tracker.close(True)
    for i, seed in enumerate(SEEDS):
        reader = EventAccumulator(str(tmp_path / "events" / f"seed-{seed}"), size_guidance={"scalars": 0})
        reader.Reload()
        events = reader.Scalars("value")
        assert [event.step for event in events] == list(range(1, 31))
        np.testing.assert_allclose([event.value for event in events], METRICS["value"][i], rtol=1e-6)


@pytest.mark.filterwarnings("ignore")  # MLflow's store warns of its own libraries
def test_mlflow_by_its_own_client(folder, tmp_path):
    from mlflow import MlflowClient

    from statewise.learning.trackers.mlflow import MlflowTracker

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = MlflowClient(uri)
    for stops, finished, status in (((10, 20), False, "KILLED"), ((30,), True, "FINISHED")):
        tracker = MlflowTracker(folder, uri)
        for update in stops:
            advance(folder, tracker, update)
        tracker.close(finished)
        (run,) = client.search_runs([client.get_experiment_by_name("statewise").experiment_id])
        assert run.info.status == status
    assert run.data.params["config.actor.rate"] == "0.1"
    assert run.data.params["data"] == "abc"
    for i, seed in enumerate(SEEDS):
        history = sorted(client.get_metric_history(run.info.run_id, f"seed_{seed}.value"), key=lambda m: m.step)
        assert [metric.step for metric in history] == list(range(1, 31))
        np.testing.assert_allclose([metric.value for metric in history], METRICS["value"][i], rtol=1e-12)


def test_an_mlflow_that_cannot_be_reached_is_reported_before_learning(folder):
    from statewise.learning.trackers.mlflow import MlflowTracker

    with pytest.raises(ValueError, match="MLflow at nowhere://x: "):
        MlflowTracker(folder, "nowhere://x")
