"""Numbers as the report shows them."""

from __future__ import annotations

from statewise.report.content import Worth

LARGE = {1e9: "billion", 1e6: "million"}


def number(value: float | None, like: float | None = None) -> str:
    """Three or four digits, with as many decimals as `like` would have; None is not identified."""
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
    """At most three digits."""
    return f"{100 * share:.3g} %"


def one_decimal(share: float) -> str:
    """Like `percent`, for columns whose decimal points should align."""
    return f"{100 * share:.1f} %"


def value(worth: Worth) -> str:
    """The value, as precise as its interval."""
    return number(worth.value, _largest(worth))


def interval(worth: Worth) -> str:
    """Both ends of the interval; empty if there is none."""
    if worth.low is None or worth.high is None:
        return ""
    return f"{number(worth.low, _largest(worth))} to {number(worth.high, _largest(worth))}"


def spoken(worth: Worth) -> str:
    """Value and interval, to be read aloud."""
    between = interval(worth)
    return value(worth) + (f", between {between.replace(' to ', ' and ')}" if between else "")


def _largest(worth: Worth) -> float:
    return max(abs(end) for end in (worth.value, worth.low, worth.high, 0.0) if end is not None)
