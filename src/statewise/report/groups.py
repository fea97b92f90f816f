"""What the tables of gains by group say, in a sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from statewise.ope.subgroups import GroupGain
from statewise.report.content import ReportContent
from statewise.report.forest import Forest, forest
from statewise.report.formatting import number, percent


def forests_of(content: ReportContent) -> dict[str, Forest | None]:
    """Every table of gains, each on a scale of its own."""
    parts = () if content.changes is None else content.changes.parts
    return {"subgroups": forest(content.subgroups), "changes": forest(parts), "periods": forest(content.periods)}


def sentences_of(content: ReportContent) -> dict[str, str]:
    """One for each table and for the picture of changes."""
    changes = content.changes
    return {
        "subgroups": _by_group(content.subgroups),
        "changes": "" if changes is None else _changes(changes.negative, changes.median),
        "parts": "" if changes is None or not changes.parts else _lowest(changes.parts[0]),
        "periods": _periods(content.periods),
    }


def _by_group(groups: Sequence[GroupGain]) -> str:
    lose = [group.name for group in groups if group.high < 0]
    gain = [group.name for group in groups if group.low > 0]
    if lose:
        return f"{_listed(lose)}: {'this group loses' if len(lose) == 1 else 'these groups lose'}, beyond chance."
    if len(gain) == len(groups):
        return "Every group gains, beyond chance."
    if not gain:
        return "No group is shown to lose, and none to gain: the log cannot tell."
    some = f"{_listed(gain)} {'gains' if len(gain) == 1 else 'gain'}, beyond chance."
    return f"No group is shown to lose. {some} For the others, the log cannot tell."


def _changes(negative: float, median: float) -> str:
    begin = "No episode begins" if negative == 0 else f"{percent(negative)} of the episodes begin"
    half = "more" if median >= 0 else "less"
    return (
        f"According to the judge's models, {begin} where the policy would earn less than today; in the middle case it "
        f"would earn {number(abs(median))} {half}."
    )


def _lowest(group: GroupGain) -> str:
    name = group.name[:1].upper() + group.name[1:]
    if group.high < 0:
        return f"{name} loses, beyond chance: look at who they are before deploying."
    if group.low > 0:
        return f"Even {group.name} gains, beyond chance."
    return f"Whether {group.name} gains or loses, the log cannot tell."


def _periods(groups: Sequence[GroupGain]) -> str:
    if not groups:
        return ""
    agree = max(group.low for group in groups) <= min(group.high for group in groups)
    return (
        "The intervals have values in common: nothing here suggests that the gain has changed."
        if agree
        else "The intervals have no value in common: the gain changed while the log was written."
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
