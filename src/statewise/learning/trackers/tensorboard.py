"""Metrics as TensorBoard's event files, one run a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tensorboardX import SummaryWriter

from statewise.learning.runs import RunFolder


class TensorBoardTracker:
    """Writes DIR/seed-<s>. A run that goes on tells its first updates again and has TensorBoard drop the old ones."""

    def __init__(self, folder: RunFolder, directory: str | Path):
        self.folder, self.directory, self.told = folder, Path(directory), 0
        self.writers: dict[int, SummaryWriter] = {}

    def __call__(self, update: int) -> None:
        metrics = {name: values for name, values in self.folder.metrics().items() if values.ndim == 2}
        for i, seed in enumerate(self.folder.manifest()["seeds"]):
            writer = self._writer(seed)
            for name, values in metrics.items():
                for step in range(self.told, values.shape[1]):
                    # a wall time for each step would be made up: all that came together gets the time of its telling
                    writer.add_scalar(name, float(values[i, step]), step + 1)
            writer.flush()
        self.told = np.shape(next(iter(metrics.values())))[1]

    def _writer(self, seed: int) -> SummaryWriter:
        if seed not in self.writers:
            self.writers[seed] = SummaryWriter(str(self.directory / f"seed-{seed}"), purge_step=1)
        return self.writers[seed]

    def close(self, finished: bool) -> None:
        for writer in self.writers.values():
            writer.close()
