"""How far a log's value counts, and what it means that an episode was cut off.

The value of a policy is the expected (discounted) return up to a horizon H, or until the world ends the episode:

- *limit*: the world is made so. The value counts up to the limit, and what would have followed does not.
- *censored*: most episodes end by themselves, and of some the record stops earlier. What follows counts.
- *continuing*: most episodes go on beyond their record; what follows counts, discounted.

In the last two, rows are weighted by the chance of still being recorded (Kaplan and Meier's), so that those that are
stand for those that no longer are; H is the last step at which that chance is `RECORDED` at least. That is right where
records stop for reasons that have nothing to do with what would have followed, given the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

if TYPE_CHECKING:
    from statewise.data.dataset import Dataset

CutOff = Literal["limit", "censored", "continuing"]
MOST_STEPS = 10_000_000  # something is kept for each of them
RECORDED = 0.1  # weights are its inverse at most


class Horizon(NamedTuple):
    """What a log's owner says of its ends, or what the log itself shows."""

    cut_off: CutOff | None  # None: no episode was cut off
    steps: int | None = None  # H; None: as far as the log shows


def horizon_of(dataset: Dataset) -> Horizon:
    """What its owner says, and what the log shows where they do not."""
    longest = int(dataset.lengths.max())
    cut_off, steps = dataset.ends or Horizon(None)
    if cut_off is None:
        cut_off = _shown(dataset, longest) if steps is None else _shown(dataset, steps) or "limit"
    reached = longest
    if cut_off in ("censored", "continuing"):
        recorded, _ = still_recorded(dataset, longest)
        reached = 1 + int(np.flatnonzero(recorded[:-1] >= RECORDED)[-1])
    if steps is not None and cut_off == "limit" and (dataset.lengths[dataset.truncated] >= steps).all():
        return Horizon(cut_off, steps)  # known, even if no record comes that far
    return Horizon(cut_off, reached if steps is None else min(reached, steps))


def _shown(dataset: Dataset, steps: int) -> CutOff | None:
    """A limit, where no record stops before it; otherwise by how many episodes end by themselves."""
    cut = dataset.lengths[dataset.truncated]
    if (cut >= steps).all():
        return "limit" if len(cut) or steps < dataset.lengths.max() else None
    return "censored" if 2 * dataset.terminated.sum() >= dataset.episodes else "continuing"


def still_recorded(dataset: Dataset, steps: int) -> tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]:
    """G(t), the chance that a record reaches step t, and S(t), that an episode does; for t = 0 … `steps`.

    Of those that are recorded at t and do not end there, the share that is cut off after t is the hazard of G; the
    share that ends after t that of S.
    """
    lengths = np.minimum(dataset.lengths, steps)
    running = dataset.episodes - np.cumsum(np.bincount(lengths, minlength=steps + 1))[:steps]  # recorded at t
    ended = np.bincount(dataset.lengths[dataset.terminated] - 1, minlength=steps)[:steps]
    living = np.cumprod(1 - np.divide(ended, running, out=np.zeros(steps), where=running > 0))
    recorded = np.cumprod(1 - stopping(dataset, running - ended))
    return np.append(1.0, recorded), np.append(1.0, living)


def stopping(dataset: Dataset, on: Int[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """The share of those that are recorded at t and do not end there, `on`, whose records stop after t."""
    cut = np.bincount(dataset.lengths[dataset.truncated] - 1, minlength=len(on))[: len(on)]
    return np.divide(cut, on, out=np.zeros(len(on)), where=on > 0)


def moved_by_records(dataset: Dataset, counted: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " episodes"]:
    """What each episode adds, through the chance to be recorded, to Σ counted, values times `recorded_weight`; mean 0.

    With G(t) = Π_{s<t} (1 − h_s), a weight 1/G(t) grows by 1/(1 − h_s) with each of them, and h_s is a mean over those
    that go on at s: 1 where the record stops, otherwise 0. Were weights taken for known, whoever is recorded to the end
    would seem to have earned far more than whoever is not, and the error would come out two or three times too large.
    """
    cut_off, steps = dataset.horizon
    assert steps is not None
    if cut_off in (None, "limit"):
        return np.zeros(dataset.episodes)
    stops = steps - 1  # after the last step nothing needs to be recorded
    reached = np.minimum(dataset.lengths - dataset.terminated, stops)  # the steps at which each went on
    on = dataset.episodes - np.cumsum(np.bincount(reached, minlength=stops + 1))[:stops]
    hazard = stopping(dataset, on)
    until = np.minimum(_recorded_until(dataset), stops)
    later = np.cumsum(np.bincount(until, counted, minlength=stops + 1)[::-1])[::-1][1:]  # Σ of rows that need s + 1
    each = np.divide(later, (1 - hazard) * on, out=np.zeros(stops), where=(on > 0) & (hazard < 1))
    moved = -np.append(0.0, np.cumsum(each * hazard))[reached]
    cut = dataset.truncated & (dataset.lengths <= stops)
    moved[cut] += each[dataset.lengths[cut] - 1]
    return moved


def recorded_weight(dataset: Dataset) -> Float[np.ndarray, " steps"]:
    """What each row stands for: 1 in a log that nothing is missing from.

    A row that was cut off before the horizon stands for none, since what it led to is not known: those of its time that
    went on, or at the horizon, stand for it too. Rows beyond the horizon do not count. With a limit nothing is missing.
    """
    cut_off, steps = dataset.horizon
    assert steps is not None
    time = dataset.time
    if cut_off in (None, "limit"):
        within = time < steps
        return np.broadcast_to(1.0, len(time)) if within.all() else np.where(within, 1.0, 0.0)
    chance, _ = still_recorded(dataset, steps)
    chance[-1] = chance[-2]  # at the horizon nothing needs to follow
    cut = _last_rows(dataset, dataset.truncated)
    counts = (time < steps) & ~(cut & (time < steps - 1))
    until = np.minimum(_recorded_until(dataset), steps)
    return np.where(counts, 1 / np.where(counts, chance[until], 1.0), 0.0)


def _recorded_until(dataset: Dataset) -> Int[np.ndarray, " steps"]:
    """Whoever ended at t was recorded up to t; whoever went on, up to t + 1."""
    return dataset.time + 1 - _last_rows(dataset, dataset.terminated)


def nothing_follows(dataset: Dataset) -> Bool[np.ndarray, " steps"]:
    """The rows after which nothing counts: the world ended the episode, or its limit or the horizon is reached.

    What follows the other last rows is not known, and they weigh 0.
    """
    cut_off, steps = dataset.horizon
    assert steps is not None
    ended = np.ones(dataset.episodes, bool) if cut_off == "limit" else dataset.terminated
    return _last_rows(dataset, ended) | (dataset.time >= steps - 1)


def beyond(dataset: Dataset, discount: float) -> float:
    """The share of the (discounted) future that lies beyond the horizon: S(H) γᴴ."""
    steps = dataset.horizon.steps
    assert steps is not None
    return float(still_recorded(dataset, steps)[1][-1] * discount**steps)


def sentence(dataset: Dataset, discount: float) -> str:
    """What being cut off was taken to mean, and how far the value counts, in one sentence for a reader of results."""
    cut_off, steps = dataset.horizon
    lengths = dataset.lengths[dataset.truncated]
    asked = None if dataset.ends is None else dataset.ends.steps
    if cut_off is None:
        return "Every episode ends by itself: the value counts up to its end."
    if cut_off == "limit":
        if len(lengths) and (lengths == steps).all():
            return f"Episodes are cut off at step {steps:,}, the limit: the value counts up to it."
        if (lengths < steps).any():
            return "Episodes are cut off at limits of their own: the value counts up to them, not what would follow."
        return f"The value counts up to step {steps:,}, the horizon that was given."
    future = "of the episodes go on beyond it" if discount == 1 else "of the discounted future lies beyond it"
    far = f"up to step {steps:,}" if asked in (None, steps) else f"up to step {steps:,} of {asked:,}"
    far += "" if asked == steps else ", the last that enough records reach"
    counts = (
        f"rows are weighted by the chance of still being recorded, and the value counts {far}; "
        f"{percent(beyond(dataset, discount))} {future}."
    )
    cut = percent(len(lengths) / dataset.episodes)
    if cut_off == "censored":
        return f"The record of {cut} of the episodes stops before they end: {counts}"
    return f"Episodes go on beyond their records ({cut} were cut off): {counts}"


def said(cut_off: str | None, steps: int | None) -> Horizon | None:
    """What an owner says of a log's ends, checked."""
    if cut_off is None and steps is None:
        return None
    if cut_off is not None and cut_off not in get_args(CutOff):
        raise ValueError(f"cut_off: expected one of {', '.join(get_args(CutOff))}, got {cut_off!r}")
    if steps is not None and steps < 1:
        raise ValueError(f"horizon: expected a number of steps, at least 1, got {steps}")
    if steps is not None and steps > MOST_STEPS:
        raise ValueError(f"horizon: expected {MOST_STEPS:,} steps at most, got {steps:,}")
    return Horizon(cut_off, steps)  # pyright: ignore[reportArgumentType]


def _last_rows(dataset: Dataset, of_episode: Bool[np.ndarray, " episodes"]) -> Bool[np.ndarray, " steps"]:
    """True on the last row of the chosen episodes."""
    rows = np.zeros(len(dataset), bool)
    rows[dataset.starts[1:] - 1] = of_episode
    return rows


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"
