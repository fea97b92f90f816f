"""The figures of each section: title, picture, description for screen readers, and caption."""

from __future__ import annotations

from dataclasses import dataclass

from statewise.report import figures
from statewise.report.content import ActionMap, ReportContent
from statewise.report.drawing import variable
from statewise.report.formatting import number, percent, spoken

# title, caption, whether it is a share between 0 and 1
METRICS = {
    "value": ("What the critic expects", "A training signal, not evidence: the answer does not rest on it.", False),
    "ratio_ess": (
        "How many decisions still count",
        "When the new policy goes where the log has hardly been, few decisions carry all the weight.",
        True,
    ),
    "entropy": ("How undecided the policy is", "0 when it always does the same in the same situation.", False),
}


@dataclass(frozen=True)
class Panel:
    """One figure on the page."""

    title: str
    svg: str
    alt: str
    caption: str


def all_panels(content: ReportContent) -> dict[str, list[Panel]]:
    """The panels of each section; empty for a section without figures."""
    return {
        "path": _path_panel(content),
        "worth": _worth_panel(content),
        "support": _support_panels(content),
        "learning": _learning_panels(content),
        "difference": _difference_panels(content),
        "changes": _changes_panel(content),
    }


def _worth_panel(content: ReportContent) -> list[Panel]:
    items = [worth for worth in content.worths if worth.role != "gain"]
    if not items:
        return []
    alt = "; ".join(f"{worth.name}: {spoken(worth)}" for worth in items)
    caption = (
        f"Dots are estimates, bars are {percent(content.level)} intervals; a hollow dot has weak support. The shaded "
        "band is current practice."
    )
    svg = figures.worths(items, content.value_name)
    return [Panel(f"{content.value_name[0].upper()}{content.value_name[1:]}", svg, alt, caption)]


def _path_panel(content: ReportContent) -> list[Panel]:
    if not content.path:
        return []
    chosen = next((step for step in content.path if step.deployed), None)
    said = (
        f"The step to deploy, {percent(chosen.step)} of the way, gains at least {number(chosen.low)}."
        if chosen is not None
        else "No step was certified."
    )
    last = content.path[-1]
    gain = "not identified" if last.gain is None else f"a gain of {number(last.gain)}"
    alt = (
        f"The gain over today along the way to the goal, {len(content.path)} steps tested. {said} The last tested, "
        f"{percent(last.step)} of the way: {gain}."
    )
    caption = (
        f"Dots are what each step gains, dashes the least that is certain ({percent(content.level)}, for all steps "
        "together). Full dots passed. Circled in green: the policy to deploy. Steps were tested from left to right, up "
        "to the first that failed."
    )
    return [Panel("From today to the goal", figures.path(content.path), alt, caption)]


def _changes_panel(content: ReportContent) -> list[Panel]:
    changes = content.changes
    if changes is None:
        return []
    alt = (
        f"Histogram of the expected gain over today: {percent(changes.negative)} of the episodes are expected to lose; "
        f"the middle one gains {number(changes.median)}."
    )
    caption = (
        "What models of the judged episodes expect of the situations in which they begin. Left of the dashed line the "
        "policy is expected to earn less than today."
    )
    return [Panel("Expected gain, episode by episode", figures.changes(changes.edges, changes.shares), alt, caption)]


def _support_panels(content: ReportContent) -> list[Panel]:
    panels = []
    if content.overlap is not None:
        edges, shares = content.overlap.edges, content.overlap.shares
        most = max(range(len(shares)), key=lambda i: shares[i])
        alt = (
            f"Histogram of the new probability divided by the logged one. Most decisions, {percent(shares[most])}, lie "
            f"between {number(edges[most])} and {number(edges[most + 1])}; the largest is below {number(edges[-1])}."
        )
        caption = "Near 1 the new policy does what the log did. Far to the right the log says little about it."
        panels.append(Panel("Overlap with the log", figures.overlap(content.overlap), alt, caption))
    if content.weight_shares:
        tenth = _carried(content.weight_shares, 0.1)
        alt = f"The heaviest tenth of the episodes carries {percent(tenth)} of the weight; evenly spread, 10 %."
        caption = "On the dashed line all episodes count equally. The further above it, the fewer carry the answer."
        panels.append(Panel("How evenly episodes count", figures.tail(content.weight_shares), alt, caption))
    if content.calibration is not None:
        pairs = zip(content.calibration.predicted, content.calibration.observed, strict=True)
        worst = max(abs(predicted - observed) for predicted, observed in pairs)
        alt = f"Estimated propensities against how often actions were taken; the largest gap is {percent(worst)}."
        caption = (
            "The log does not say how likely each action was, so this was estimated. Dashed: where estimates are right."
        )
        panels.append(
            Panel("Are the estimated propensities right?", figures.calibration(content.calibration), alt, caption)
        )
    return panels


def _learning_panels(content: ReportContent) -> list[Panel]:
    chosen = content.chosen
    place = f" The chosen checkpoint, update {chosen.update:,} of seed {chosen.seed}, is circled." if chosen else ""
    panels = []
    if content.checkpoints:
        known = [item.value for item in content.checkpoints if item.value is not None]
        span = f"from {number(min(known))} to {number(max(known))}" if known else "none of which is identified"
        alt = f"Estimated {content.value_name} of {len(content.checkpoints)} checkpoints, {span}.{place}"
        caption = (
            "Estimated on episodes kept apart for choosing, so the best one looks better here than it is: the answer "
            "rests on other episodes. Dashed: current practice. Gaps are not identified."
        )
        svg = figures.checkpoints(content.checkpoints, chosen, content.worth("current"))
        panels.append(Panel("Value of each checkpoint", svg, alt, caption))
    for metric, (title, caption, share) in METRICS.items():
        lines = [curve for curve in content.curves if curve.metric == metric]
        if lines:
            start, end = (sum(line.values[i] for line in lines) / len(lines) for i in (0, -1))
            alt = f"{title}, from {number(start)} to {number(end)} on average over {len(lines)} runs.{place}"
            panels.append(Panel(title, figures.curves(lines, chosen, share), alt, caption))
    return panels


def _difference_panels(content: ReportContent) -> list[Panel]:
    action_map = content.action_map
    if action_map is None:
        return []
    pairs = [
        (logged, proposed)
        for rows in zip(action_map.logged, action_map.proposed, strict=True)
        for logged, proposed in zip(*rows, strict=True)
        if logged is not None
    ]
    changed = sum(logged != proposed for logged, proposed in pairs)
    over = f"over {action_map.x} and {action_map.y}" if action_map.y else f"over {action_map.x}"
    return [
        Panel(
            "What was done",
            figures.action_map(action_map, "logged"),
            f"Map of the action most often logged, {over}.",
            "The action most often taken in the log. Empty where there are too few decisions.",
        ),
        Panel(
            "What the new policy does",
            figures.action_map(action_map, "proposed"),
            f"Map of the new policy's likeliest action, {over}; it differs in {changed} of {len(pairs)} cells.",
            f"Its likeliest action. It differs from the log in {changed} of {len(pairs)} cells.",
        ),
    ]


def legend(action_map: ActionMap | None) -> list[tuple[str, str]]:
    """Each action on the maps and its colour."""
    if action_map is None:
        return []
    grids = (action_map.logged, action_map.proposed)
    shown = {action for grid in grids for row in grid for action in row if action is not None}
    colours = figures.action_colours(action_map)
    return [(action_map.actions[action], variable(colours[action])) for action in sorted(shown)]


def _carried(shares: tuple[float, ...], part: float) -> float:
    ordered = sorted(shares, reverse=True)
    return sum(ordered[: max(1, round(part * len(ordered)))]) / sum(ordered)
