"""What is not known of an estimate beside the noise of its episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def widening(standard_error: float, deviations: Sequence[float] = (), allowance: float = 0.0) -> float:
    """√(s² + b² + a²)/s: how much an error s grows by what redrawn episodes do not show.

    `deviations` are of the same estimate on each of `Dataset.refits`, b² their mean square: it is not known which
    propensities are right, nor whether refitting always moves them the same way. That is the safe side: in truth errors
    often cancel in part. `allowance` is a, an estimator's own.
    """
    if not 0 < standard_error < np.inf:
        return 1.0
    count = len(deviations)
    between = float(np.sqrt(np.sum(np.square(deviations)) / (count - 1))) if count > 1 else 0.0
    return float(np.sqrt(standard_error**2 + between**2 + allowance**2) / standard_error)
