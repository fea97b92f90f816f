"""Linear critics in the state ratio's own features: V̂ by one solve, Q̂ by one regression for each action.

V̂ = qᵀφ with Σᵢ ωᵢ φᵢ (φᵢ − ρᵢ γcᵢ φ'ᵢ)ᵀ q = Σᵢ ωᵢ ρᵢ rᵢ φᵢ (least-squares temporal differences), and
Q̂(·,a) = the ridge regression of r + γcV̂(s') on φ over the rows where a was taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from statewise.ope.equations import Equations
from statewise.ope.prepared import Case
from statewise.parts.ratio_closed_form import FOLDS

RIDGE = 1e-4  # of features with second moment 1
# Of the normal equations, which have the squares of 1 − γP: what changes slowly, as health does, has little there, and
# a penalty fit for w takes it for noise. On HIV this is the difference between values 70 % too low and 11 % off.
SLOW = 1e-6


def state_values(
    case: Case, rewards: Float[np.ndarray, " steps"]
) -> tuple[Float[np.ndarray, " steps"], Float[np.ndarray, " steps"]]:
    """V̂ of each row's state, and of the state after it (0 at an episode's end)."""
    equations = case.prepared.horizon_equations
    weights = _temporal_differences(case, rewards, range(len(equations.folds)))
    seen = case.prepared.to_come(rewards)
    values = np.clip(equations.in_log_order(equations.here @ weights.astype(np.float32)), seen.min(), seen.max())
    return values, np.append(values[1:], 0.0)


def action_values(
    case: Case, rewards: Float[np.ndarray, " steps"]
) -> tuple[Float[np.ndarray, " steps"], Float[np.ndarray, " steps"]]:
    """Q̂(s,a) of the logged actions and V̂(s) = Σ_a π(a|s) Q̂(s,a), fitted to the episodes of other folds than its own."""
    log, equations = case.prepared, case.prepared.horizon_equations
    actions = log.dataset.action_count
    taken, reward = log.dataset.actions[equations.order], rewards[equations.order]
    regressions = [_regressions(equations, taken, reward, a, b, actions) for a, b in equations.folds]
    everything = np.empty((len(taken), actions))
    for held_out, (a, b) in enumerate(equations.folds):
        others = [f for f in range(len(equations.folds)) if f != held_out]
        value = _temporal_differences(case, rewards, others)
        grams, onward, earned = (np.sum([regressions[f][i] for f in others], axis=0) for i in range(3))
        ridge = RIDGE * np.eye(len(value))
        targets = earned + onward @ value
        weights = np.stack([np.linalg.solve(grams[j] + ridge, targets[j]) for j in range(actions)], axis=1)
        everything[a:b] = equations.here[a:b] @ weights.astype(np.float32)
    seen = case.prepared.to_come(rewards)  # what no logged episode came near, no critic is believed
    everything = np.clip(equations.in_log_order(everything), seen.min(), seen.max())
    chosen = np.take_along_axis(everything, log.dataset.actions[:, None].astype(np.int64), axis=1)[:, 0]
    return chosen, (everything * case.probabilities).sum(axis=1)


def _temporal_differences(
    case: Case, rewards: Float[np.ndarray, " steps"], folds: Sequence[int]
) -> Float[np.ndarray, " rank"]:
    equations, solved = case.prepared.horizon_equations, case.horizon_solved
    carried = equations.weight * case.ratio[equations.order]
    reward = rewards[equations.order]
    matrix = np.zeros_like(equations.fixed[0])
    earned = np.zeros(len(matrix))
    fresh = equations.initial.mean(axis=0)
    for f in folds:
        a, b = equations.folds[f]
        begins = _sum(equations.here[a:b], carried[a:b] * equations.restart[a:b])
        # x' = γcφ' + (1 − γc)φ̄₀: what begins anew is no part of this episode's value
        matrix += equations.fixed[f] - solved.moved[f].T + np.outer(begins, fresh)
        earned += _sum(equations.here[a:b], carried[a:b] * reward[a:b])
    # the normal equations: where the policy is far from the behaviour, G itself can be singular
    normal = matrix.T @ matrix + (len(folds) / FOLDS) ** 2 * SLOW * np.eye(len(matrix))
    return np.linalg.solve(normal, matrix.T @ earned)


def _regressions(
    equations: Equations, taken: np.ndarray, reward: np.ndarray, first: int, last: int, actions: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Σ ω φφᵀ, Σ ω φ(γcφ')ᵀ and Σ ω r φ over a fold's rows, for each action."""
    fresh = equations.initial.mean(axis=0)
    grams, onward, earned = [], [], []
    for action in range(actions):
        rows = first + np.flatnonzero(taken[first:last] == action)
        here, weight = equations.here[rows], equations.weight[rows].astype(np.float32)
        scaled = here * weight[:, None]
        grams.append((scaled.T @ here).astype(np.float64))
        begins = _sum(here, equations.weight[rows] * equations.restart[rows])
        onward.append((scaled.T @ equations.arrived[rows]).astype(np.float64) - np.outer(begins, fresh))
        earned.append(_sum(here, equations.weight[rows] * reward[rows]))
    return np.stack(grams), np.stack(onward), np.stack(earned)


def _sum(features: np.ndarray, weight: np.ndarray) -> Float[np.ndarray, " rank"]:
    return (weight.astype(np.float32) @ features).astype(np.float64)
