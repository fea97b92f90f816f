"""Metrics and settings in MLflow: one MLflow run per run folder, continued when the run is resumed."""

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
        self.logged = 0

    def __call__(self, update: int) -> None:
        try:
            self._log(update)
        except MlflowException as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"MLflow did not accept the metrics of update {update} ({reason}); the run so far is in "
                f"{self.folder.path}: run the same command again to resume"
            ) from error

    def _log(self, update: int) -> None:
        if self.run_id is None:
            self.run_id, self.logged = self._begin()
        now = int(time.time() * 1000)
        metrics = {name: values for name, values in self.folder.metrics().items() if values.ndim == 2}
        batch = [
            Metric(f"seed_{seed}.{name}", float(values[i, step]), now, step + 1)
            for i, seed in enumerate(self.folder.manifest()["seeds"])
            for name, values in metrics.items()
            for step in range(self.logged, values.shape[1])
        ]
        for first in range(0, len(batch), MOST_AT_ONCE):
            self.client.log_batch(self.run_id, metrics=batch[first : first + MOST_AT_ONCE])
        self.logged = update

    def close(self, finished: bool) -> None:
        if self.run_id is not None:
            with suppress(MlflowException):  # an earlier failure was already reported
                self.client.set_terminated(self.run_id, "FINISHED" if finished else "KILLED")

    def _experiment(self) -> str:
        known = self.client.get_experiment_by_name(EXPERIMENT)
        return known.experiment_id if known is not None else self.client.create_experiment(EXPERIMENT)

    def _begin(self) -> tuple[str, int]:
        """The MLflow run of this folder, and how many updates it has; a new one if there is none."""
        manifest, place = self.folder.manifest(), str(self.folder.path.resolve())
        runs = self.client.search_runs([self.experiment], f"tags.`{TAG}` = '{place}'", max_results=1)
        for run in runs:
            if run.data.params.get("data") == manifest["data"]:
                return run.info.run_id, self._updates_in(run.info.run_id, manifest["seeds"][-1])
        run = self.client.create_run(self.experiment, tags={TAG: place}, run_name=self.folder.path.name)
        settings = [Param(key, str(value)[:LONGEST]) for key, value in flattened(manifest).items()]
        for first in range(0, len(settings), MOST_SETTINGS):
            self.client.log_batch(run.info.run_id, params=settings[first : first + MOST_SETTINGS])
        return run.info.run_id, 0

    def _updates_in(self, run_id: str, seed: int) -> int:
        last = f"seed_{seed}.gradient_norm"
        return max((metric.step for metric in self.client.get_metric_history(run_id, last)), default=0)
