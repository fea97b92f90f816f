"""The way from what is done today to another policy: every step of it is a policy like any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Float

from statewise.policies.files import KINDS, StoredPolicy, full_card, save_policy
from statewise.policies.predict import classes, predict, predict_proba

Way = Literal["mixture", "geometric"]
ENDS = ("today", "goal")
DEEPEST = 20  # paths within paths in a file: one a round


def blended(
    today: Float[np.ndarray, "n actions"], goal: Float[np.ndarray, "n actions"], step: float, way: Way = "mixture"
) -> Float[np.ndarray, "n actions"]:
    """(1 − s)μ + sπ, or μ^(1−s)·π^s/Σ; where the product is 0 for every action, what is done today.

    >>> blended(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]), 0.2)
    array([[0.6, 0.4]])
    """
    if way == "mixture":
        return (1 - step) * today + step * goal
    if step in (0, 1):
        return goal if step else today
    product = today ** (1 - step) * goal**step
    total = product.sum(axis=1, keepdims=True)
    return np.where(total > 0, product / np.where(total > 0, total, 1.0), today)


@dataclass(frozen=True, eq=False)
class PathPolicy:
    """π_s, a step s of the way from `today` (s = 0) to `goal` (s = 1).

    As a mixture, (1 − s)μ(a|s) + sπ(a|s): in a share s of the decisions the goal decides, in the others it is as today.
    """

    format: ClassVar[str] = "statewise-path-1"

    today: Any
    goal: Any
    step: float
    way: Way = "mixture"
    card: Mapping[str, Any] = field(default_factory=dict)

    @property
    def observation_names(self) -> tuple[str, ...]:
        return self.today.observation_names

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.today.action_names

    def probabilities(self, observations: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
        """π(·|s), [n, actions], for observations [n, features]; actions that are not `legal` have probability 0."""
        today, goal = (_probabilities(getattr(self, end), observations, legal) for end in ENDS)
        return blended(today, goal, self.step, self.way)

    predict, predict_proba, classes_ = predict, predict_proba, property(classes)

    def full_card(self) -> dict[str, Any]:
        """All that the file says about itself but the arrays, as JSON can hold it."""
        described = {end: getattr(self, end).full_card() for end in ENDS}
        return full_card(self, described["today"]["observations"], step=self.step, way=self.way, **described)

    def save(self, path: str | Path) -> None:
        """Writes the file whole or not at all."""
        for end in ENDS:
            if not isinstance(getattr(self, end), StoredPolicy):
                raise ValueError(
                    f"{end}: expected a policy that has a file of its own, got a {type(getattr(self, end)).__name__}; "
                    "a step towards it can be judged, but not saved"
                )
        save_policy(self, path)

    def tensors(self) -> dict[str, np.ndarray]:
        return {f"{end}.{name}": array for end in ENDS for name, array in getattr(self, end).tensors().items()}

    def header(self) -> dict[str, Any]:
        return {"step": self.step, "way": self.way} | {end: _described(getattr(self, end)) for end in ENDS}

    @classmethod
    def from_parts(cls, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any], **common: Any) -> PathPolicy:
        step, way, depth = header["step"], header["way"], common.pop("depth", 0)
        if type(step) not in (int, float) or not 0 <= step <= 1:
            raise ValueError(f"expected a step from 0 to 1, got {step!r}")
        if way not in get_args(Way):
            raise ValueError(f"expected a way that is one of {', '.join(get_args(Way))}, got {way!r}")
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} nested paths")
        if any(name.partition(".")[0] not in ENDS for name in tensors):
            raise ValueError("expected arrays of its two ends and nothing else")
        names = {name: common[name] for name in ("observation_names", "action_names")}
        ends = {end: _end(end, tensors, header[end], names, depth) for end in ENDS}
        return cls(**ends, step=float(step), way=way, card=common["card"])


def _probabilities(policy: Any, observations: np.ndarray, legal: np.ndarray | None) -> np.ndarray:
    """Of a policy from a file, or of a function of observations alone."""
    if isinstance(policy, StoredPolicy):
        return policy.probabilities(observations, legal)
    given = np.asarray(getattr(policy, "probabilities", policy)(observations), np.float64)
    if legal is None:
        return given
    allowed = np.where(legal, given, 0.0)
    return allowed / allowed.sum(axis=1, keepdims=True)


def _described(policy: Any) -> dict[str, Any]:
    return {"format": policy.format, "card": dict(policy.card), "header": policy.header()}


def _end(
    end: str, tensors: Mapping[str, np.ndarray], described: Any, names: Mapping[str, tuple[str, ...]], depth: int
) -> Any:
    if not isinstance(described, dict) or not all(isinstance(described[key], dict) for key in ("card", "header")):
        raise ValueError(f"expected a description of its {end}")
    if described["format"] not in KINDS:
        raise ValueError(f"the kind of its {end}, {described['format']!r}, is not known here")
    own = {name.partition(".")[2]: array for name, array in tensors.items() if name.partition(".")[0] == end}
    kind: Any = KINDS[described["format"]]
    deeper = {"depth": depth + 1} if kind is PathPolicy else {}
    return kind.from_parts(own, described["header"], card=described["card"], **names, **deeper)
