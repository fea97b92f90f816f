"""Metrics as Parquet: one row per seed and update, one column per metric."""

from __future__ import annotations

import numpy as np
import polars as pl

from statewise.data.formats import write_frame
from statewise.learning.runs import RunFolder


class ParquetTracker:
    """Keeps RUN/metrics.parquet up to date with the run."""

    def __init__(self, folder: RunFolder):
        self.folder = folder

    def __call__(self, update: int) -> None:
        write_metrics(self.folder)

    def close(self, finished: bool) -> None:
        pass


def write_metrics(folder: RunFolder) -> None:
    """Writes RUN/metrics.parquet, with all metrics so far."""
    write_frame(metrics_frame(folder), folder.path / "metrics.parquet")


def metrics_frame(folder: RunFolder) -> pl.DataFrame:
    """The run's metrics: `seed`, `update` (from 1), then the metrics by name, `finite` with a column per part."""
    metrics = folder.metrics()
    seeds = np.asarray(folder.manifest()["seeds"])
    updates = next(iter(metrics.values())).shape[1]
    columns = {"seed": np.repeat(seeds, updates), "update": np.tile(np.arange(1, updates + 1), len(seeds))}
    for name, values in metrics.items():
        flat = values.reshape(len(seeds) * updates, -1)
        names = [name] if values.ndim == 2 else [f"{name}_{part}" for part in range(flat.shape[1])]
        columns |= {column: flat[:, j] for j, column in enumerate(names)}
    return pl.DataFrame(columns)
