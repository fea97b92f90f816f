"""What every estimator returns: a quotient of sums over episodes, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

USUAL = 64  # features of a state


class Allowance(NamedTuple):
    """Standard errors, on either side, for what no redrawn episodes would show."""

    below: float = 0.0  # the truth may lie so much lower
    above: float = 0.0

    def less(self, other: Allowance, share: float) -> Allowance:
        """Without that share of the other's, which both have."""
        return Allowance(*(max(own - share * its, 0.0) for own, its in zip(self, other, strict=True)))


NONE = Allowance()


@dataclass(frozen=True, eq=False)
class Quotient:
    """θ = Σ numerator / Σ denominator over episodes; a plain mean has denominator 1. And what it rests on."""

    numerator: Float[np.ndarray, " episodes"]
    denominator: Float[np.ndarray, " episodes"]
    weight: Float[np.ndarray, " episodes"]  # what each episode carries of the estimate …
    base: Float[np.ndarray, " episodes"]  # … and would carry if the policy were the behaviour
    mass: float = 1.0  # the mean of the weights, which is 1 up to noise
    heaviest: float = float("inf")  # what no episode's weight can exceed, in units of its base
    # None: it rests on no such thing
    imbalance: float | None = None  # of the state ratio's equations
    negative: float | None = None  # the share of the state ratio's mass that was cut off at 0
    rank: int = 0  # how many features the state ratio has
    missed: float | None = None  # what a critic finds missing from the estimate, in standard errors
    leaning: float | None = None  # by how many a critic has moved it
    unseen: float | None = None  # the share of the policy's steps where the log has never been, about
    allowance: Allowance = NONE  # beside what `influence` shows
    reweighted: bool = True  # False: it says nothing of the policy
    by_states: bool = False  # it takes for granted that an observation tells all that matters

    @property
    def more_features(self) -> float:
        """`USUAL` features over those of the ratio, at most 1: of more, each is a little noisier."""
        return min(USUAL / max(self.rank, 1), 1.0)

    @property
    def value(self) -> float:
        total = self.denominator.sum()
        return float(self.numerator.sum() / total) if total != 0 else float("nan")

    def influence(self) -> Float[np.ndarray, " episodes"]:
        """(N_e − θ D_e) / mean D: what each episode moves the estimate by."""
        if self.denominator.sum() == 0:  # no episode carries any weight: there is no estimate
            return np.full(len(self.numerator), np.nan)
        return (self.numerator - self.value * self.denominator) / self.denominator.mean()


def difference(one: Quotient, other: Quotient) -> Quotient:
    """θ₁ − θ₂ of two estimates on the same episodes, paired, to first order; it rests on what the first does."""
    return mean_of(one.value - other.value + (one.influence() - other.influence()), one)


def mean_of(values: Float[np.ndarray, " episodes"], like: Quotient) -> Quotient:
    """The mean of values, one an episode, resting on what `like` does."""
    return replace(like, numerator=values, denominator=np.ones(len(values)))


def per(one: Quotient, other: Quotient) -> Quotient:
    """θ₁/θ₂ of two estimates on the same episodes, to first order in each."""
    return replace(one, numerator=one.value + one.influence(), denominator=other.value + other.influence())


def standard_error(influence: Float[np.ndarray, " episodes"], groups: Int[np.ndarray, " episodes"]) -> float:
    """√(Σ_g (Σ_{e∈g} influence_e)² · G/(G−1)) / episodes; with one episode a group it is std/√episodes."""
    if not np.isfinite(influence).all():
        return float("inf")
    sums = np.bincount(groups, influence)
    count = len(sums)
    return float(np.sqrt(np.sum(sums**2) * count / (count - 1)) / len(influence)) if count > 1 else float("inf")
