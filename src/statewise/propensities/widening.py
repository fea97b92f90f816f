"""What estimated propensities add to the uncertainty of an estimate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def widening(standard_error: float, values: Sequence[float]) -> float:
    """√(s² + b²)/s: how much an error s grows when it is not known which propensities are right.

    `values` are the same estimate on each of `Dataset.refits`, b² their variance; 1 where there are none. That is the
    safe side: in truth the two errors often cancel in part.
    """
    if len(values) < 2 or not standard_error > 0:
        return 1.0
    return float(np.hypot(standard_error, np.std(values, ddof=1)) / standard_error)
