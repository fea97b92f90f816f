"""The hard example, exactly: both gradients at every α, and where following them leads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from statewise.domains.hard_example import HARD_EXAMPLE, offpac_gradient, policy, true_gradient
from statewise.experiments import manifest, records
from statewise.experiments.study import Study

GRID = 101
START, RATE, STEPS = 0.3, 0.05, 40
GRADIENTS = {"OPPOSD": true_gradient, "Off-PAC": offpac_gradient}  # with the exact w, and with w = 1


def run(study: Study, out: Path) -> None:
    """Writes the gradients on a grid, and the path of α as it ascends each of them between 0 and 1."""
    manifest.begin(out, study)
    alphas = np.linspace(0.0, 1.0, GRID)
    arrays = {"alpha": alphas, "value": np.array([HARD_EXAMPLE.value(policy(a), 1.0) for a in alphas])}
    for name, gradient in GRADIENTS.items():
        path = [START]
        for _ in range(STEPS):
            path.append(float(np.clip(path[-1] + RATE * gradient(path[-1]), 0.0, 1.0)))
        arrays |= {f"gradient {name}": np.array([gradient(a) for a in alphas]), f"path {name}": np.array(path)}
    records.write(out / "exact.npz", arrays)
