"""What to do next, step by step, and what no check of this page can tell."""

from __future__ import annotations

from statewise.report.content import ReportContent
from statewise.report.formatting import percent

# what every answer takes for granted, whatever the checks say
UNCHECKED = (
    "Whether the reward is what you care about. A policy that earns more of it may cost something that it does not "
    "count: look at the rule and at the examples.",
    "Whether the future is like the log: the same people, the same actions with the same effects. Early and late "
    "episodes were compared; what comes after the log cannot be.",
    "Whether those who decided saw something that no column holds, and that also affects the outcome.",
    "Whether one person's treatment affects another's outcome: episodes of different units count as independent.",
    "Whether the columns mean what they are taken to mean: known before the decision, and measured alike for all.",
)


def next_steps(content: ReportContent) -> list[str]:
    """In the order in which to take them."""
    following = [] if content.next_log is None else [content.next_log.sentence]
    if content.answer == "not evaluated":
        return ["Run `statewise improve` on the log: it learns, judges and writes this page anew."]
    if content.answer != "deploy":
        return ["Go on as today: nothing better is certain yet.", *following]
    steps = ["Read the rule, the examples and the checks below with someone who knows the decisions."]
    if content.step:
        steps.append(f"Deploy policy.safetensors, beside this page: it {follows(content)}.")
    return [*steps, *following]


def follows(content: ReportContent) -> str:
    """How far the policy that was judged does as the goal would."""
    if content.step >= 1:
        return "follows the goal in every decision"
    if content.way == "geometric":
        return f"leans {percent(content.step)} of the way from today towards the goal, in every decision"
    return f"follows the goal in {percent(content.step)} of the decisions, and does as today in the others"
