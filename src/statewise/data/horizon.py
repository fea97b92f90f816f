"""How far a log's value counts, and what it means that an episode was cut off.

The value of a policy is the expected (discounted) return up to a horizon H, or until the world ends the episode:

- *limit*: every episode that was cut off was so at one step. The world is made so, and the value counts to there.
- *censored*: most episodes end by themselves, and of some the record stops earlier. What follows counts.
- *continuing*: most episodes go on beyond their record; what follows counts, discounted.

In the last two, rows are weighted by the chance of still being recorded (Kaplan and Meier's), so that those that are
stand for those that no longer are; H is the last step at which that chance is `RECORDED` at least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from statewise.data.dataset import Dataset

CutOff = Literal["limit", "censored", "continuing"]
RECORDED = 0.1  # weights are its inverse at most


class Horizon(NamedTuple):
    """What a log's owner says of its ends, or what the log itself shows."""

    cut_off: CutOff | None  # None: no episode was cut off
    steps: int | None = None  # H; None: as far as the log shows


def horizon_of(dataset: Dataset) -> Horizon:
    """What its owner says, and what the log shows where they do not."""
    longest = int(dataset.lengths.max())
    cut_off, steps = dataset.ends or Horizon(None)
    if cut_off is None and (steps is not None or dataset.truncated.any()):
        cut = np.unique(dataset.lengths[dataset.truncated])
        at_one_step = len(cut) == 1 and cut[0] == longest
        shown = "censored" if 2 * dataset.terminated.sum() >= dataset.episodes else "continuing"
        cut_off = "limit" if steps is not None or at_one_step else shown
    recorded, _ = still_recorded(dataset, longest)
    reached = 1 + int(np.flatnonzero(recorded[:-1] >= RECORDED)[-1])
    return Horizon(cut_off, min(reached, longest if steps is None else steps))


def still_recorded(dataset: Dataset, steps: int) -> tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]:
    """G(t), the chance that a record reaches step t, and S(t), that an episode does; for t = 0 … `steps`.

    Of those that are recorded at t and do not end there, the share that is cut off after t is the hazard of G; the
    share that ends after t that of S.
    """
    lengths = np.minimum(dataset.lengths, steps)
    running = dataset.episodes - np.cumsum(np.bincount(lengths, minlength=steps + 1))[:steps]  # recorded at t
    ended = np.bincount(dataset.lengths[dataset.terminated] - 1, minlength=steps)[:steps]
    cut = np.bincount(dataset.lengths[dataset.truncated] - 1, minlength=steps)[:steps]
    on = running - ended
    recorded = np.cumprod(1 - np.divide(cut, on, out=np.zeros(steps), where=on > 0))
    living = np.cumprod(1 - np.divide(ended, running, out=np.zeros(steps), where=running > 0))
    return np.append(1.0, recorded), np.append(1.0, living)


def recorded_weight(dataset: Dataset) -> Float[np.ndarray, " steps"]:
    """What each row stands for: 1 in a log that nothing is missing from.

    A row that was cut off before the horizon stands for none, since what it led to is not known: those of its time that
    went on, or at the horizon, stand for it too. Rows beyond the horizon do not count.
    """
    _, steps = dataset.horizon
    assert steps is not None
    chance, _ = still_recorded(dataset, steps)
    chance[-1] = chance[-2]  # at the horizon nothing needs to follow
    time, last = dataset.time, dataset.starts[1:] - 1
    ended, cut = np.zeros(len(dataset), bool), np.zeros(len(dataset), bool)
    ended[last], cut[last] = dataset.terminated, dataset.truncated
    counts = (time < steps) & ~(cut & (time < steps - 1))
    # whoever ended at t was recorded up to t; whoever went on, up to t + 1
    until = np.minimum(np.where(ended, time, time + 1), steps)
    return np.where(counts, 1 / np.where(counts, chance[until], 1.0), 0.0)


def beyond(dataset: Dataset, discount: float) -> float:
    """The share of the (discounted) future that lies beyond the horizon: S(H) γᴴ."""
    steps = dataset.horizon.steps
    assert steps is not None
    return float(still_recorded(dataset, steps)[1][-1] * discount**steps)


def said(cut_off: str | None, steps: int | None) -> Horizon | None:
    """What an owner says of a log's ends, checked."""
    if cut_off is None and steps is None:
        return None
    if cut_off is not None and cut_off not in get_args(CutOff):
        raise ValueError(f"cut_off: expected one of {', '.join(get_args(CutOff))}, got {cut_off!r}")
    if steps is not None and steps < 1:
        raise ValueError(f"horizon: expected a number of steps, at least 1, got {steps}")
    return Horizon(cut_off, steps)  # pyright: ignore[reportArgumentType]
