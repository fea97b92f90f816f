"""Steps between two policies on one log: what their equations have in common.

Of a mixture, ρ and κ are linear in the step s, so that the sums of products in the ratio's equations (`flows_of`) are
of second degree: known at three steps, they are known at all. A walk of a dozen steps then sums up products of its rows
three times instead of a dozen, and these are two fifths of its time. The first of the three is today itself, where the
ways to all candidates begin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from statewise.data.dataset import Dataset
from statewise.data.device import propensities_of
from statewise.ope.equations import Equations
from statewise.ope.solution import Policy, flows_of

NODES = (0.0, 0.5, 1.0)
MOST = 2**23  # numbers in the sums of a step: beyond, three of them would take more memory than they are worth


@dataclass(frozen=True, eq=False)
class Mixture:
    """(1 − s)μ + sπ of two policies' probabilities on a log's rows."""

    today: Float[np.ndarray, "rows actions"]
    goal: Float[np.ndarray, "rows actions"]
    step: float

    def at(self, step: float) -> Float[np.ndarray, "rows actions"]:
        return (1 - step) * self.today + step * self.goal


def beginning_of(
    mixture: Mixture, equations: Equations, dataset: Dataset
) -> Float[np.ndarray, "folds sets rank rank"] | None:
    """The flows of today; None where those of three steps would be too large."""
    today = _policy(equations, dataset, mixture.today)
    size = len(equations.mean) * today.sets * equations.rows.rank**2
    return flows_of(today) if size <= MOST else None


def nodes_of(
    mixture: Mixture, beginning: Float[np.ndarray, "folds sets rank rank"], equations: Equations, dataset: Dataset
) -> Float[np.ndarray, "nodes folds sets rank rank"]:
    """The flows at `NODES`, which all steps share."""
    later = (_policy(equations, dataset, mixture.at(node)) for node in NODES[1:])
    return np.stack([beginning, *map(flows_of, later)])


def between(
    nodes: Float[np.ndarray, "nodes folds sets rank rank"], step: float
) -> Float[np.ndarray, "folds sets rank rank"]:
    """The flows at a step: the parabola through the nodes."""
    shares = (1 - step) * (1 - 2 * step), 4 * step * (1 - step), step * (2 * step - 1)
    return np.tensordot(shares, nodes, axes=1)


def _policy(equations: Equations, dataset: Dataset, probabilities: Float[np.ndarray, "rows actions"]) -> Policy:
    taken = np.take_along_axis(probabilities, dataset.actions[:, None].astype(np.int64), axis=1)[:, 0]
    return Policy(equations, taken / propensities_of(dataset), probabilities)
