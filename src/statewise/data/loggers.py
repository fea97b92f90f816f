"""Who decided, where a log says so: its episodes by logger, oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

if TYPE_CHECKING:
    from statewise.data.dataset import Dataset

TURNS = 4  # changes from one logger to another that a handover may take
MIXED = 0.5  # of the changes that there would be if the logger were drawn anew for each episode


def newest_last(names: np.ndarray) -> Int[np.ndarray, " episodes"]:
    """Numbers for the loggers, in the order of each one's last episode: who came back is the newest again."""
    backwards, last = np.unique(names[::-1], return_index=True)
    order = backwards[np.argsort(-last)]
    place = {name: number for number, name in enumerate(order.tolist())}
    return np.array([place[name] for name in names.tolist()], np.int64)


def by_logger(log: Dataset) -> tuple[Dataset, ...]:
    """A log for each of its named loggers, oldest first; the log itself where it names none or one.

    Raises ValueError where they took turns: then none of them is what is done today.
    """
    if log.logged_by is None or len(np.unique(log.logged_by)) == 1:
        return (log,)
    number = newest_last(log.logged_by)
    changes, shares = int(np.count_nonzero(np.diff(number))), np.bincount(number) / len(number)
    if changes > max(TURNS, MIXED * len(number) * (1 - float(shares @ shares))):
        names = ", ".join(map(str, np.unique(log.logged_by)[:4].tolist()))
        raise ValueError(
            f"the loggers {names} took turns in the log, so that none of them is what is done today; without the "
            "column `logger` they count as one, and each in a file of its own as older and newer logs"
        )
    return tuple(log.take(number == each) for each in range(len(shares)))
