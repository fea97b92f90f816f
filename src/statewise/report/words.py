"""Numbers as a reader meets them."""

from __future__ import annotations

from statewise.report.content import Worth

LARGE = {1e9: "billion", 1e6: "million"}


def number(value: float | None, like: float | None = None) -> str:
    """Three or four digits, as many behind the point as `like` would have; what is not known is said so."""
    if value is None:
        return "not identified"
    size = abs(value if like is None else like)
    for unit, name in LARGE.items():
        if size >= unit:
            return f"{value / unit:.2f} {name}".replace("-", "−")
    if 0 < size < 1e-3:
        return f"{value:.3g}".replace("-", "−")
    decimals = 0 if size >= 1000 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{decimals}f}".replace("-", "−")


def percent(share: float) -> str:
    """Three digits at most."""
    return f"{100 * share:.3g} %"


def one_decimal(share: float) -> str:
    """As `percent`, for columns whose points should stand below each other."""
    return f"{100 * share:.1f} %"


def value(worth: Worth) -> str:
    """As precise as its interval."""
    return number(worth.value, _largest(worth))


def interval(worth: Worth) -> str:
    """Both ends; empty where there is none."""
    if worth.low is None or worth.high is None:
        return ""
    return f"{number(worth.low, _largest(worth))} to {number(worth.high, _largest(worth))}"


def spoken(worth: Worth) -> str:
    """Value and interval as one would say them."""
    between = interval(worth)
    return value(worth) + (f", between {between.replace(' to ', ' and ')}" if between else "")


def _largest(worth: Worth) -> float:
    return max(abs(end) for end in (worth.value, worth.low, worth.high, 0.0) if end is not None)
