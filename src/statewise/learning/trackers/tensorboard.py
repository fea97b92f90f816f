"""Metrics as TensorBoard's event files, one TensorBoard run per seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tensorboardX import SummaryWriter

from statewise.learning.runs import RunFolder


class TensorBoardTracker:
    """Writes DIR/seed-<s>. A resumed run writes its first updates again, and TensorBoard drops the old ones."""

    def __init__(self, folder: RunFolder, directory: str | Path):
        self.folder, self.directory, self.written = folder, Path(directory), 0
        self.writers: dict[int, SummaryWriter] = {}

    def __call__(self, update: int) -> None:
        metrics = {name: values for name, values in self.folder.metrics().items() if values.ndim == 2}
        for i, seed in enumerate(self.folder.manifest()["seeds"]):
            writer = self._writer(seed)
            for name, values in metrics.items():
                for step in range(self.written, values.shape[1]):
                    # the wall time of each step is unknown: all steps of a stretch get the time of writing
                    writer.add_scalar(name, float(values[i, step]), step + 1)
            writer.flush()
        self.written = np.shape(next(iter(metrics.values())))[1]

    def _writer(self, seed: int) -> SummaryWriter:
        if seed not in self.writers:
            self.writers[seed] = SummaryWriter(str(self.directory / f"seed-{seed}"), purge_step=1)
        return self.writers[seed]

    def close(self, finished: bool) -> None:
        for writer in self.writers.values():
            writer.close()
