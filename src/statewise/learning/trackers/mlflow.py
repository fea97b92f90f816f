"""Metrics and settings in MLflow: one MLflow run a run folder, found again when the run goes on."""

from __future__ import annotations

import time
from contextlib import suppress

from mlflow import MlflowClient, MlflowException
from mlflow.entities import Metric, Param

from statewise.learning.runs import RunFolder, flattened

EXPERIMENT = "statewise"
TAG = "statewise.folder"
MOST_AT_ONCE = 1000  # metrics in one call, MLflow's own limit
MOST_SETTINGS = 100
LONGEST = 500  # characters of a setting


class MlflowTracker:
    """Logs every metric of every seed as `seed_<s>.<metric>`."""

    def __init__(self, folder: RunFolder, uri: str):
        self.folder = folder
        try:
            self.client = MlflowClient(uri)
            self.experiment = self._experiment()
        except MlflowException as error:
            raise ValueError(f"MLflow at {uri}: {str(error).splitlines()[0]}") from error
        self.run_id: str | None = None
        self.told = 0

    def __call__(self, update: int) -> None:
        try:
            self._tell(update)
        except MlflowException as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"MLflow could not be told of update {update} ({reason}); {self.folder.path} holds the run so far, and "
                "the same command goes on with it"
            ) from error

    def _tell(self, update: int) -> None:
        if self.run_id is None:
            self.run_id, self.told = self._begin()
        now = int(time.time() * 1000)
        metrics = {name: values for name, values in self.folder.metrics().items() if values.ndim == 2}
        batch = [
            Metric(f"seed_{seed}.{name}", float(values[i, step]), now, step + 1)
            for i, seed in enumerate(self.folder.manifest()["seeds"])
            for name, values in metrics.items()
            for step in range(self.told, values.shape[1])
        ]
        for first in range(0, len(batch), MOST_AT_ONCE):
            self.client.log_batch(self.run_id, metrics=batch[first : first + MOST_AT_ONCE])
        self.told = update

    def close(self, finished: bool) -> None:
        if self.run_id is not None:
            with suppress(MlflowException):  # it was told, or the user was told why not
                self.client.set_terminated(self.run_id, "FINISHED" if finished else "KILLED")

    def _experiment(self) -> str:
        known = self.client.get_experiment_by_name(EXPERIMENT)
        return known.experiment_id if known is not None else self.client.create_experiment(EXPERIMENT)

    def _begin(self) -> tuple[str, int]:
        """The run of this folder and how far it was told; a new one where there is none."""
        manifest, place = self.folder.manifest(), str(self.folder.path.resolve())
        found = self.client.search_runs([self.experiment], f"tags.`{TAG}` = '{place}'", max_results=1)
        for run in found:
            if run.data.params.get("data") == manifest["data"]:
                return run.info.run_id, self._told(run.info.run_id, manifest["seeds"][-1])
        run = self.client.create_run(self.experiment, tags={TAG: place}, run_name=self.folder.path.name)
        settings = [Param(key, str(value)[:LONGEST]) for key, value in flattened(manifest).items()]
        for first in range(0, len(settings), MOST_SETTINGS):
            self.client.log_batch(run.info.run_id, params=settings[first : first + MOST_SETTINGS])
        return run.info.run_id, 0

    def _told(self, run_id: str, seed: int) -> int:
        last = f"seed_{seed}.gradient_norm"
        return max((metric.step for metric in self.client.get_metric_history(run_id, last)), default=0)
