"""How far a log supports a policy's evaluation: measures of overlap, and the verdict that they add up to.

Each measure answers one way in which an estimate can be wrong without its interval showing it. Beyond its first bound
an estimate is *weak* (read it as an order of magnitude), beyond its second *not identified* (no number is told).

- Too few episodes: a mean of fewer than 30 has no dependable standard error, of fewer than 10 none at all.
- Weights too skewed for so many episodes. An interval from a standard error misses its level by something like
  skewness²/n. The weights' own skewness is seen only once the rare heavy episode has come; the effective share s
  tells it earlier: for log-normal weights, as products of ratios are nearly, skewness² = (1/s + 2)² (1/s − 1).
- Decisions that the log never holds: what they earn is not in it.
- Mass that has gone missing: importance weights have mean 1, and a mean far from it tells of episodes that the policy
  would have and the log has not, or of a few that outweigh all.
- A state ratio that misses its equations on held-out episodes by more than the noise of their number and its spread, or
  is negative in a part of its mass. Test functions have second moment 1, so what is left of the equations is a share.
  Measured on CartPole, policies of all distances: beyond the second bounds estimates were off by an eighth to three
  quarters and far outside their intervals; within the first they were inside.
- A state ratio that misses its equations just where this reward's value changes: little of all tests, much of the
  estimate. A critic tells how much, or rather half of it. Measured on HIV, where health changes slowly: the ratio stays
  near 1, all else looks well, and estimates are 30 to 90 % too low; the critic finds 1.5 to 80 standard errors missing,
  on other domains a tenth of one. A doubly robust estimate has them, but where they are many it rests on the critic
  alone, whose bias no interval holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from statewise.ope.intervals import Quotient
    from statewise.ope.prepared import Case

Verdict = Literal["supported", "weak", "not identified"]

CARRIERS = 10  # episodes that are named
TAIL = 0.01  # the share of episodes whose weight `tail` tells

# an estimate is supported up to the first bound, and identified up to the second
EPISODES = (1 / 30, 1 / 10)  # one over the effective number
SKEWNESS = (0.05, 0.5)  # the square of the weights' skewness over the episodes
UNSUPPORTED = (0.01, 0.05)
MASS = (0.2, 0.5)  # the mean weight differs from 1 by this
IMBALANCE = (0.03, 0.065)
NEGATIVE = (0.0005, 0.02)
MISSED = (1.0, 4.0)
LEANING = (2.0, float("inf"))


@dataclass(frozen=True)
class Support:
    """What an estimate rests on. Shares lie between 0 and 1."""

    overlap: float  # E_μ[min(1, ρ)] = Σ_a min(π, μ), over rows: 1 where the policy does as the behaviour does
    effective_share: float  # effective sample size / episodes
    tail: float  # the share of all weight on the heaviest 1 % of episodes
    unsupported: float  # the share of the policy's mass on actions that the behaviour never takes there
    mass: float  # the mean of the weights: 1 up to noise, less where the policy's episodes are missing from the log
    agreement: float  # the mean probability that the policy gives to the logged actions
    carriers: tuple[tuple[Any, float], ...]  # the episodes that carry most of the estimate, and their shares of it
    imbalance: float = 0.0  # the share by which the state ratio misses its equations on held-out episodes; 0: none used
    negative: float = 0.0  # Σ max(−w, 0) / Σ max(w, 0): what had to be cut off of a closed-form ratio
    missed: float = 0.0  # what a critic finds missing from a state ratio's estimate, in its standard errors
    leaning: float = 0.0  # … and what it has added to a doubly robust one


def support_of(case: Case, found: Quotient) -> Support:
    dataset = case.prepared.dataset
    weight, base = found.weight, found.base
    total = float(weight.sum())
    most = min(max(CARRIERS, round(TAIL * len(weight))), len(weight))
    order = np.argpartition(-weight, most - 1)[:most]
    order = order[np.argsort(-weight[order], kind="stable")]
    share = total**2 / np.sum(weight**2) * np.sum(base**2) / base.sum() ** 2 if total > 0 else 0.0
    return Support(
        overlap=float(np.minimum(case.ratio, 1).mean()),
        effective_share=float(min(share, 1.0)),
        tail=float(weight[order[: max(1, round(TAIL * len(weight)))]].sum() / total) if total > 0 else 1.0,
        unsupported=case.unsupported if found.reweighted else 0.0,
        mass=found.mass,
        agreement=float(case.taken.mean()),
        carriers=tuple((dataset.episode_ids[e], float(weight[e] / total)) for e in order[:CARRIERS] if total > 0),
        imbalance=found.imbalance,
        negative=found.negative,
        missed=found.missed,
        leaning=found.leaning,
    )


def verdict_of(support: Support, episodes: int) -> tuple[Verdict, str]:
    """The worst that any measure says, and that measure in a sentence."""
    effective = support.effective_share * episodes
    inverse = 1 / max(support.effective_share, 1e-12)
    skewness = (inverse + 2) ** 2 * (inverse - 1) / episodes
    # each measure as something that should be small
    findings = (
        (
            support.unsupported,
            UNSUPPORTED,
            f"{_percent(support.unsupported)} of the policy's decisions are ones that the log's behaviour never takes",
        ),
        (1 / max(effective, 1e-12), EPISODES, f"it rests on about {effective:.1f} of {episodes} episodes"),
        (
            abs(support.mass - 1),
            MASS,
            f"importance weights have mean {support.mass:.2g} instead of 1: the log lacks much of what the policy does",
        ),
        (
            support.negative,
            NEGATIVE,
            f"{_percent(support.negative)} of the state ratio is negative, which no ratio is: the policy goes where "
            "the log has not been",
        ),
        (
            support.imbalance,
            IMBALANCE,
            f"the state ratio misses its equations by {_percent(support.imbalance)} on held-out episodes: the policy "
            "goes where the log has not been",
        ),
        (
            support.missed,
            MISSED,
            f"a critic finds {support.missed:.1f} standard errors missing: the state ratio does not follow the policy "
            "to where the rewards are",
        ),
        (
            support.leaning,
            LEANING,
            f"the critic corrects the state ratio by {support.leaning:.1f} standard errors: the estimate rests on it "
            "alone",
        ),
        (
            skewness,
            SKEWNESS,
            f"few episodes outweigh the others: {episodes} count for about {effective:.1f}, too few for such weights",
        ),
    )
    verdicts: tuple[tuple[int, Verdict], ...] = ((1, "not identified"), (0, "weak"))
    for level, verdict in verdicts:
        for measured, bounds, words in findings:
            if not measured <= bounds[level]:  # what is not a number is beyond every bound
                return verdict, words
    return "supported", f"{effective:.0f} of {episodes} episodes carry it"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
