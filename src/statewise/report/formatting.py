"""Numbers as the report shows them."""

from __future__ import annotations

import re

from statewise.ope.measures import MEASURES, Measurement
from statewise.ope.subgroups import GroupGain
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
    return f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", "−")  # + 0.0: never −0.0


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


def gain(group: GroupGain) -> str:
    """A group's gain and its interval."""
    like = max(abs(group.gain), min(abs(group.low), abs(group.high)))
    ends = " to ".join(number(end, like) for end in (group.low, group.high))
    return f"{number(group.gain, like)} ({ends})"


def count(size: float | None) -> str:
    """A number of episodes, with a decimal where there are few."""
    return "–" if size is None else f"{size:,.0f}" if size >= 10 else f"{size:.1f}"


def action(name: str) -> str:
    """A name that says that it is one."""
    return f"action {name}" if name.isdecimal() else name


def minus(text: str) -> str:
    """A text whose negative numbers have a true minus sign."""
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)


def sentence(text: str) -> str:
    """With a capital letter and one full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def consequence(measure: Measurement) -> str:
    """What an outcome that is not good does to the answer."""
    if measure.outcome == "doubtful":
        return "The interval is wider for it." if measure.allowed_for else "So a more careful bound counts."
    return "So no number is believed." if measure.outcome == "bad" else "This could not be checked."


def bounds(measure: Measurement) -> str:
    """The measured number, and from where on it would be doubtful or bad."""
    least, most = measure.bounds
    unit = f" {MEASURES[measure.name].unit}" if measure.name in MEASURES and MEASURES[measure.name].unit else ""
    measured = "" if measure.value is None else f"Measured: {measure.value:.3g}{unit}. "
    if most is None:
        return f"{measured}Good up to {least:g}, doubtful beyond."
    if least > most:
        return f"{measured}Good from {least:g}, doubtful from {most:g}, bad below."
    return f"{measured}Good up to {least:g}, doubtful up to {most:g}, bad beyond."


def _largest(worth: Worth) -> float:
    return max(abs(end) for end in (worth.value, worth.low, worth.high, 0.0) if end is not None)
