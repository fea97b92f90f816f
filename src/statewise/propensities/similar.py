"""Groups of similar states: a log's states are halved, again and again, at the median of what differs most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.base.column import like

FEWEST = 30  # rows in a group, where the log has as many
SIZE = 3.0  # a group has about SIZE·√n rows: groups become both more and larger with the log
LOOKED_AT = 1000  # rows of a group by which its halves are chosen
SHOWN = 3  # conditions by which a group is described


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group each row is in, and by which conditions each group was parted from the others."""

    of_row: Int[np.ndarray, " steps"]
    bounds: tuple[dict[int, tuple[float, float]], ...]  # of each group: above, and up to, by column

    def __len__(self) -> int:
        return len(self.bounds)

    def describe(self, group: int, names: tuple[str, ...]) -> str:
        """`age > 3, dose ≤ 1.5`; the last conditions, which part it from its nearest, come first."""
        parts = []
        for column, (low, high) in reversed(self.bounds[group].items()):
            above = f"{low:.4g} < " if np.isfinite(low) else ""
            parts.append(
                f"{above}{names[column]} ≤ {high:.4g}" if np.isfinite(high) else f"{names[column]} > {low:.4g}"
            )
        return ", ".join(parts[:SHOWN])


def similar_states(observations: Float[np.ndarray, "steps features"]) -> Groups:
    """Groups of about equal size. States that are equal stay together, as far as that leaves groups to be made."""
    rows, features = observations.shape
    everyone = np.arange(rows, dtype=np.int32 if rows < 2**31 else np.int64)
    spread = observations[_some(everyone)].std(axis=0, dtype=np.float64)
    scale = np.where(spread > 0, spread, 1.0)
    size = max(FEWEST, SIZE * np.sqrt(rows))
    of_row = like(observations, rows, np.int64)
    bounds: list[dict[int, tuple[float, float]]] = []
    open_groups: list[tuple[np.ndarray, dict[int, tuple[float, float]]]] = [(everyone, {})]
    del everyone
    while open_groups:
        members, conditions = open_groups.pop()
        halves = _halves(observations, members, scale) if len(members) >= 2 * size and features else None
        if halves is None:
            of_row[members] = len(bounds)
            bounds.append(conditions)
            continue
        column, threshold, upper = halves
        low, high = conditions.get(column, (-np.inf, np.inf))
        others = {name: bound for name, bound in conditions.items() if name != column}
        open_groups.append((members[upper], others | {column: (threshold, high)}))
        open_groups.append((members[~upper], others | {column: (low, threshold)}))
    return Groups(of_row, tuple(bounds))


def _halves(
    observations: np.ndarray, members: Int[np.ndarray, " members"], scale: Float[np.ndarray, " features"]
) -> tuple[int, float, Bool[np.ndarray, " members"]] | None:
    """The column that differs most, where to part it, and who lies above; None where all are alike."""
    seen = observations[_some(members)] / scale
    for column in np.argsort(-seen.std(axis=0), kind="stable"):
        values = observations[members, column]
        middle = float(np.median(observations[_some(members), column]))
        for threshold in (middle, float(np.nextafter(middle, -np.inf))):  # many may lie at the median itself
            upper = values > threshold
            if FEWEST <= upper.sum() <= len(members) - FEWEST:
                return int(column), threshold, upper
    return None


def _some(rows: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " some"]:
    """At most `LOOKED_AT` of them, evenly spread."""
    return rows if len(rows) <= LOOKED_AT else rows[np.linspace(0, len(rows) - 1, LOOKED_AT).astype(np.int64)]
