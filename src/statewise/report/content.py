"""What a report says, as plain values; `RUN/decision.json` holds the same, but for what the run folder knows itself.

decision.json is one object. Needed: `answer` (deploy, do not deploy, collect more data) and `because` (one sentence).
Optional, each described below at the class of its values: `title`, `value_name`, `level`, `worths`, `checks`,
`overlap`, `weight_shares`, `calibration`, `checkpoints`, `chosen`, `action_map`, `agreement`, `carriers`, `notes`,
`settings`. `compare.action_map` and `compare.agreement` make theirs; `to_json(ReportContent(…))` writes the file.
Learning curves, seeds, versions and the data's fingerprint come from the run folder.
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from statewise.base.jsonable import jsonable

Answer = Literal["deploy", "do not deploy", "collect more data", "not evaluated"]
Verdict = Literal["supported", "weak", "not identified"]
Role = Literal["current", "chosen", "other", "gain"]  # gain: of the chosen over current practice


class ContentError(ValueError):
    """The values are not such as a report can be made of."""


@dataclass(frozen=True)
class Worth:
    """What one policy is worth, by held-out episodes. Where the log does not identify it there is no number."""

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
            raise ContentError(f"{self.name}: it is not identified, so it must come without value, low and high")
        if self.verdict != "not identified" and self.value is None:
            raise ContentError(f"{self.name}: it is {self.verdict}, so it needs a value")

    @classmethod
    def of(cls, name: str, role: Role, estimate: Any) -> Worth:
        """What an `Estimate` says; where it is not identified, its numbers are left behind, as are infinite ends."""
        known = estimate.verdict != "not identified"
        ends = (estimate.value, estimate.low, estimate.high)
        value, low, high = (float(end) if known and math.isfinite(end) else None for end in ends)
        size = float(estimate.effective_sample_size)
        return cls(name, role, estimate.verdict, estimate.estimator, value, low, high, size, estimate.reason)


@dataclass(frozen=True)
class Check:
    """One thing that must hold for the answer to be believed."""

    name: str
    outcome: Literal["good", "doubtful", "bad"]
    measured: str  # the number, in words: "84 of 150 episodes"
    meaning: str  # what it says to someone who has never heard of it


@dataclass(frozen=True)
class Histogram:
    """How often π(a|s)/μ(a|s) of the held-out decisions falls between `edges`, in shares of all."""

    edges: tuple[float, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.shares) + 1:
            raise ContentError("a histogram needs one edge more than shares")


@dataclass(frozen=True)
class Calibration:
    """Of decisions with about the `predicted` propensity, the share in which the action was really taken."""

    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's worth on the episodes that chose it."""

    run: str
    seed: int
    update: int
    verdict: Verdict
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Place:
    """Which checkpoint was chosen."""

    run: str
    seed: int
    update: int


@dataclass(frozen=True)
class ActionMap:
    """What is done where, over two observation columns (`y` empty: over one). Cells without enough data are null."""

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
    counts: tuple[int, ...]  # decisions in which the log took each
    probabilities: tuple[tuple[float, ...], ...]
    same: float  # mean probability of doing what was logged


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
    value_name: str = "return of an episode"
    level: float = 0.95  # of every interval
    worths: tuple[Worth, ...] = ()
    checks: tuple[Check, ...] = ()
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
        """The first of that role."""
        return next((worth for worth in self.worths if worth.role == role), None)


def from_json(text: str) -> ReportContent:
    """Reads decision.json; what does not fit is named with its place."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ContentError(f"it is not JSON ({error})") from error
    return _made(ReportContent, given, "decision")


def to_json(content: ReportContent) -> str:
    """Writes decision.json; numbers that are not finite become null."""
    return json.dumps(jsonable(content), indent=1, ensure_ascii=False)


def _made(kind: Any, given: Any, where: str) -> Any:
    """`given` as `kind`, one of the few kinds that stand in the classes above."""
    origin = get_origin(kind)
    if kind is Any or (origin is dict and isinstance(given, dict)):
        return given
    if is_dataclass(kind) and isinstance(given, dict):
        return _object(kind, given, where)
    if origin is tuple and isinstance(given, list):
        return tuple(_made(get_args(kind)[0], item, f"{where}[{i}]") for i, item in enumerate(given))
    if origin is Literal and given in get_args(kind):
        return given
    if origin in (Union, UnionType):
        return None if given is None else _made(get_args(kind)[0], given, where)
    if kind is float and isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return float(given)
    if kind in (int, str) and isinstance(given, kind) and not isinstance(given, bool):
        return given
    choices = f" one of {', '.join(get_args(kind))}" if origin is Literal else ""
    raise ContentError(f"{where} is {json.dumps(given)[:60]}, not{choices or f' {_word(kind, origin)}'}")


def _object(kind: Any, given: dict[str, Any], where: str) -> Any:
    kinds = get_type_hints(kind)
    missing = [
        each.name
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING and each.name not in given
    ]
    unknown = sorted(set(given) - set(kinds))
    if missing or unknown:
        wrong = f"'{missing[0]}' is missing" if missing else f"'{unknown[0]}' is not known"
        raise ContentError(f"{where}: {wrong}")
    try:
        return kind(**{name: _made(kinds[name], value, f"{where}.{name}") for name, value in given.items()})
    except ContentError as error:
        raise ContentError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None


def _word(kind: Any, origin: Any) -> str:
    words = {float: "a number", int: "a whole number", str: "text", tuple: "a list", dict: "an object"}
    return words.get(origin or kind, "an object")
