"""What an estimate rests on, in numbers; `measures` says what each of them means for the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from statewise.ope.intervals import freedom
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient, standard_error

CARRIERS = 10  # episodes that are named
CHANCE = 2.0  # standard errors
TAIL = 0.01  # the share of episodes whose weight `tail` gives


@dataclass(frozen=True)
class Support:
    """What an estimate rests on. Shares lie between 0 and 1; None: it has no such thing, or it cannot be known."""

    overlap: float  # E_μ[min(1, ρ)] = Σ_a min(π, μ), over rows: 1 where the policy does as the behaviour does
    effective_share: float  # effective sample size / episodes
    effective: float  # how many episodes, or whole units where the log has them, carry it …
    counted: int  # … of how many …
    counted_as: str  # … of what
    heaviest: float  # what no episode's weight can exceed; their mean is 1
    tail: float  # the share of all weight on the heaviest 1 % of episodes
    unsupported: float  # the share of the policy's mass on actions that the behaviour never takes there
    mass: float  # the mean of the weights: 1 up to noise, less where the policy's episodes are missing from the log
    mass_error: float  # its standard error
    agreement: float  # the mean probability that the policy gives to the logged actions
    carriers: tuple[tuple[Any, float], ...]  # the episodes that carry most of the estimate, and their shares of it
    imbalance: float | None = None  # the share by which the state ratio misses its equations on held-out episodes
    negative: float | None = None  # Σ max(−w, 0) / Σ max(w, 0): what had to be cut off of a closed-form ratio
    missed: float | None = None  # what a critic finds missing from a state ratio's estimate, in its standard errors
    leaning: float | None = None  # … and what it has added to a doubly robust one
    unseen: float | None = None  # the share of the policy's steps in situations that the log does not show, about
    freedom: float = np.inf  # how many degrees of freedom its standard error has


def support_of(case: Case, estimate: Quotient) -> Support:
    dataset = case.prepared.dataset
    weight, base = estimate.weight, estimate.base
    total = float(weight.sum())
    most = min(max(CARRIERS, round(TAIL * len(weight))), len(weight))
    order = np.argpartition(-weight, most - 1)[:most]
    order = order[np.argsort(-weight[order], kind="stable")]
    share = _effective_share(weight, base)
    groups = int(dataset.groups.max()) + 1
    effective = min(share * len(weight), groups * _of_groups(weight, base, dataset.groups))
    return Support(
        overlap=float(np.minimum(case.ratio, 1).mean()),
        effective_share=share,
        effective=effective,
        counted=groups,
        counted_as="episodes" if dataset.units is None else "units",
        heaviest=estimate.heaviest,
        tail=float(weight[order[: max(1, round(TAIL * len(weight)))]].sum() / total) if total > 0 else 1.0,
        unsupported=_untried(case) if estimate.reweighted else 0.0,
        mass=estimate.mass,
        mass_error=_mass_error(weight, base, dataset.groups),
        agreement=float(case.taken.mean()),
        carriers=tuple((dataset.episode_ids[e], float(weight[e] / total)) for e in order[:CARRIERS] if total > 0),
        imbalance=estimate.imbalance,
        negative=estimate.negative,
        missed=estimate.missed,
        leaning=estimate.leaning,
        unseen=estimate.unseen,
        freedom=freedom(estimate.influence(), dataset.groups),
    )


def _effective_share(weight: Float[np.ndarray, " n"], base: Float[np.ndarray, " n"]) -> float:
    """(Σw)²/Σw² beside (Σb)²/Σb²: 1 where every episode carries what it would without reweighting."""
    total = float(weight.sum())
    share = total**2 / np.sum(weight**2) * np.sum(base**2) / base.sum() ** 2 if total > 0 else 0.0
    return float(min(share, 1.0))


def _of_groups(
    weight: Float[np.ndarray, " episodes"], base: Float[np.ndarray, " episodes"], groups: Int[np.ndarray, " episodes"]
) -> float:
    """The same for whole groups; where one holds most of the log, it counts for as much."""
    sums = np.bincount(groups, weight)
    total = float(sums.sum())
    return (
        float(total**2 / np.sum(sums**2) / len(sums))
        if groups.max() + 1 < len(groups) and total > 0
        else _effective_share(weight, base)
    )


def _mass_error(
    weight: Float[np.ndarray, " episodes"], base: Float[np.ndarray, " episodes"], groups: Int[np.ndarray, " episodes"]
) -> float:
    mean = float(weight.sum() / base.sum())
    return standard_error((weight - mean * base) / base.mean(), groups)


def _untried(case: Case) -> float:
    """What was not tried, as far as it is more than chance."""
    share, error = case.untried.share, case.untried.error
    return share if share > CHANCE * error else 0.0
