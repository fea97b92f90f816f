"""What a report says, as plain values; `RUN/decision.json` holds the same, except for what is in the run folder anyway.

decision.json is one object. Required: `answer` (deploy, do not deploy, collect more data) and `because` (one sentence).
All else is optional; `ReportContent` lists it, and each part is described with its class.
`to_json(ReportContent(…))` is the file's text. Learning curves, seeds, versions and the data's fingerprint come from
the run folder.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from statewise.base.decode import DecodeError, decode
from statewise.base.jsonable import jsonable
from statewise.ope.examples import Example
from statewise.ope.measures import Measurement
from statewise.ope.next_log import Situation
from statewise.ope.subgroups import GroupGain
from statewise.ope.verdict import Verdict
from statewise.ope.who_loses import Changes
from statewise.policies.rule import Rule
from statewise.report.facts import FlowStep, LogFacts

Answer = Literal["deploy", "do not deploy", "collect more data", "not evaluated"]
Role = Literal["current", "chosen", "goal", "other", "gain"]  # gain: of the chosen policy over current practice


@dataclass(frozen=True)
class Worth:
    """What one policy is worth on held-out episodes. Where the log does not identify it, there is no number."""

    name: str  # as a reader would call it: "current practice", "the new policy", "Off-PAC, seed 2"
    role: Role
    verdict: Verdict
    estimator: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    effective_sample_size: float | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        numbers = (self.value, self.low, self.high)
        if self.verdict == "not identified" and any(number is not None for number in numbers):
            raise DecodeError(f"{self.name}: expected no value, low or high, since it is not identified")
        if self.verdict != "not identified" and self.value is None:
            raise DecodeError(f"{self.name}: expected a value, since it is {self.verdict}")

    @classmethod
    def of(cls, name: str, role: Role, estimate: Any) -> Worth:
        """The numbers of an `Estimate`; infinite ones are left out."""
        everything = estimate.as_dict()
        numbers = {key: everything[key] for key in ("value", "low", "high", "effective_sample_size")}
        finite = {key: None if one is None or not math.isfinite(one) else float(one) for key, one in numbers.items()}
        return cls(name, role, estimate.verdict, estimate.estimator, reason=estimate.reason, **finite)


@dataclass(frozen=True)
class PathStep:
    """A step from what is done today (0) to the goal (1), and what the log says of its gain over today."""

    step: float
    verdict: Verdict
    gain: float | None = None
    low: float | None = None  # the gain is at least this, at the path's level, whatever number of steps were tried
    passed: bool = False
    deployed: bool = False


@dataclass(frozen=True)
class NextLog:
    """What to log next."""

    sentence: str
    episodes: int | None = None
    chance: float | None = None
    situations: tuple[Situation, ...] = ()


@dataclass(frozen=True)
class Histogram:
    """The shares of held-out decisions whose π(a|s)/μ(a|s) falls between neighbouring `edges`."""

    edges: tuple[float, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.shares) + 1:
            counts = f"{len(self.edges)} edges and {len(self.shares)} shares"
            raise DecodeError(f"expected one more edge than shares, got {counts}")


@dataclass(frozen=True)
class Calibration:
    """Of decisions with about the `predicted` propensity, the share in which the action was taken (`observed`)."""

    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint is worth on the episodes used for choosing."""

    run: str
    seed: int
    update: int
    verdict: Verdict
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Place:
    """The chosen checkpoint."""

    run: str
    seed: int
    update: int


@dataclass(frozen=True)
class ActionMap:
    """Actions over two observation columns (over one, if `y` is empty). Cells without enough data are null."""

    actions: tuple[str, ...]
    x: str
    y: str
    x_edges: tuple[float, ...]
    y_edges: tuple[float, ...]
    logged: tuple[tuple[int | None, ...], ...]  # [rows of y, columns of x]: the action most often taken
    proposed: tuple[tuple[int | None, ...], ...]  # the action with the greatest mean probability


@dataclass(frozen=True)
class Agreement:
    """Where the log took action i, the mean probability that the new policy gives to action j."""

    actions: tuple[str, ...]
    counts: tuple[int, ...]  # decisions in which the log took each action
    probabilities: tuple[tuple[float, ...], ...]
    same: float  # mean probability of the logged action


@dataclass(frozen=True)
class Carrier:
    """An episode and the share of the estimate's total weight that it carries."""

    episode: str
    share: float
    value: float  # its return


@dataclass(frozen=True)
class Curve:
    """One metric of one seed during learning."""

    metric: str
    run: str
    seed: int
    updates: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class ReportContent:
    """Everything on the page."""

    answer: Answer
    because: str
    title: str = "Should the new policy be used?"
    hidden_reason: float | None = None  # Γ, how strong one that is not in the log must be to turn *deploy* over
    value_name: str = "return of an episode"
    counted: str = ""  # how far the value counts, in one sentence
    level: float = 0.95  # of every interval
    worths: tuple[Worth, ...] = ()
    measures: tuple[Measurement, ...] = ()  # what the answer rests on, the decisive one first
    path: tuple[PathStep, ...] = ()  # in the order of the steps, as far as they were tested
    next_log: NextLog | None = None
    facts: LogFacts | None = None
    step: float = 0.0  # how far to the goal the policy is that was judged: to be deployed, or the first one tested
    way: str = "mixture"  # how it lies between both: `policies.path`
    goal_name: str = ""
    rule: Rule | None = None  # the goal in a few words
    subgroups: tuple[GroupGain, ...] = ()  # by the first state
    changes: Changes | None = None  # who gains and who loses
    periods: tuple[GroupGain, ...] = ()  # early and late
    estimators: tuple[Worth, ...] = ()  # the same policy by other estimators
    examples: tuple[Example, ...] = ()
    flow: tuple[FlowStep, ...] = ()
    overlap: Histogram | None = None
    weight_shares: tuple[float, ...] = ()  # each held-out episode's share of the total weight
    calibration: Calibration | None = None  # where propensities were estimated
    checkpoints: tuple[Checkpoint, ...] = ()
    chosen: Place | None = None
    action_map: ActionMap | None = None
    agreement: Agreement | None = None
    carriers: tuple[Carrier, ...] = ()
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    # from the run folder
    curves: tuple[Curve, ...] = ()
    manifest: dict[str, Any] = field(default_factory=dict)
    folder: str = ""

    def worth(self, role: str) -> Worth | None:
        """The first one with that role."""
        return next((worth for worth in self.worths if worth.role == role), None)


def from_json(text: str) -> ReportContent:
    """Reads decision.json; an error names the field that does not fit."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise DecodeError(f"it is not JSON ({reason})") from error
    return decode(ReportContent, fields, "decision")


def to_json(content: ReportContent) -> str:
    """Writes decision.json; numbers that are not finite become null."""
    return json.dumps(jsonable(content), indent=1, ensure_ascii=False)
