"""How far a log supports a policy's evaluation: measures of overlap, and the verdict that they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["supported", "weak", "not identified"]


@dataclass(frozen=True)
class Support:
    """What an estimate rests on. Shares lie between 0 and 1."""

    overlap: float  # E_μ[min(1, ρ)] = Σ_a min(π, μ), over rows: 1 where the policy does as the behaviour does
    effective_share: float  # effective sample size / episodes
    tail: float  # the share of all weight on the heaviest 1 % of episodes
    unsupported: float  # the share of the policy's mass on actions that the behaviour never takes there
    agreement: float  # the mean probability that the policy gives to the logged actions
    carriers: tuple[
        tuple[Any, float], ...
    ]  # the episodes that carry most of the estimate, and their shares of its weight
    residual: float = float("nan")  # what is left of the state ratio's equations on held-out episodes; nan: none solved
