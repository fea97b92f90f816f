"""What a study's figures have in common: colours, line styles, and panels in rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

# Okabe & Ito's colours, which colour-blind readers can distinguish
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#444444")
GREY = "#888888"
SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "statewise",  # the same values give the same bytes
}
LINES = ("-", "--", "-.", ":")
WIDE = 30.0  # scores that differ by more than this factor are drawn on a logarithmic scale


def panels(rows: int, columns: int, width: float = 4.2, height: float = 3.1) -> tuple[Figure, np.ndarray]:
    figure = Figure((width * columns, height * rows + 0.3), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def spans_decades(values: np.ndarray) -> bool:
    """Whether values are best seen on a logarithmic scale."""
    return bool(len(values) > 0 and values.min() > 0 and values.max() > WIDE * values.min())
