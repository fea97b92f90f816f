"""How figures are drawn: as inline SVG in the page's own colours, so that they follow its light and dark schemes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Placeholder colours, replaced by the page's CSS variables once the figure is drawn
NAMES = ("ink", "muted", "line", "accent", "current", "good", "card")
INK, MUTED, LINE, ACCENT, CURRENT, GOOD, CARD = (f"#0a0a0{i}" for i in range(len(NAMES)))
CATEGORY = [f"#0a0b0{i}" for i in range(8)]  # for actions
VARIABLES = {f"#0a0a0{i}": name for i, name in enumerate(NAMES)}
VARIABLES |= {colour: f"category-{i}" for i, colour in enumerate(CATEGORY)}
SIZE = (4.2, 2.75)  # inches; readable side by side, and one below another on a phone
SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it can be searched and read aloud, and uses the page's font
    "font.size": 10,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": LINE,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "text.parse_math": False,  # a column may be called $x_1$
}


def variable(colour: str) -> str:
    """The CSS variable of a colour used here."""
    return f"var(--{VARIABLES[colour]})"


def svg_of(name: str, draw: Callable[[Axes], None], size: tuple[float, float] = SIZE) -> str:
    """What `draw` draws, hidden from screen readers (the page describes it); the same values give the same bytes."""
    settings: dict[Any, Any] = {**SETTINGS, "svg.hashsalt": name}
    with mpl.rc_context(settings):
        figure = Figure(size, layout="constrained")
        draw(figure.add_subplot())
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    # drop ids, which would clash between figures, and sizes and fonts, which the page sets
    svg = re.sub(r'<g id="[\w.]+"', "<g", svg)
    svg = re.sub(r'(<svg [^>]*?)width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?)height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font-size: \1px", svg)
    svg = svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
    for colour, variable_name in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable_name})")
    return svg
