"""Several loggers as one: the probability of each decision under the mixture of all that wrote the log.

An episode of the whole log was written by logger k with chance n_k/n. Given what happened up to step t, it was k's with
chance αₖ ∝ n_k Π_{u<t} μ_k(a_u|s_u), and so action a is taken next with probability

    μ̄(a|h) = Σₖ αₖ μ_k(a|s).

The product of these over an episode is the mixture's probability of it: weighing by π/μ̄ is the balance heuristic of
Veach and Guibas (1995). No episode then weighs more because its own logger was unlikely to write it, although another
was likely to: weights are bounded by those of the nearest logger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from statewise.data.concat import concat
from statewise.data.dataset import Dataset
from statewise.policies.external import as_target
from statewise.policies.probabilities import probabilities_of
from statewise.propensities.calibration import taken


def balanced(dataset: Dataset, policies: Sequence[Any]) -> Dataset:
    """The log with the mixture's probabilities in place of each logger's own; one policy for each of its loggers.

    >>> balanced(concat([first, second]), [today, load_policy("run-1/policy.safetensors")])  # doctest: +SKIP
    """
    if dataset.loggers is None:
        raise ValueError("the log is of one logger; join several with `statewise.concat`")
    count = int(dataset.loggers.max()) + 1
    if len(policies) != count:
        raise ValueError(f"policies: expected one for each of the {count} loggers, got {len(policies)}")
    chances = np.stack([probabilities_of(as_target(policy), dataset) for policy in policies])
    written = np.bincount(dataset.loggers, minlength=count).astype(float)
    mixed = np.einsum("kn,kna->na", _posterior(dataset, chances, written), chances)
    own = taken(mixed, dataset.actions)
    if (own <= 0).any():
        row = int(np.flatnonzero(own <= 0)[0])
        raise ValueError(
            f"none of the loggers' policies takes action {dataset.action_names[dataset.actions[row]]} at decision "
            f"{row}, which the log holds; give each logger the policy that it followed"
        )
    return replace(dataset, propensities=own, distributions=mixed, estimated=None)


def together(logs: Sequence[Dataset], policies: Sequence[Any]) -> Dataset:
    """Several logs as one, oldest first: `balanced`, if the newest policy then weighs rows more evenly than before."""
    apart = concat(logs)
    mixed = balanced(apart, policies)
    newest = taken(probabilities_of(as_target(policies[-1]), apart), apart.actions)
    assert apart.propensities is not None
    assert mixed.propensities is not None
    own, shared = (effective_share(newest / chances) for chances in (apart.propensities, mixed.propensities))
    return mixed if shared > own else apart


def effective_share(weights: Float[np.ndarray, " steps"]) -> float:
    """(Σρ)² / nΣρ²: as large a share of the rows would tell as much if all counted alike."""
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))


def _posterior(
    dataset: Dataset, chances: Float[np.ndarray, "loggers steps actions"], written: Float[np.ndarray, " loggers"]
) -> Float[np.ndarray, "loggers steps"]:
    """αₖ before each row's own decision."""
    with np.errstate(divide="ignore"):
        logs = np.stack([np.log(taken(own, dataset.actions)) for own in chances])
    # −∞ would leave NaN where sums are taken apart again; e⁻³⁰⁰ is nothing beside whatever logger did it
    logs = np.maximum(logs, -300.0)
    running = np.cumsum(logs, axis=1) - logs
    running -= np.repeat(running[:, dataset.starts[:-1]], dataset.lengths, axis=1)
    running += np.log(written)[:, None]
    weights = np.exp(running - running.max(axis=0))
    return weights / weights.sum(axis=0)
